"""The source of a pipeline with a retry ladder: its topics and its own retry topics, each read up to what is due.

Registered by `running` under a name of its own; otherwise it is the format `tidelog`. Spark runs the reader in a
process beside the driver; whether the parked topic is open comes there through a file, as a hint only: without it
the topic is open.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import StructType

from tidelog.client.types import TopicPartition
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.pipeline.gate import Gate
from tidelog.spark.pipeline.held_back import HeldBackView
from tidelog.spark.pipeline.source_options import DELAYS, GATE, PARKED
from tidelog.spark.source.cluster_view import ClusterView, View
from tidelog.spark.source.offsets import ORIGIN
from tidelog.spark.source.stream_reader import StreamReader

FORMAT: Final = "tidelog-ladder"


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
    """Reads topics on and on, and the ladder's own when their time has come."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(schema, options)
        self._delays_ms: dict[str, int] = json.loads(options.get(DELAYS.lower()) or "{}")
        self._parked_topic = options.get(PARKED.lower()) or None
        self._gate = Gate(Path(options.get(GATE.lower()) or os.devnull))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins: in its own topics always with the first record, or rows that wait would be lost."""
        shown = super().initialOffset()
        own = [*self._delays_ms, *([self._parked_topic] if self._parked_topic else [])]
        partitions = [TopicPartition(topic, int(each)) for topic in own for each in shown.get(topic, ())]
        for (topic, partition), offset in self._here.view.earliest(partitions).items():
            shown[topic][str(partition)] = shown[ORIGIN][topic][str(partition)] = offset
        return shown

    def _view_for_planning(self, view: ClusterView) -> View:
        """Records that must wait are not there yet."""
        return HeldBackView(view, self._delays_ms, self._parked_topic, self._gate.is_open, _wall_ms)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
