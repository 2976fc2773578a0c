"""Which batch of a query a table has, and what to do with one that comes again. Pure.

A query numbers its batches. Spark repeats the last one if the driver dies before Spark has noted that it is done, and
plans it from the same offsets. A table keeps, in the commit of a batch, its number and a fingerprint of these offsets.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.spark.pipeline.definition.pipeline import PipelineError

PLAN_DIGITS: Final = 15
"""Of a fingerprint in hexadecimal digits, what a table keeps: a Delta table keeps it as a 64-bit number."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query. `plan` is the fingerprint of its offsets, None if it is not known."""

    application: str
    number: int
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The last batch of a query that a table has."""

    number: int
    plan: str | None = None


def is_written(batch: Batch, last: Committed | None, table: str) -> bool:
    """Whether the table has this batch. Raises PipelineError for one that only a restored checkpoint can plan."""
    if last is None or last.number < batch.number:
        return False
    is_other = batch.plan is not None and last.plan is not None and batch.plan != last.plan
    if last.number > batch.number or is_other:
        what = "with other offsets" if last.number == batch.number else f"and later ones up to {last.number}"
        raise PipelineError(
            f"{table} has batch {batch.number} of {batch.application} already, {what}: the checkpoint was restored or "
            "copied, and skipping this batch would lose rows. Start with a new checkpoint and startingOffsets, or with "
            "the checkpoint that wrote the table"
        )
    return True
