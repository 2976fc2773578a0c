"""The two ways from columns to batches: compiled where Numba is installed, and plain. `writing` is the caller."""

from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.partitioner import partition_for_key
from tidelog.records.bulk import RECORD_OVERHEAD_BYTES
from tidelog.records.kernels import arrow_encode
from tidelog.records.kernels.arrow_encode import EncodedBatch
from tidelog.records.record import Headers


class Piece(NamedTuple):
    """Rows to be encoded at once. A column that is None is null in every row."""

    record_count: int
    keys: pa.Array | None
    values: pa.Array | None
    headers: list[Headers] | None
    timestamps_ms: pa.Array

    def key_list(self) -> list[bytes | None]:
        """The keys as Python has them."""
        return [None] * self.record_count if self.keys is None else self.keys.to_pylist()

    def value_list(self) -> list[bytes | None]:
        """The values as Python has them."""
        return [None] * self.record_count if self.values is None else self.values.to_pylist()


class Encoding(Protocol):
    """One of the two ways."""

    def choose(self, piece: Piece, partition_count: int, first: int, sticky_bytes: int) -> tuple[pa.Array, int]:
        """Partitions by key, or from `first` on for rows without; and where the next ones without key begin."""

    def encode(self, piece: Piece, partitions: pa.Array, partition_count: int, limit_bytes: int) -> list[EncodedBatch]:
        """The batches of the rows."""


def compiled_encoding(settings: ProducerSettings) -> Encoding | None:
    """The fast way; None where Numba is not installed."""
    try:
        from tidelog.records.kernels import arrow_encode_compiled
    except ImportError:
        return None
    return _Compiled(arrow_encode_compiled, ignores_keys=settings.partitioner_ignore_keys)


def plain_encoding(settings: ProducerSettings) -> Encoding:
    """The way that needs nothing."""
    return _Plain(ignores_keys=settings.partitioner_ignore_keys)


class _Compiled:
    def __init__(self, kernels: Any, *, ignores_keys: bool) -> None:
        self._kernels = kernels
        self._ignores_keys = ignores_keys

    def _column(self, array: pa.Array | None, count: int) -> Any:
        if array is None:
            return self._kernels.column_of(None, count)
        validity, positions, data = array.buffers()
        if not array.null_count:
            validity = None
        # Arrow leaves out the buffer of data when there is none.
        buffers = self._kernels.ColumnBuffers(positions, b"" if data is None else data, validity, array.offset)
        return self._kernels.column_of(buffers, count)

    def choose(self, piece: Piece, partition_count: int, first: int, sticky_bytes: int) -> tuple[pa.Array, int]:
        partitions, following = self._kernels.choose_partitions(
            self._column(piece.keys, piece.record_count),
            self._column(piece.values, piece.record_count),
            piece.record_count,
            partition_count,
            first=first,
            sticky_bytes=sticky_bytes,
            ignores_keys=self._ignores_keys,
        )
        return pa.array(partitions), following

    def encode(self, piece: Piece, partitions: pa.Array, partition_count: int, limit_bytes: int) -> list[EncodedBatch]:
        headers = None
        if piece.headers is not None:
            headers = pa.array(arrow_encode.header_blocks(piece.headers), pa.binary())
        batches: list[EncodedBatch] = self._kernels.encode_columns(
            self._column(piece.keys, piece.record_count),
            self._column(piece.values, piece.record_count),
            self._column(headers, piece.record_count),
            piece.timestamps_ms.to_numpy(),
            partitions.to_numpy(),
            partition_count,
            limit_bytes,
        )
        return batches


class _Plain:
    def __init__(self, *, ignores_keys: bool) -> None:
        self._ignores_keys = ignores_keys

    def choose(self, piece: Piece, partition_count: int, first: int, sticky_bytes: int) -> tuple[pa.Array, int]:
        keys = [None] * piece.record_count if self._ignores_keys else piece.key_list()
        sizes = [
            RECORD_OVERHEAD_BYTES + len(real_key or b"") + len(value or b"")
            for key, real_key, value in zip(keys, piece.key_list(), piece.value_list(), strict=True)
            if key is None
        ]
        without_key = iter(arrow_encode.spread(sizes, partition_count, first, sticky_bytes))
        chosen = [next(without_key) if key is None else partition_for_key(key, partition_count) for key in keys]
        return pa.array(chosen, pa.int64()), first + 1

    def encode(self, piece: Piece, partitions: pa.Array, partition_count: int, limit_bytes: int) -> list[EncodedBatch]:
        headers: list[Headers] = [()] * piece.record_count if piece.headers is None else piece.headers
        rows = list(zip(piece.timestamps_ms.to_pylist(), piece.key_list(), piece.value_list(), headers, strict=True))
        return arrow_encode.encode_rows(rows, partitions.to_pylist(), partition_count, limit_bytes)
