"""Lost offsets: reports which, why and what to do; raises an error, or counts and skips them.

`failOnDataLoss` decides. Offsets without a record (transaction markers, compaction) are not lost.
The readers report on the driver, `fetching` in tasks.
"""

import logging
from typing import Final

from tidelog.client.types import TopicPartition
from tidelog.spark.sentences import ForeseenError

LOG: Final = logging.getLogger("tidelog.spark.source")

RETENTION: Final = "they were deleted by retention, or by DeleteRecords, before the query read them"
TRUNCATED: Final = (
    "the partition now ends before them: its topic was deleted and recreated, or its log lost records when a leader "
    "was elected uncleanly"
)
DELETED: Final = "the topic or the partition was deleted"
VANISHED: Final = f"{DELETED}, or the options no longer name it"
RECREATED: Final = "the topic was deleted and recreated under the same name"

_ADVICE: Final = (
    "To continue without these records set the option failOnDataLoss=false, or start with a new checkpoint and "
    "'startingOffsets'; to avoid it, keep records longer (retention.ms, retention.bytes) or run the query more often"
)


class DataLossError(ForeseenError, RuntimeError):
    """Records were lost before they were read, and `failOnDataLoss` is true."""


class DataLoss:
    """Takes reports of loss for one reader or task."""

    def __init__(self, is_fatal: bool) -> None:
        self._is_fatal = is_fatal
        self.lost_offsets = 0

    def report(self, where: TopicPartition, start: int, end: int, why: str) -> None:
        """Offsets `start` up to `end` of a partition are gone. Raises DataLossError, or warns and counts."""
        self.report_text(f"{_counted(end - start)} lost in {where}: offsets {start} to {end - 1}; {why}", end - start)

    def report_text(self, what: str, count: int = 0) -> None:
        """A loss with its own message: `count` offsets, if known."""
        if self._is_fatal:
            raise DataLossError(f"{what}. {_ADVICE}.")
        self.lost_offsets += count
        LOG.warning(
            "%s. The query continues, because failOnDataLoss is false (%d offsets lost so far)", what, self.lost_offsets
        )


def _counted(count: int) -> str:
    return "1 offset is" if count == 1 else f"{count} offsets are"
