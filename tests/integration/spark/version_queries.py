"""Source, sink, and pipelines with a policy and in update mode, on whatever PySpark is found first; prints JSON.

PYTHONPATH=DIRECTORY_OF_A_PYSPARK python -m tests.integration.spark.version_queries SERVERS DIRECTORY
"""

import json
import sys
from threading import Event

import pyspark
from pyspark.sql import DataFrame

from tidelog.spark import internals, place_rows, spark_session
from tidelog.spark.pipeline import DeadLetters, Pipeline, fail_when, pack_json, parse_json, topic
from tidelog.spark.pipeline.running.run import start


def counted(orders: DataFrame) -> DataFrame:
    """How often each order is there."""
    return orders.groupBy("id").count().selectExpr("string(id) AS key", "string(count) AS value")


def main(servers: str, directory: str) -> None:
    settings = {"spark.sql.shuffle.partitions": "2"}
    spark = spark_session(master="local[2]", settings=settings, local_checkpoints=True)
    options = {"kafka.bootstrap.servers": servers}
    reading = {"subscribe": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    rows = spark.readStream.format("tidelog").options(**options, **reading).load().select("key", "value")
    placed = place_rows(rows, topic="copied", bootstrap_servers=servers)
    writing = {"topic": "copied", "checkpointLocation": f"{directory}/copied"}
    query = placed.writeStream.format("tidelog").options(**options, **writing).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    found = {"version": pyspark.__version__, "batches": len(query.recentProgress)}
    found["hashes_in_jvm"] = internals.murmur2(rows) is not None

    parsed = parse_json("id long")
    for pipeline in (
        Pipeline(
            "clean",
            source=topic("orders"),
            steps=[parsed, fail_when("id % 10 = 3", "a three"), pack_json("id", key="id")],
            sink=topic("clean"),
            on_failure=DeadLetters("dead"),
            checkpoint=f"{directory}/clean",
        ),
        Pipeline(
            "counts",
            source=topic("orders"),
            steps=[parsed, counted],
            sink=topic("counts"),
            output_mode="update",
            checkpoint=f"{directory}/counts",
        ),
    ):
        start(pipeline, spark, servers=servers, once=True).wait(Event())
    print(json.dumps(found), flush=True)
    internals.end_java()


if __name__ == "__main__":
    main(*sys.argv[1:])
