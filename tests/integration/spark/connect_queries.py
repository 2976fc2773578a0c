"""Source, sink, `place_rows`, `write_each_batch` and pipelines in a session of Spark Connect; prints JSON.

python -m tests.integration.spark.connect_queries SERVERS DIRECTORY

A program of its own, because a process has either a session of Connect or one with a driver of its own.
"""

import json
import sys
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import forget_last_commit
from tidelog.spark import place_rows, write_each_batch
from tidelog.spark.pipeline import DeadLetters, Pipeline, each_batch, fail_when, pack_json, parse_json, topic
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.running.run import start
from tidelog.spark.session import prepare_environment

PATIENCE_S = 200


class Queries:
    """Queries of one session, on one cluster."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._options = {"kafka.bootstrap.servers": servers}
        self._directory = directory

    def copied_batch(self) -> None:
        """A batch, read and written; each row by the task that owns its partition."""
        rows = self._spark.read.format("tidelog").options(**self._options, subscribe="orders").load()
        placed = place_rows(rows.select("key", "value"), topic="batch", bootstrap_servers=self._servers)
        placed.write.format("tidelog").options(**self._options, topic="batch").mode("append").save()

    def copied_stream(self) -> None:
        """A stream, written exactly once."""
        placed = place_rows(self._stream().select("key", "value"), topic="stream", bootstrap_servers=self._servers)
        self._run(placed.writeStream.format("tidelog").options(**self._options, topic="stream"), "stream")

    def counted(self, **options: str) -> str | None:
        """Counts in update mode, which only a function can write."""
        counts = self._stream().groupBy("key").count().selectExpr("key", "string(count) AS value")
        write = write_each_batch(**self._options, topic="counts", **options)
        return self._run(counts.writeStream.outputMode("update").foreachBatch(write), "counts")

    def pipeline(self) -> None:
        """A pipeline with a policy: everything in one plan."""
        pipeline = Pipeline(
            "clean",
            source=topic("orders"),
            steps=[parse_json("id long"), fail_when("id % 10 = 3", "a three"), pack_json("id", key="id")],
            sink=topic("clean"),
            on_failure=DeadLetters("dead"),
            checkpoint=str(self._directory / "clean"),
        )
        start(pipeline, self._spark, servers=self._servers, once=True).wait(Event())

    def refused_pipeline(self) -> str:
        """A pipeline whose batches need a function."""
        sink = each_batch(lambda rows, batch_id: None)
        pipeline = Pipeline("own", source=topic("orders"), sink=sink, checkpoint=str(self._directory / "own"))
        try:
            start(pipeline, self._spark, servers=self._servers, once=True)
        except PipelineError as error:
            return str(error)
        return "it ran"

    def _stream(self) -> DataFrame:
        reading = {"subscribe": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
        return self._spark.readStream.format("tidelog").options(**self._options, **reading).load()

    def _run(self, writer: Any, name: str) -> str | None:
        place = str(self._directory / name)
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(PATIENCE_S)
        except Exception as error:
            return str(error)
        return None


def main(servers: str, directory: Path) -> None:
    prepare_environment()
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    queries = Queries(spark, servers, directory)
    queries.copied_batch()
    queries.copied_stream()
    found: dict[str, Any] = {"unnamed": queries.counted()}
    found["named"] = queries.counted(transactionalId="counts-of-orders")
    forget_last_commit(directory / "counts")
    found["repeated"] = queries.counted(transactionalId="counts-of-orders")
    queries.pipeline()
    found["refused"] = queries.refused_pipeline()
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
