"""The examples of docs/clients.md run on Apache Kafka as they do on Tidelog."""

import pytest

from tests.integration.client_examples import check_output, run_examples


def test_the_examples_run(servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(servers, monkeypatch)
    check_output(capsys.readouterr().out)
