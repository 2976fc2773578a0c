"""Reads due rows of the parked topic by offset, and deletes processed records from its start.

The stream does not read the parked topic. Before a batch is evaluated, the driver looks up the due rows and reads their
offset ranges, with limits on rows and bytes. No row is parked twice: a row that must wait longer stays at its offset.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tidelog.client import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.errors import ClientError
from tidelog.client.retry import headers
from tidelog.client.types import TopicPartition
from tidelog.spark.options import Options
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.failing.ordering import Waiting
from tidelog.spark.pipeline.failing.parked_index import ParkedIndex, Run
from tidelog.spark.source.client_settings import read_client_settings
from tidelog.spark.source.columns import full_schema, make_projection
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.settings import TaskSettings
from tidelog.spark.source.task_reader import read_range
from tidelog.wire.errors import ApiError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = logging.getLogger("tidelog.pipeline")

ROWS_MAX: Final = 20_000
BYTES_MAX: Final = 64 * 1024 * 1024
"""How many parked rows a batch takes, so that batches stay small however many rows wait."""

GAP_MAX: Final = 256
"""Ranges that are no further apart are fetched as one: a request costs more than so many records."""

Span = tuple[int, int, int]
"""A partition, the first offset and the end."""


class ParkedRows:
    """The parked rows of one pipeline."""

    def __init__(self, pipeline: str, topic: str, connection: Connection, *, fails_on_loss: bool = True) -> None:
        self._pipeline = pipeline
        self._topic = topic
        self._connection = connection
        self._fails_on_loss = fails_on_loss
        options = Options({**connection.options(), "kafka.isolation.level": "read_committed"})
        self._settings = TaskSettings(read_client_settings(options, "tidelog-pipeline")[0])
        self._index_columns = make_projection(_schema("key", "offset", "headers"))
        self._all_columns = make_projection(_schema())
        self._index = ParkedIndex()
        self._starts: dict[int, int] = {}
        self._indexed: dict[int, int] = {}
        self._wanted: dict[bytes, list[Run]] = {}

    def due(self, spark: "SparkSession", keys: Mapping[bytes, Waiting]) -> "tuple[DataFrame | None, set[bytes]]":
        """The rows whose turn it is, a batch's worth of them; and the keys whose next row is gone from the topic."""
        self._wanted = {}
        if not any(waiting.is_head_parked for waiting in keys.values()):
            return None, set()
        self._refresh(keys)
        self._wanted = self._index.due(keys, ROWS_MAX)
        gone = {key for key, runs in self._wanted.items() if not runs}
        if gone:
            self._report_gone(gone, keys)
        runs = sorted(chain.from_iterable(self._wanted.values()))
        return self._read(spark, runs) if runs else None, gone

    def settled(self, keys: Mapping[bytes, Waiting], changed: Sequence[bytes] | None) -> None:
        """A batch is committed and left `keys`; what does not wait any more is forgotten, and deleted in front.

        `changed` are the keys that it changed; None: any of them.
        """
        self._index.learn(self._wanted, keys)
        self._index.keep_waiting(keys, changed)
        self._wanted = {}
        needed = self._index.first_needed(self._starts, self._indexed)
        done = {partition: offset for partition, offset in needed.items() if offset > self._starts.get(partition, 0)}
        if done:
            self._delete(done)

    def _refresh(self, keys: Mapping[bytes, Waiting]) -> None:
        """Index what was committed since the last time."""
        with Admin(self._connection.client()) as admin:
            partitions = [
                TopicPartition(self._topic, each.partition)
                for each in admin.describe_topics([self._topic])[self._topic].partitions
            ]
            ends = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
            starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        self._starts = {each.partition: starts[each].offset for each in partitions}
        begin = {part: max(self._indexed.get(part, 0), start) for part, start in self._starts.items()}
        end = {each.partition: max(ends[each].offset, begin[each.partition]) for each in partitions}
        new = [part for part in begin if end[part] > begin[part]]
        if new:
            self._scan({part: begin[part] for part in new}, end)
            self._index.keep_waiting(keys)
        self._indexed = end

    def _scan(self, begin: Mapping[int, int], end: Mapping[int, int]) -> None:
        for partition, start in begin.items():
            wanted = OffsetRange(self._topic, partition, start, end[partition])
            for batch in read_range(wanted, self._settings, self._index_columns):
                for run in runs_of(batch):
                    if run.pipeline == self._pipeline and run.key is not None and run.sequence >= 0:
                        self._index.add(run.key, Run(partition, run.offset, run.sequence, run.row_count))
                    else:
                        self._index.add_foreign(partition, run.offset, run.row_count)

    def _read(self, spark: "SparkSession", runs: Sequence[Run]) -> "DataFrame":
        batches: list[pa.RecordBatch] = []
        size_bytes = 0
        for spans in close_together([(run.partition, run.offset, run.offset + run.row_count) for run in runs]):
            wanted = OffsetRange(self._topic, spans[0][0], spans[0][1], spans[-1][2])
            for batch in read_range(wanted, self._settings, self._all_columns):
                batches.append(only_in(batch, spans))
                size_bytes += batches[-1].nbytes
            if size_bytes >= BYTES_MAX:
                break
        return spark.createDataFrame(pa.Table.from_batches(batches, self._all_columns.schema))

    def _report_gone(self, gone: set[bytes], keys: Mapping[bytes, Waiting]) -> None:
        key = min(gone)
        text = (
            f"the next row of {len(gone)} keys (such as number {keys[key].head} of key {key!r}) is not in topic "
            f"{self._topic!r} any more: records were deleted from it"
        )
        if self._fails_on_loss:
            raise PipelineError(f"{text}. To continue without them, set failOnDataLoss=False on the source")
        LOG.warning("%s. The pipeline continues without them, because failOnDataLoss is false", text)

    def _delete(self, before: Mapping[int, int]) -> None:
        """Records that are kept although they are done cost room and nothing else, so a failure is only logged."""
        try:
            with Admin(self._connection.client()) as admin:
                admin.delete_records({TopicPartition(self._topic, part): offset for part, offset in before.items()})
        except (ClientError, ApiError) as error:
            LOG.warning("processed records of parked topic %r could not be deleted: %s", self._topic, error)
            return
        self._starts |= before


