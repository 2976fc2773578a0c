"""A compacted topic as a table. Called by the examples that join with one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_table(records: "DataFrame", schema: str) -> "DataFrame":
    """The latest value of each key, JSON of `schema`, as columns; a key whose latest record has none is left out."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    # The records of one key lie in one partition, so the largest offset is the latest. In a struct, because max_by
    # alone would pass over the nulls that say "deleted".
    latest = records.groupBy("key").agg(F.max_by(F.struct("value"), "offset").alias("latest"))
    kept = latest.where("latest.value is not null")
    return kept.select(F.from_json(F.col("latest.value").cast("string"), schema).alias("row")).select("row.*")
