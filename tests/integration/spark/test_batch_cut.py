"""A batch that exceeds its transaction's timeout is planned smaller at the next start; each row is written once."""

import json
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.integration.spark.pipeline_support import committed, ids, make_topics, send_orders
from tidelog.spark.pipeline import Pipeline, pack_json, row_step, topic
from tidelog.spark.pipeline.running.batch_cut import TOOK_TOO_LONG
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

ORDERS = 60
STARTS_MAX = 8


@row_step("id long", columns=["value"])
def slowly(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.2)
    return {"id": json.loads(row["value"])["id"]}


def run_once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    start(pipeline, spark, servers=servers, once=True).wait(Event())


def test_a_batch_that_takes_too_long_is_cut_at_the_next_start(spark: SparkSession, tmp_path: Path) -> None:
    """Sixty rows take at least six seconds on two cores, and a transaction may be open for four."""
    with Broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}, process=True) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, slow=2, slow_clean=2)
        send_orders(servers, "slow", range(ORDERS), keys=7)
        pipeline = Pipeline(
            "slow",
            source=topic("slow"),
            steps=[slowly, pack_json("id")],
            sink=topic("slow.clean", options={"kafka.transaction.timeout.ms": 4000}),
            checkpoint=str(tmp_path / "checkpoint"),
        )
        with pytest.raises(StreamingQueryException, match=TOOK_TOO_LONG):
            run_once(pipeline, spark, servers)
        assert committed(servers, "slow.clean") == [], "the first batch has all rows, and nothing of it is there"
        for _ in range(STARTS_MAX):
            # A slow machine may need a second cut.
            with suppress(StreamingQueryException):
                run_once(pipeline, spark, servers)
                break
        assert sorted(ids(committed(servers, "slow.clean"))) == list(range(ORDERS))
