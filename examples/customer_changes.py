"""Change events made state: a database's changes become a compacted topic with the latest of each row.

    tidelog pipeline run customer_changes.py

Each change says what a row was before and is after, and its position in the database's log. A connector that is
started again sends some of them twice, so it is the position that decides which is the latest, not the order of
arrival. A deleted row becomes a tombstone, which compaction removes later. Only rows that
changed are written (update mode).
"""

from typing import TYPE_CHECKING

from tidelog.spark.pipeline import Pipeline, parse_json, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = "struct<id: string, email: string, city: string, points: long>"
CHANGE = f"op string, lsn long, ts_ms long, before {ROW}, after {ROW}"


def latest_rows(changes: "DataFrame") -> "DataFrame":
    """The latest of each row that changed, as the record of a compacted topic."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    row_id = F.coalesce("after.id", "before.id")
    latest = changes.groupBy(row_id.alias("id")).agg(
        F.max_by(F.struct("after"), "lsn").alias("row"), F.max("lsn").alias("lsn")
    )
    value = F.to_json(F.struct("row.after.*", "lsn"))
    return latest.select(F.col("id").alias("key"), F.when(F.col("row.after").isNotNull(), value).alias("value"))


pipeline = Pipeline(
    "customer-changes",
    source=topic("db.customers"),
    steps=[parse_json(CHANGE), latest_rows],
    sink=topic("customers.latest"),
    output_mode="update",
    trigger="1s",
    settings={"spark.sql.shuffle.partitions": "3"},
    description="The latest state of each row of a table.",
)

if __name__ == "__main__":
    pipeline.run()
