"""Offsets that should be there and are not: said which, why and what to do; refused, or counted and passed over.

`failOnDataLoss` decides. Offsets without a record (transaction markers, compaction) are no loss and never come here.
The readers report on the driver, `fetching` in tasks.
"""

import logging
from typing import Final

from tidelog.client.types import TopicPartition

LOG: Final = logging.getLogger("tidelog.spark.source")

RETENTION: Final = "they were deleted by retention, or by DeleteRecords, before the query read them"
TRUNCATED: Final = (
    "the partition now ends before them: its topic was deleted and made anew, or its log lost records when a leader "
    "was elected uncleanly"
)
DELETED: Final = "the topic or the partition was deleted"
VANISHED: Final = f"{DELETED}, or the options do not name it any more"
RECREATED: Final = "the topic was deleted and made anew under its name"

_ADVICE: Final = (
    "To go on without these records set the option failOnDataLoss=false, or start anew with another checkpoint and "
    "'startingOffsets'; to avoid it, keep records longer (retention.ms, retention.bytes) or run the query more often"
)


class DataLossError(RuntimeError):
    """Records that were to be read do not exist any more, and `failOnDataLoss` is true."""


class DataLoss:
    """Takes reports of loss for one reader or task."""

    def __init__(self, is_fatal: bool) -> None:
        self._is_fatal = is_fatal
        self.lost_offsets = 0

    def report(self, where: TopicPartition, start: int, end: int, why: str) -> None:
        """Offsets `start` up to `end` of a partition are gone. Raises DataLossError, or warns and counts."""
        self.report_text(f"{_counted(end - start)} lost in {where}: offsets {start} to {end - 1}; {why}", end - start)

    def report_text(self, what: str, count: int = 0) -> None:
        """A loss that is told otherwise: `count` offsets, if they are known."""
        if self._is_fatal:
            raise DataLossError(f"{what}. {_ADVICE}.")
        self.lost_offsets += count
        LOG.warning(
            "%s. The query goes on, because failOnDataLoss is false (%d offsets lost so far)", what, self.lost_offsets
        )


def _counted(count: int) -> str:
    return "1 offset is" if count == 1 else f"{count} offsets are"
