"""Source and sink on a listener that demands a password, which no plan, progress or checkpoint shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.client import Admin, NewTopic
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "correct-horse-battery"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="spark" password="{PASSWORD}" user_spark="{PASSWORD}";'
    ),
}
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{MODULE} required username="spark" password="{PASSWORD}";',
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(config=SETTINGS, process=True) as broker:
        yield broker


def options(broker: Broker, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in CLIENT.items()},
        **more,
    }


@pytest.mark.long
def test_an_exactly_once_stream_runs_with_a_password_that_nothing_shows(
    spark: SparkSession, secured: Broker, tmp_path: Path
) -> None:
    with Admin(CLIENT, bootstrap_servers=secured.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("in", partitions=2), NewTopic("out", partitions=2)])
    rows = spark.range(200).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("tidelog").options(**options(secured, topic="in")).mode("append").save()

    checkpoint = tmp_path / "checkpoint"
    source = (
        spark.readStream.format("tidelog")
        .options(**options(secured, subscribe="in", startingOffsets="earliest"))
        .load()
    )
    query = (
        source.selectExpr("key", "value")
        .writeStream.format("tidelog")
        .options(**options(secured, topic="out", checkpointLocation=str(checkpoint)))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None

    found = (
        spark.read.format("tidelog")
        .options(**options(secured, subscribe="out", **{"kafka.isolation.level": "read_committed"}))
        .load()
    )
    assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(200))

    shown = [str(progress) for progress in query.recentProgress]
    shown += [frame._jdf.queryExecution().toString() for frame in (source, found)]
    shown += [path.read_bytes().decode(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    assert shown
    assert not [text for text in shown if PASSWORD in text]


def test_a_wrong_password_is_named_as_such(spark: SparkSession, secured: Broker) -> None:
    wrong = options(secured, subscribe="in", **{"kafka.sasl.jaas.config": CLIENT["sasl.jaas.config"].replace("-", "+")})
    with pytest.raises(Exception, match=r"(?i)authentication") as refused:
        spark.read.format("tidelog").options(**wrong).load().count()
    assert PASSWORD not in str(refused.value)
    assert PASSWORD.replace("-", "+") not in str(refused.value)
