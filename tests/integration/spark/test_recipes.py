"""The pipelines of docs/recipes, taken from the pages word for word and run against a broker."""

from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.integration.recipes import programs
from tests.integration.spark.pipeline_support import committed
from tidelog.client import Producer
from tidelog.spark.pipeline.definition.loading import load_pipeline
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


def test_a_pipeline_keeps_the_headers_of_a_trace(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))
    (code,) = [each for each in programs("tracing.md", {}) if "Pipeline(" in each]
    (tmp_path / "pack.py").write_text(code)
    trace = [("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"), ("correlation-id", b"order-1042")]
    for name in ("invoices", "parcels"):
        broker.create_topic(name)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("invoices", b"3 apples", headers=trace)
        producer.send("invoices", None, headers=trace)
        producer.flush()
    pipeline = load_pipeline(str(tmp_path / "pack.py"))
    start(pipeline, spark, servers=broker.bootstrap_servers, once=True).wait(Event())
    (parcel,) = committed(broker.bootstrap_servers, "parcels")
    assert (parcel.value, list(parcel.headers)) == (b"3 apples", trace)
    (letter,) = committed(broker.bootstrap_servers, "invoices.dlq")
    assert list(letter.headers[:2]) == trace
