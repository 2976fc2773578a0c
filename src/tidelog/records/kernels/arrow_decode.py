"""Records to Arrow's columns in plain Python; the compiled kernels give the same result.

A `Decoder` takes batches in the order of the log and returns them as `Columns`: arrays of numbers, and keys and values
each as one run of bytes with the positions where one ends and the next begins. These are Arrow's own buffers, but this
module does not use Arrow. The caller selects the visible batches (transactions, markers) and decompresses them.

A decoder may also handle a run of batches by itself and return the position it reached. The plain one handles none:
every batch goes through the caller, which defines the result of a run.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from tidelog.records.compression import Buffer
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LOG_APPEND_TIME_BIT, BatchHeader, TimestampType
from tidelog.records.record import Headers, decode_records

RECORD_BYTES_MIN: Final = 7
"""The smallest record: every one of its seven fields in a byte."""

COLUMN_BYTES_MAX: Final = 2**31 - 1
"""The largest size of a column of keys or values: Arrow counts these bytes in 32 bits."""

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_MICROS: Final = 1000


class Wanted(NamedTuple):
    """Which of the costly columns to fill."""

    keys: bool = True
    values: bool = True
    headers: bool = True


EVERYTHING: Final = Wanted()


class BinaryColumn(NamedTuple):
    """Byte strings one after another. `validity` has a bit for each, the lowest first; None if none is null."""

    positions: Any
    data: Any
    validity: Any | None
    null_count: int


class Columns(NamedTuple):
    """Records, column by column; every column is a buffer of machine numbers."""

    record_count: int
    offsets: Any
    timestamps_us: Any
    timestamp_types: Any
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: list[Headers] | None
    """The headers of each record; None if no record has any."""


class Decoder(Protocol):
    """Collects records into columns."""

    count: int
    """Records that were added since columns were taken last."""

    data_bytes: int
    """The most bytes they can take in the larger of the two columns of bytes."""

    def add_run(self, window: Buffer, start: int, first_offset: int, *, sees_transactions: bool) -> int:
        """Add batches from `start` on; the position of the first that was left to the caller, or the end.

        Markers are skipped. Without `sees_transactions` those and transactional batches are left to the caller.
        """

    def add_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        """Add the records of one batch, which are `data` when decompressed, from `first_offset` on.

        Raises CorruptRecordError, and then nothing was added.
        """

    def take(self) -> Columns:
        """The added records as columns; the next record begins new ones."""


def micros(timestamp_ms: int) -> int:
    """Milliseconds as Arrow's microseconds. Times out of range become the largest or smallest value."""
    wrapped = (timestamp_ms - _INT64_MIN) % 2**64 + _INT64_MIN
    return max(_INT64_MIN, min(_INT64_MAX, wrapped * _MICROS))


def check_count(header: BatchHeader, data_bytes: int) -> None:
    """Reject a claim of more records than the bytes can have, before memory is allocated."""
    if not 0 <= header.record_count <= data_bytes // RECORD_BYTES_MIN:
        raise CorruptRecordError(
            f"the batch at offset {header.base_offset} claims {header.record_count} records in {data_bytes} bytes"
        )


class PlainDecoder:
    """A `Decoder` in plain Python. It defines the result."""

    def __init__(self, wanted: Wanted = EVERYTHING) -> None:
        self._wanted = wanted
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.data_bytes = 0
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []

    def add_run(self, window: Buffer, start: int, first_offset: int, *, sees_transactions: bool) -> int:  # noqa: ARG002
        return start

    def add_records(self, data: bytes, header: BatchHeader, first_offset: int) -> None:
        check_count(header, len(data))
        is_append_time = header.attributes & LOG_APPEND_TIME_BIT
        append_time = header.max_timestamp if is_append_time else None
        kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        decoded = decode_records(data, header.record_count, header.base_offset, header.base_timestamp, append_time)
        records = [record for record in list(decoded) if record.offset >= first_offset]
        for offset, timestamp, key, value, headers in records:
            self._offsets.append(offset)
            self._timestamps.append(micros(timestamp))
            self._types.append(kind)
            self._keys.append(key)
            self._values.append(value)
            self._headers.append(headers)
        self.count += len(records)
        self.data_bytes += len(data)

    def take(self) -> Columns:
        wanted = self._wanted
        columns = Columns(
            self.count,
            self._offsets,
            self._timestamps,
            self._types,
            _binary_column(self._keys) if wanted.keys else None,
            _binary_column(self._values) if wanted.values else None,
            self._headers if wanted.headers and any(self._headers) else None,
        )
        self._clear()
        return columns


def _binary_column(items: list[bytes | None]) -> BinaryColumn:
    positions = array("i", [0])
    end = 0
    for item in items:
        end += len(item or b"")
        positions.append(end)
    null_count = items.count(None)
    data = b"".join([item for item in items if item])
    return BinaryColumn(
        positions, data, _bitmap(item is not None for item in items) if null_count else None, null_count
    )


def _bitmap(flags: Iterable[bool]) -> bytes:
    bits = bytearray()
    for index, flag in enumerate(flags):
        if not index & 7:
            bits.append(0)
        if flag:
            bits[-1] |= 1 << (index & 7)
    return bytes(bits)
