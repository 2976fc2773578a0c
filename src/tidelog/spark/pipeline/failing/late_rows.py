"""Rows that came back too late for the state of a pipeline: failed again, instead of dropped by Spark.

A retry or a replay takes time, and meanwhile the watermark moves on: Spark drops rows behind it, without a word. The
source says with each micro-batch how far the watermark is, in the column `BATCH_WATERMARK`. Rows that have come back
have it in `_record.watermark`, and where a step sets a watermark, those at or behind it are set aside as failed.

Spark would still count some of them, those of a window that is open. They are dead letters again, and not in the
window; rows that are read for the first time are left to Spark.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.internals import watching_watermarks
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import mark_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_WATERMARK: Final = "_batch_watermark"
WATERMARK: Final = "watermark"


@contextmanager
def setting_late_aside(set_aside: "Callable[[DataFrame], object]") -> Iterator[None]:
    """A step that sets a watermark in this block gets no row that has come back and is behind it."""

    def without_late(rows: "DataFrame", column: str) -> "DataFrame":
        if RECORD not in rows.columns or WATERMARK not in rows.schema[RECORD].dataType.fieldNames():  # type: ignore[attr-defined]
            return rows
        watermark, moment = F.col(f"{RECORD}.{WATERMARK}"), F.col(column).cast("timestamp")
        is_late = F.coalesce(moment <= watermark, F.lit(False))
        late_s = F.round((F.unix_millis(watermark) - F.unix_millis(moment)) / 1000, 3)
        message = F.concat(
            F.lit("late by "), late_s.cast("string"), F.lit(f" s: {column} is "), moment.cast("string"),
            F.lit(", and the watermark is "), watermark.cast("string"),
        )  # fmt: skip
        late = mark_failed(rows.where(is_late), F.lit(True), message, retry=False)
        set_aside(late.select(RECORD, ERROR))
        return rows.where(~is_late)

    with watching_watermarks(without_late):
        yield