class RunFound(NamedTuple):
    """Records that lie one after another, of one pipeline and key, numbered one after another; -1: without number."""

    pipeline: str | None
    key: bytes | None
    offset: int
    sequence: int
    row_count: int


def runs_of(rows: pa.RecordBatch) -> Iterator[RunFound]:
    """The runs among records, which are in the order of their offsets."""
    if not rows.num_rows:
        return
    keys, offsets = rows.column("key"), rows.column("offset").to_numpy()
    pipelines = _header_values(rows, headers.PIPELINE)
    sequences = _numbers(_header_values(rows, headers.SEQUENCE))
    is_new = (np.diff(offsets) != 1) | (np.diff(sequences) != 1) | _differs(keys) | _differs(pipelines)
    starts = [0, *(np.flatnonzero(is_new) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        pipeline, key = pipelines[start].as_py(), keys[start].as_py()
        name = None if pipeline is None else pipeline.decode("utf-8", "replace")
        yield RunFound(name, key, int(offsets[start]), int(sequences[start]), end - start)


def _differs(column: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """For every row but the first, whether it is another one than the row before it."""
    before, after = column[:-1], column[1:]
    both_null = pc.and_(pc.is_null(before), pc.is_null(after))
    is_same = pc.or_(pc.fill_null(pc.equal(before, after), False), both_null)
    return np.asarray(pc.invert(is_same).to_numpy(zero_copy_only=False))


def _header_values(rows: pa.RecordBatch, name: str) -> pa.Array:
    """The value of the last header called `name` of each row, null where there is none."""
    column = rows.column("headers")
    pairs = column.flatten()
    at = np.flatnonzero(pc.fill_null(pc.equal(pairs.field("key"), name), False).to_numpy(zero_copy_only=False))
    parents = pc.list_parent_indices(column).to_numpy()[at]
    found = np.full(rows.num_rows, -1, dtype=np.int64)
    found[parents] = at
    return pairs.field("value").take(pa.array(found, mask=found < 0))


def _numbers(texts: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Whole numbers; -1 for what is none."""
    is_number = pc.fill_null(pc.match_substring_regex(texts, "^[0-9]{1,18}$"), False)
    kept = pc.if_else(is_number, texts, pa.scalar(b"-1", texts.type))
    return np.asarray(kept.cast(pa.string()).cast(pa.int64()).to_numpy())


def _schema(*names: str) -> StructType:
    whole = full_schema({"includeHeaders": "true"})
    return StructType([field for field in whole.fields if not names or field.name in names])


def close_together(spans: Sequence[Span]) -> list[list[Span]]:
    """Ranges that are fetched as one. `spans` are sorted."""
    groups: list[list[Span]] = []
    for each in spans:
        last = groups[-1][-1] if groups else None
        if last is not None and last[0] == each[0] and 0 <= each[1] - last[2] <= GAP_MAX:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def only_in(rows: pa.RecordBatch, spans: Sequence[Span]) -> pa.RecordBatch:
    """The rows whose offsets lie in one of `spans`, which are sorted."""
    if len(spans) == 1:
        return rows
    offsets = rows.column("offset").to_numpy()
    at = np.searchsorted([start for _, start, _ in spans], offsets, side="right") - 1
    ends = np.array([end for _, _, end in spans])
    return rows.filter(pa.array((at >= 0) & (offsets < ends[at])))
