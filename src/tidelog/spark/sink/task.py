"""What one task does with the Arrow batches that Spark gives it: gather, choose partitions, send, wait for the rest.

The same class writes the rows of `delivery=small` on the driver. It knows nothing of Spark.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.client.aio.producer.delivery import BlockingDelivery
from tidelog.client.arrow.columns import binary_column
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.spark.sink.row_fingerprint import RowFingerprint, combined, fingerprint_rows
from tidelog.spark.sink.rows import NoSuchPartition, Partitioner, by_topic, checked_headers, is_worth_kernels
from tidelog.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from tidelog.client.aio.producer.table_delivery import BlockingTableDelivery

PIECE_BYTES: Final = 4 * 1024 * 1024
"""Rows are encoded in pieces of this size: record batches of many partitions would be small otherwise."""

_BYTES: Final[tuple[str, ...]] = ("key", "value")

Claim = Callable[[set[TopicPartition]], None]


class WrittenRows(NamedTuple):
    """What a task has written: how many rows to each partition, and their fingerprint if it was asked for."""

    partitions: tuple[tuple[TopicPartition, int], ...]
    fingerprint: RowFingerprint | None


class RowWriter:
    """Writes rows through one producer. `claim` is called with the partitions before any row is sent to them."""

    def __init__(
        self,
        settings: SinkSettings,
        columns: Sequence[str],
        producer: Producer,
        *,
        spread: int,
        claim: Claim | None = None,
        takes_fingerprint: bool = False,
    ) -> None:
        self._topic = settings.topic
        self._columns = list(columns)
        self._producer = producer
        kafka = settings.producer_settings()
        self._partitioner = Partitioner(kafka)
        self._spread = spread
        # In a transaction a task keeps to one partition for rows without key: others belong to other tasks.
        self._sticky = {} if claim is not None else {"sticky_bytes": kafka.batch_size}
        self._claim = claim
        self._partition_counts: dict[str, int] = {}
        self._written: Counter[TopicPartition] = Counter()
        self._fingerprints: list[RowFingerprint] | None = [] if takes_fingerprint else None
        self._deliveries: list[BlockingTableDelivery | BlockingDelivery] = []

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
        """Write all rows and return when all are stored."""
        gathered: list[pa.RecordBatch] = []
        gathered_bytes = 0
        for batch in batches:
            if batch.num_rows:
                gathered.append(batch)
                gathered_bytes += batch.nbytes
            if gathered_bytes >= PIECE_BYTES:
                self._send(gathered)
                gathered, gathered_bytes = [], 0
        if gathered:
            self._send(gathered)
        if self._deliveries:
            self._producer.flush()
        for delivery in self._deliveries:
            delivery.result()
        fingerprint = None if self._fingerprints is None else combined(self._fingerprints)
        return WrittenRows(tuple(sorted(self._written.items())), fingerprint)

    def _send(self, batches: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches).select(self._columns)
        for piece in table.combine_chunks().to_batches():
            for topic, rows in by_topic(piece, self._topic):
                self._send_to(topic, rows)

    def _send_to(self, topic: str, rows: pa.RecordBatch) -> None:
        partition_count = self._partition_counts.get(topic)
        if partition_count is None:
            partition_count = self._partition_counts[topic] = self._producer.partitions_for(topic)
        named = _bytes_of(rows, self._columns)
        if self._fingerprints is not None:
            self._fingerprints.append(fingerprint_rows(topic, named.get("key"), named.get("value"), rows.num_rows))
        if "headers" in self._columns:
            named["headers"] = checked_headers(rows.column("headers"))
        choosing = _with(named, rows)
        try:
            partitions = self._choose(choosing, topic, partition_count)
        except NoSuchPartition:
            # It may have been added since the topic was last looked at.
            self._partition_counts[topic] = self._producer.partitions_for(topic, is_fresh=True)
            partitions = self._choose(choosing, topic, self._partition_counts[topic])
        self._note(topic, partitions)
        if not is_worth_kernels(rows.num_rows):
            self._send_rows(topic, named, partitions)
            return
        sent = pa.RecordBatch.from_arrays([*named.values(), partitions], [*named, "partition"])
        self._deliveries.append(
            self._producer.send_arrow(
                sent,
                topic,
                key="key" if "key" in named else None,
                value="value" if "value" in named else None,
                headers="headers" if "headers" in named else None,
                partition="partition",
            )
        )

    def _choose(self, rows: pa.RecordBatch, topic: str, partition_count: int) -> pa.Array:
        return self._partitioner.choose(rows, topic, partition_count, spread=self._spread, **self._sticky)

    def _send_rows(self, topic: str, named: dict[str, pa.Array], partitions: pa.Array) -> None:
        """A few rows, one by one."""
        columns = [named[name].to_pylist() if name in named else repeat(None) for name in ("value", "key", "headers")]
        send, add = self._producer.send, self._deliveries.append
        for partition, value, key, headers in zip(partitions.to_pylist(), *columns, strict=False):
            pairs = None if headers is None else [(pair["key"], pair["value"]) for pair in headers]
            add(send(topic, value, key, partition=partition, headers=pairs))

    def _note(self, topic: str, partitions: pa.Array) -> None:
        counts = np.bincount(partitions.to_numpy())
        found = {TopicPartition(topic, int(partition)): int(counts[partition]) for partition in np.flatnonzero(counts)}
        if self._claim is not None:
            new = found.keys() - self._written.keys()
            if new:
                self._claim(new)
        self._written.update(found)


def fingerprint_batch(rows: pa.RecordBatch, topic: str | None) -> RowFingerprint:
    """The fingerprint of rows as a task gets them."""
    found = []
    for name, part in by_topic(rows, topic):
        named = _bytes_of(part, part.schema.names)
        found.append(fingerprint_rows(name, named.get("key"), named.get("value"), part.num_rows))
    return combined(found)


def _bytes_of(rows: pa.RecordBatch, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Key and value in bytes, without those that are null throughout."""
    found = {name: binary_column(rows, name) for name in _BYTES if name in columns}
    return {name: array for name, array in found.items() if array is not None}


def _with(named: dict[str, pa.Array], rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that choose a partition, in bytes already."""
    chosen = {name: named[name] for name in _BYTES if name in named}
    if "partition" in rows.schema.names:
        chosen["partition"] = rows.column("partition")
    if not chosen:
        chosen["value"] = rows.column("value")
    return pa.RecordBatch.from_arrays(list(chosen.values()), list(chosen))
