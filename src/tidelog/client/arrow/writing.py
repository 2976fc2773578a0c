"""Arrow tables to record batches: called by `send_arrow` of both producers.

A table is taken in pieces of some megabytes, so that one is encoded and compressed while the one before is being sent,
in bounded memory. Keys go to the partitions where the producer would put them.
"""

import random
from collections.abc import Iterator
from time import time_ns
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client.aio.producer.partitioners import own_partitioner
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.arrow import columns
from tidelog.client.arrow.encoding import Piece, compiled_encoding, plain_encoding
from tidelog.client.arrow.frames import as_table
from tidelog.client.errors import SerializationFailed
from tidelog.records.compression import compress
from tidelog.records.header import HEADER_BYTES, assemble_batch, read_header
from tidelog.records.kernels.arrow_encode import EncodedBatch

PIECE_BYTES: Final = 8 * 1024 * 1024
"""How much of a table is encoded at a time."""

BATCH_BYTES: Final = 512 * 1024
"""A batch of rows, where batch.size is not larger: no call waits for single rows, so batches may be large."""

_DEFAULT_KEY: Final = "key"


class Meaning(NamedTuple):
    """Which column of a table is what of a record."""

    key: str | None = _DEFAULT_KEY
    value: str | None = "value"
    partition: int | str | None = None
    timestamp: int | str | None = None
    headers: str | None = None

    def checked(self, names: list[str]) -> "Meaning":
        """The same for a table with these columns; the key may be missing if it was not named."""
        meaning = self
        if self.key == _DEFAULT_KEY and _DEFAULT_KEY not in names:
            meaning = self._replace(key=None)
        for what, name in zip(self._fields, meaning, strict=True):
            if isinstance(name, str) and name not in names:
                raise SerializationFailed(f"{what}={name!r}: the table has only the columns {', '.join(names)}")
        if isinstance(self.timestamp, int) and not 0 <= self.timestamp < 1 << 63:
            raise ValueError(f"timestamp {self.timestamp} is not a number of milliseconds since 1970")
        return meaning


class TableWriter:
    """Encodes tables for one producer, under its settings."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._limit_bytes = min(
            max(settings.batch_size, BATCH_BYTES), settings.max_request_size, settings.buffer_memory
        )
        self._codec, self._level = settings.codec, settings.codec_level
        self._own_partitioner = own_partitioner(settings.partitioner_class)
        self._encoding = compiled_encoding(settings) or plain_encoding(settings)
        self._sticky = random.randrange(1 << 16)

    def encode(self, table: Any, topic: str, partition_count: int, meaning: Meaning) -> Iterator[list[EncodedBatch]]:
        """The batches of `table`, piece by piece; rows of a partition keep their order.

        Raises SerializationFailed or ValueError for what cannot be sent, before anything of that piece is yielded.
        """
        table = as_table(table)
        meaning = meaning.checked(table.column_names)
        names = [name for name in dict.fromkeys(meaning) if isinstance(name, str)]
        table = table.select(names)
        if isinstance(meaning.partition, int):
            columns.check_partition(meaning.partition, partition_count)
        rows = max(PIECE_BYTES * table.num_rows // max(table.nbytes, 1), 1)
        for start in range(0, table.num_rows, rows):
            for piece in table.slice(start, rows).combine_chunks().to_batches():
                yield self._encode_piece(piece, topic, partition_count, meaning)

    def _encode_piece(
        self, batch: pa.RecordBatch, topic: str, partition_count: int, meaning: Meaning
    ) -> list[EncodedBatch]:
        now_ms = time_ns() // 1_000_000
        count = batch.num_rows
        piece = Piece(
            count,
            None if meaning.key is None else columns.binary_column(batch, meaning.key),
            None if meaning.value is None else columns.binary_column(batch, meaning.value),
            None if meaning.headers is None else columns.header_column(batch, meaning.headers),
            columns.timestamp_column(batch, meaning.timestamp, now_ms)
            if isinstance(meaning.timestamp, str)
            else pa.repeat(pa.scalar(now_ms if meaning.timestamp is None else meaning.timestamp, pa.int64()), count),
        )
        partitions = self._partitions(batch, piece, topic, partition_count, meaning.partition)
        encoded = self._encoding.encode(piece, partitions, partition_count, self._limit_bytes)
        return [self._compressed(each) for each in encoded] if self._codec else encoded

    def _partitions(
        self, batch: pa.RecordBatch, piece: Piece, topic: str, partition_count: int, wanted: int | str | None
    ) -> pa.Array:
        if isinstance(wanted, int):
            return pa.repeat(pa.scalar(wanted, pa.int64()), piece.record_count)
        given = None if wanted is None else columns.partition_column(batch, wanted, partition_count)
        if given is not None and not given.null_count:
            return given
        if self._own_partitioner is not None:
            chosen = self._ask_partitioner(piece, topic, partition_count)
        else:
            chosen, self._sticky = self._encoding.choose(piece, partition_count, self._sticky, self._limit_bytes)
        return chosen if given is None else pc.coalesce(given, chosen)

    def _ask_partitioner(self, piece: Piece, topic: str, partition_count: int) -> pa.Array:
        assert self._own_partitioner is not None
        chosen: list[int] = []
        for key, value in zip(piece.key_list(), piece.value_list(), strict=True):
            partition = self._own_partitioner(topic, key, value, partition_count)
            columns.check_partition(partition, partition_count)
            chosen.append(partition)
        return pa.array(chosen, pa.int64())

    def _compressed(self, batch: EncodedBatch) -> EncodedBatch:
        header = read_header(batch.data)
        payload = compress(self._codec, memoryview(batch.data)[HEADER_BYTES:], self._level)
        return batch._replace(data=assemble_batch(header._replace(attributes=int(self._codec)), payload))
