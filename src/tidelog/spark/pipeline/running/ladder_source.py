"""The source of a pipeline with a retry ladder: its topics and its own retry topics, each read up to what is due.

Otherwise it is the format `tidelog`. Parked rows are not read here but by the batch they are due in; a batch that is
made for them alone has a turn of its own in its offsets, because Spark makes none whose offsets are those of the last.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidelog.client.types import TopicPartition
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.pipeline.failing.held_back import HeldBackView
from tidelog.spark.pipeline.failing.parked_hint import ParkedTopicHint
from tidelog.spark.pipeline.running.source_options import DELAYS, HINT, PARKED
from tidelog.spark.source.cluster_view import ClusterView, View
from tidelog.spark.source.offsets import ORIGIN
from tidelog.spark.source.stream_reader import StreamReader

FORMAT: Final = "tidelog-ladder"
TURN: Final = "$turn"
"""Beside the offsets of topics, under a name that no topic can have: how many batches parked rows were due in."""


class LadderSource(TidelogDataSource):
    """The format `tidelog`, reading retry topics no further than they are due."""

    @classmethod
    def name(cls) -> str:
        """The word in `.format(...)`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        return LadderReader(schema, self.options)


class LadderReader(StreamReader):
    """Reads topics as a stream, and retry topics as their records become due."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(schema, options)
        self._delays_ms: dict[str, int] = json.loads(options.get(DELAYS.lower()) or "{}")
        self._parked_topic = options.get(PARKED.lower()) or None
        self._hint = ParkedTopicHint(Path(options.get(HINT.lower()) or os.devnull))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins: in its own topics always with the first record, or rows that wait would be lost."""
        shown = super().initialOffset()
        partitions = [TopicPartition(topic, int(each)) for topic in self._delays_ms for each in shown.get(topic, ())]
        for (topic, partition), offset in self._here.view.earliest(partitions).items():
            shown[topic][str(partition)] = shown[ORIGIN][topic][str(partition)] = offset
        return shown

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next micro-batch, and its turn if parked rows are due."""
        is_due = self._parked_topic is not None and self._hint.is_due()
        before = self._streamed(start)
        end = super().latestOffset(before, limit)
        if end == before and not is_due:
            return start
        turn = int(start.get(TURN, 0)) + is_due
        return {**end, TURN: turn} if turn else end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for each range of offsets."""
        return super().partitions(self._streamed(start), self._streamed(end))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with everything before `end`."""
        super().commit(self._streamed(end))

    def _streamed(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Offsets of what the stream reads. Checkpoints of older versions have some of the parked topic, too."""
        streamed = {name: each for name, each in shown.items() if name not in (TURN, self._parked_topic)}
        if ORIGIN in streamed:
            streamed[ORIGIN] = self._streamed(streamed[ORIGIN])
        return streamed

    def _view_for_planning(self, view: ClusterView) -> View:
        """Hides records that are not due."""
        return HeldBackView(view, self._delays_ms, self._parked_topic, _wall_ms)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
