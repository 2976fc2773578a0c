"""The source of a pipeline with a retry ladder: its topics and its own retry topics, each read up to what is due.

Otherwise it is the format `tidelog`. Parked rows are not read here but by the batch they are due in; a batch that is
made for them alone has a turn of its own in its offsets, because Spark makes none whose offsets are those of the last.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructField, StructType, TimestampType

from tidelog.client.types import TopicPartition
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.options import OptionError
from tidelog.spark.pipeline.failing.held_back import HeldBackView
from tidelog.spark.pipeline.failing.late_rows import BATCH_WATERMARK
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.running.checkpoints import is_local, planned_watermark_ms
from tidelog.spark.pipeline.running.parked_hint import ParkedTopicHint, hint_for
from tidelog.spark.source.cluster_view import ClusterView, View
from tidelog.spark.source.offsets import ORIGIN
from tidelog.spark.source.stream_reader import RefusedReader, StreamReader

FORMAT: Final = "tidelog-ladder"
DELAYS: Final = "ladderDelays"
PARKED: Final = "ladderParked"
HINT: Final = "ladderHint"
CHECKPOINT: Final = "ladderCheckpoint"
TURN: Final = "$turn"
"""Beside the offsets of topics, under a name that no topic can have: how many batches parked rows were due in."""


def ladder_options(ladder: Ladder, checkpoint: str) -> dict[str, str]:
    """What the ladder's source needs to know besides."""
    options = {DELAYS: json.dumps(dict(zip(ladder.retry_topics, ladder.delays_ms, strict=True)))}
    if ladder.parked_topic is None and is_local(checkpoint):
        # Where order is kept there is no state, and so no watermark.
        options[CHECKPOINT] = checkpoint
    if ladder.parked_topic is not None:
        options[PARKED] = ladder.parked_topic
        options[HINT] = str(hint_for(checkpoint).path)
    return options


class LadderSource(TidelogDataSource):
    """The format `tidelog`, reading retry topics no further than they are due."""

    @classmethod
    def name(cls) -> str:
        """The word in `.format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of a record, and the watermark of the batch if the checkpoint is known."""
        schema = super().schema()
        if not self.options.get(CHECKPOINT.lower()):
            return schema
        return StructType([*schema.fields, StructField(BATCH_WATERMARK, TimestampType())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        try:
            return LadderReader(schema, self.options)
        except OptionError as error:
            return RefusedReader(error)


class LadderReader(StreamReader):
    """Reads topics as a stream, and retry topics as their records become due."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        read = [field for field in schema.fields if field.name != BATCH_WATERMARK]
        super().__init__(StructType(read), options)
        # Projections keep all columns: a column that is asked for comes last, as in the schema.
        self._has_watermark = len(read) < len(schema.fields)
        self._checkpoint = options.get(CHECKPOINT.lower())
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
        """One task for each range of offsets, each with the watermark of the batch."""
        planned = super().partitions(self._streamed(start), self._streamed(end))
        if self._has_watermark and self._checkpoint is not None:
            watermark_ms = planned_watermark_ms(self._checkpoint)
            for each in planned:
                each.watermark_ms = watermark_ms  # type: ignore[attr-defined]
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        batches = super().read(partition)
        if not self._has_watermark:
            return batches
        moment_ms = getattr(partition, "watermark_ms", None)
        moment = pa.scalar(None if moment_ms is None else moment_ms * 1000, pa.timestamp("us", tz="UTC"))
        return (each.append_column(BATCH_WATERMARK, pa.repeat(moment, each.num_rows)) for each in batches)

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
