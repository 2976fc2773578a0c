"""The examples of docs/clients.md run on Tidelog. `tests/compat/apache_kafka` runs the same on Apache Kafka."""

import pytest

from tests.integration.client_examples import check_output, run_examples
from tidelog.testing import Broker


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker({"num.partitions": 2}) as broker:
        run_examples(broker.bootstrap_servers, monkeypatch)
    check_output(capsys.readouterr().out)
