"""A topic in a lake: every payment once, in Parquet files and in a Delta Lake table, with a backfill of what is older.

    python payments_lake.py begin                           the lake begins with new records only
    tidelog pipeline run payments_lake.py:parquet_files     files by day, in ./lake/payments-parquet
    tidelog pipeline run payments_lake.py:delta_table       a Delta table, in ./lake/payments-delta
    python payments_lake.py backfill DIRECTORY              older records, from the segment files of a broker

Spark's file sink keeps a log of the files of each batch; readers that use Spark see each row once. Any reader of the
Delta table sees each row once.

Where the lake begins is kept in ./lake/begin.json, offsets by partition: the pipelines start there and a backfill ends
there, so that together they have every payment once. Without `begin` the pipelines read everything. A backfill takes
segment files straight from a log directory, whose broker need not run; one that is repeated changes nothing.
"""

import json
import os
import sys
from typing import TYPE_CHECKING

from tidelog.spark.pipeline import Pipeline, delta, parquet, parse_json, topic
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "payments"
PAYMENT = "payment_id long, account string, amount_cents long, day string, at_ms long"
LAKE = os.environ.get("TIDELOG_LAKE", "lake")


def payments(records: "DataFrame") -> "DataFrame":
    """The columns of the lake: the payment, and where its record was."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    at = F.timestamp_millis("at_ms").alias("at")
    return records.select("payment_id", "account", "amount_cents", "day", at, "partition", "offset")


def begin(bootstrap_servers: str) -> None:
    """Let the lake begin at the end of the topic; once, because rows that are in it stay in it."""
    from tidelog.client.admin import Admin
    from tidelog.client.aio.admin.types import LATEST
    from tidelog.client.types import TopicPartition

    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        partitions = [each.partition for each in admin.describe_topics([TOPIC])[TOPIC].partitions]
        found = admin.list_offsets({TopicPartition(TOPIC, each): LATEST for each in partitions})
    ends = {where.partition: place for where, place in found.items()}
    os.makedirs(LAKE, exist_ok=True)
    with open(_begin_path(), "x", encoding="utf-8") as file:
        json.dump({TOPIC: {str(partition): end.offset for partition, end in sorted(ends.items())}}, file)


def begins_at() -> str:
    """The offsets at which the lake begins, as the option `startingOffsets` takes them."""
    try:
        with open(_begin_path(), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return "earliest"


def backfill(spark: "SparkSession", directory: str) -> bool:
    """The payments in a log directory that are older than the lake, into the Delta table; False if done already."""
    older = {"path": directory, "subscribe": TOPIC, "endingOffsets": begins_at()}
    records = spark.read.format("tidelog").options(**older).load()
    rows = payments(parse_json(PAYMENT)(records).where("_error is null"))
    table = open_table(delta(table_path(), partition_by=("day",)))
    return table.append(rows, Batch("payments-backfill", 1))


def table_path() -> str:
    """Where the Delta table is."""
    return os.path.join(LAKE, "payments-delta")


def _begin_path() -> str:
    return os.path.join(LAKE, "begin.json")


parquet_files = Pipeline(
    "payments-parquet",
    source=topic(TOPIC, startingOffsets=begins_at()),
    steps=[parse_json(PAYMENT), payments],
    sink=parquet(os.path.join(LAKE, "payments-parquet"), partition_by=("day",)),
    trigger="10s",
    description="Payments as Parquet files, by day.",
)

delta_table = Pipeline(
    "payments-delta",
    source=topic(TOPIC, startingOffsets=begins_at()),
    steps=[parse_json(PAYMENT), payments],
    sink=delta(table_path(), partition_by=("day",)),
    trigger="10s",
    description="Payments as a Delta Lake table, by day.",
)


def main(words: list[str]) -> None:
    """`begin`, or `backfill DIRECTORY`; alone, what `spark-submit` runs."""
    from tidelog.spark import spark_session

    if words[:1] == ["begin"]:
        begin(delta_table.servers())
    elif words[:1] == ["backfill"] and len(words) == 2:
        was_new = backfill(spark_session("payments-backfill"), words[1])
        sys.stdout.write("filled in\n" if was_new else "it was filled in before\n")
    else:
        delta_table.run()


if __name__ == "__main__":
    main(sys.argv[1:])
