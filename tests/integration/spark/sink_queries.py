"""Queries in a driver of their own: `python -m tests.integration.spark.sink_queries plan.json`, to be killed.

The plan is a list of queries, run in one session, a few at a time. Each reads numbers from Spark's own rate source, a
hundred a batch, and writes them to a topic; it is stopped when its last batch is committed. What became of each is
written to `<name>.ended` in the directory of the plan.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.spark import place_rows, spark_session

ROWS_PER_BATCH = 100
KEYS = 14
AT_A_TIME = 2
TRANSACTION_TIMEOUT_MS = 600_000
"""Longer than any test, so that a fenced writer does not fail as too slow."""


def start(spark: SparkSession, servers: str, directory: Path, query: dict[str, Any]) -> StreamingQuery:
    """Start one query of the plan."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", query.get("splits", 2))
        .load()
    )
    # With two splits all numbers of a key are in the same one, so their order is defined.
    rows = numbers.selectExpr(f"cast(value % {KEYS} as string) key", "cast(value as string) value")
    if query.get("placed", True):
        rows = place_rows(rows, topic=query["topic"], bootstrap_servers=servers, tasks=2)
    writer = (
        rows.writeStream.format("faulty")
        .queryName(query["name"])
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        .option("topic", query["topic"])
        .option("delivery", query["delivery"])
        .option("checkpointLocation", str(directory / "checkpoints" / query["topic"]))
    )
    if query.get("fault"):
        writer = writer.option("fault", query["fault"]).option("faultBatch", query["fault_batch"])
        writer = writer.option("faultFile", str(directory / query["name"]))
    return writer.start()


def finish(running: StreamingQuery, batches: int) -> str | None:
    """How a query has ended, None if it runs: stopped after its last batch, or failed."""
    moment: Any = 0.001  # PySpark's types want whole seconds; the method takes a part of one
    try:
        if running.awaitTermination(moment):
            return "ended"
    except StreamingQueryException as error:
        return str(error)
    progress = running.lastProgress
    if progress is not None and progress["batchId"] >= batches - 1:
        running.stop()
        return "done"
    return None


class Plan:
    """The queries of a plan, each started when there is room for it, and again where the plan says so."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path, queries: list[dict[str, Any]]) -> None:
        self._spark = spark
        self._servers = servers
        self._directory = directory
        self._waiting = queries
        self._running: dict[str, tuple[dict[str, Any], StreamingQuery]] = {}

    def run(self) -> None:
        """Return when all have ended."""
        while self._waiting or self._running:
            # More at a time would need a Python worker each, and take longer.
            busy = sum(not self._file(name, "reached").exists() for name in self._running)
            if self._waiting and busy < AT_A_TIME and self._is_due(self._waiting[0]):
                query = self._waiting.pop(0)
                self._running[query["name"]] = (query, start(self._spark, self._servers, self._directory, query))
            for name, (query, handle) in list(self._running.items()):
                if self._file(name, "stop").exists():
                    self._file(name, "stop").unlink()
                    handle.stop()
                ended = finish(handle, query["batches"])
                if ended is not None:
                    self._note(query, ended)
            time.sleep(0.02)

    def _is_due(self, query: dict[str, Any]) -> bool:
        return query.get("after") is None or self._file(query["after"], "ended").exists()

    def _note(self, query: dict[str, Any], ended: str) -> None:
        name = query["name"]
        del self._running[name]
        if not query.get("restart"):
            self._file(name, "ended").write_text(ended)
            return
        self._file(name, "failed").write_text(ended)
        self._file(name, "reached").unlink(missing_ok=True)
        self._waiting.insert(0, {**query, "fault": None, "restart": False})

    def _file(self, name: str, what: str) -> Path:
        return self._directory / f"{name}.{what}"


def main() -> None:
    path = Path(sys.argv[1])
    plan = json.loads(path.read_text())
    settings = {
        "spark.log.level": "OFF",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
        # A few rows a batch: what compilers could gain is less than what they take.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        **plan["settings"],
    }
    spark = spark_session("faults", master=plan["master"], settings=settings, local_checkpoints=True)
    from tests.integration.spark.sink_faults import FaultyDataSource

    spark.dataSource.register(FaultyDataSource)
    Plan(spark, plan["servers"], path.parent, plan["queries"]).run()
    spark.stop()


if __name__ == "__main__":
    main()
