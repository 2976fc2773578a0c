"""A pipeline has one connection for all that it reads and writes."""

from pathlib import Path
from typing import Any

import pytest

from tidelog.spark.pipeline import Pipeline, PipelineError, topic
from tidelog.spark.pipeline.definition.connection import COMMAND_CONFIG_VARIABLE

ENDS: dict[str, Any] = {"source": topic("a"), "sink": topic("b")}
SECRET = "correct-horse"


def test_spark_gets_a_file_and_clients_get_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMAND_CONFIG_VARIABLE, raising=False)
    settings = {"security.protocol": "SASL_SSL", "sasl.jaas.config": SECRET, "bootstrap.servers": "h:1", "acks": "all"}
    pipeline = Pipeline("p", **ENDS, client_settings=settings)
    connection = pipeline.connection()

    assert connection.client() == {name: value for name, value in settings.items() if name != "acks"}
    assert set(connection.options()) == {"kafka.bootstrap.servers", "commandConfig"}
    assert SECRET not in f"{connection!r} {pipeline!r} {connection.options()}"
    assert Pipeline("p", **ENDS).connection("h:2").options() == {"kafka.bootstrap.servers": "h:2"}


def test_a_file_comes_from_the_definition_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = tmp_path / "named.properties", tmp_path / "other.properties"
    named.write_text("bootstrap.servers=named:1\nsecurity.protocol=SSL\n")
    other.write_text("bootstrap.servers=other:1\nsecurity.protocol=SSL\n")
    monkeypatch.setenv(COMMAND_CONFIG_VARIABLE, str(other))

    connection = Pipeline("p", **ENDS, command_config=named).connection()
    assert (connection.servers, connection.options()["commandConfig"]) == ("named:1", str(named))
    assert Pipeline("p", **ENDS).connection().servers == "other:1"
    assert Pipeline("p", **ENDS, bootstrap_servers="h:1").connection().servers == "h:1"
    assert Pipeline("p", **ENDS, client_settings={"security.protocol": "PLAINTEXT"}).connection("h:1").file is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [("ssl.truststore.locaton=/x\n", "'kafka.ssl.truststore.locaton' is not supported"), (None, "cannot be read")],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "client.properties"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PipelineError, match=reason):
        Pipeline("p", **ENDS, command_config=path).connection("h:1")
