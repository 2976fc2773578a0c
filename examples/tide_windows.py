"""Windows of event time: the mean level of each tide gauge over ten minutes, with readings that come late.

    tidelog pipeline run tide_windows.py

A window counts when readings were taken, not when they arrived. It is written once, when the watermark has passed its
end: fifteen minutes behind the latest reading seen. What arrives within that time is counted, what comes even later is
left out. Open windows are Spark's state, kept in the checkpoint.
"""

from typing import TYPE_CHECKING

from tidelog.spark.pipeline import Pipeline, pack_json, parse_json, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "10 minutes"
LATENESS = "15 minutes"


def averages(readings: "DataFrame") -> "DataFrame":
    """One row for each gauge and window."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    timed = readings.withColumn("at", F.timestamp_millis("at_ms")).withWatermark("at", LATENESS)
    windows = timed.groupBy("station", F.window("at", WINDOW)).agg(
        F.count("*").alias("readings"),
        F.round(F.avg("level_cm"), 2).alias("mean_cm"),
        F.min("level_cm").alias("low_cm"),
        F.max("level_cm").alias("high_cm"),
    )
    return windows.select(
        "station",
        F.unix_millis("window.start").alias("from_ms"),
        F.unix_millis("window.end").alias("to_ms"),
        "readings",
        "mean_cm",
        "low_cm",
        "high_cm",
    )


pipeline = Pipeline(
    "tide-windows",
    source=topic("tide-levels"),
    steps=[parse_json("station string, level_cm double, at_ms long"), averages, pack_json(key="station")],
    sink=topic("tide-levels.10m"),
    trigger="5s",
    settings={"spark.sql.shuffle.partitions": "2"},
    description="Mean levels over ten minutes, late readings included.",
)

if __name__ == "__main__":
    pipeline.run()
