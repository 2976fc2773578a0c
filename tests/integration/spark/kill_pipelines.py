"""The pipelines of the kill matrix: a stateful aggregation, a stream-stream join, and one record into two topics."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.pipeline import Pipeline, parse_json, topic

SCHEMA = "id long, group string, amount long"
TRIGGER = "200ms"


def totals(events: DataFrame) -> DataFrame:
    """Count and sum of each group, with every change."""
    found = events.groupBy("group").agg(F.count("*").alias("count"), F.sum("amount").alias("total"))
    return found.select(F.col("group").alias("key"), F.to_json(F.struct("group", "count", "total")).alias("value"))


def with_payments(events: DataFrame) -> DataFrame:
    """Each event with the payment of the same id, which comes a little later."""
    servers = counts.servers()
    payments = (
        events.sparkSession.readStream.format("tidelog")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": "payments", "startingOffsets": "earliest"})
        .load()
        .select(
            F.from_json(F.col("value").cast("string"), "id long, paid long").alias("payment"),
            F.col("timestamp").alias("paid_at"),
        )
        .select("payment.*", "paid_at")
        .withWatermark("paid_at", "1 hour")
    )
    joined = events.withWatermark("timestamp", "1 hour").join(
        payments.withColumnRenamed("id", "payment_id"),
        F.expr("id = payment_id AND paid_at BETWEEN timestamp - INTERVAL 1 HOUR AND timestamp + INTERVAL 1 HOUR"),
    )
    return joined.select(F.col("group").alias("key"), F.to_json(F.struct("id", "paid")).alias("value"))


def as_is(events: DataFrame) -> DataFrame:
    """The record itself, to both topics in one transaction."""
    both = F.explode(F.array(F.lit("copy.left"), F.lit("copy.right")))
    return events.select("key", "value", both.alias("to_topic"))


counts = Pipeline(
    "counts",
    source=topic("events"),
    steps=[parse_json(SCHEMA), totals],
    sink=topic("counts"),
    output_mode="update",
    trigger=TRIGGER,
)
joined = Pipeline(
    "joined",
    source=topic("events"),
    steps=[parse_json(SCHEMA), with_payments],
    sink=topic("joined"),
    trigger=TRIGGER,
)
copied = Pipeline(
    "copied",
    source=topic("events"),
    steps=[as_is],
    sink=topic(),
    trigger=TRIGGER,
)
