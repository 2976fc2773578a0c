"""Spark's own connector and ours on each kind of secured listener, with each mechanism: one writes, the other reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.compat.security.conftest import Secured, secured_broker
from tests.compat.security.secured import MECHANISMS, PASSWORD, USER, java_settings
from tests.compat.spark_connector.connectors import FORMATS, TUNING

WAYS = [
    "SSL",
    *(f"{protocol} {mechanism}" for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured"), {USER: PASSWORD}) as found:
        yield found


@pytest.mark.parametrize("way", WAYS)
def test_each_writes_what_the_other_reads(spark: SparkSession, secured: Secured, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    settings = {"bootstrap.servers": secured.address(protocol)}
    settings |= java_settings(secured.certificates, protocol, mechanism)
    options = {f"kafka.{name}": value for name, value in settings.items()}
    for writer, reader in (FORMATS, FORMATS[::-1]):
        topic = f"{writer}-{way}".replace(" ", "-").lower()
        rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        rows.write.format(writer).options(**options, topic=topic).mode("append").save()
        found = spark.read.format(reader).options(**options, **TUNING[reader], subscribe=topic).load()
        assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(20))
