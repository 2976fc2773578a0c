"""Reads the records of a batch as rows of a tuple class, a few at a time, for a consumer's `poll`.

`batch.iterate_records` defines the format; a property test compares this module with it. It is faster because:

- Where a batch has no gaps, according to its header, offsets are counted and only compared.
- The end of a record, known from its length, is also the end of its value, if there are no headers.
- Rows are appended to the caller's list, as many as it wants; the rest of the batch is not decoded yet.

A record with headers or with anything unusual is left to the plain decoder, one at a time. The reader of all others is
in C where the optional module `_speedups` was built: a tenth of a microsecond a record.
"""

from collections.abc import Callable
from typing import Any

from tidelog.records._native import speedups
from tidelog.records._varint import UNZIGZAG, decode_varint, decode_varlong
from tidelog.records.batch import record_data
from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import LOG_APPEND_TIME_BIT, BatchHeader, TimestampType
from tidelog.records.record import Record, decode_records


class RowReader:
    """Reads one batch from front to back.

    A row is `(topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch)`, made as
    `row_class`, a NamedTuple of these nine fields.
    """

    __slots__ = (
        "_append_time",
        "_data",
        "_from_offset",
        "_header",
        "_index",
        "_is_dense",
        "_leader_epoch",
        "_partition",
        "_position",
        "_row_class",
        "_timestamp_type",
        "_topic",
    )

    def __init__(
        self,
        buffer: Buffer,
        position: int,
        header: BatchHeader,
        row_class: type[tuple[Any, ...]],
        topic: str,
        partition: int,
        *,
        from_offset: int = 0,
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self._data = record_data(buffer, position, header, limit_bytes)
        self._header = header
        self._row_class = row_class
        self._topic = topic
        self._partition = partition
        self._from_offset = from_offset
        self._position = 0
        self._index = 0
        self._leader_epoch = header.partition_leader_epoch
        self._timestamp_type = header.timestamp_type
        self._append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
        self._is_dense = header.record_count == header.last_offset_delta + 1
        if self._is_dense and from_offset > header.base_offset:
            self._skip(min(from_offset - header.base_offset, header.record_count))

    @property
    def is_done(self) -> bool:
        """Whether every record was read."""
        return self._index >= self._header.record_count

    def read(self, rows: list[Any], limit: int) -> None:
        """Append up to `limit` more rows to `rows`. Raises CorruptRecordError, with `rows` as they were before."""
        before = len(rows)
        try:
            if self._is_dense and self._append_time is None:
                while self._read_plain(rows, limit - len(rows) + before):
                    self._read_any(rows)
            else:
                while len(rows) - before < limit and not self.is_done:
                    self._read_any(rows)
            if self._position > len(self._data) or (self.is_done and self._position != len(self._data)):
                raise CorruptRecordError(
                    f"the {self._header.record_count} records of a batch end at byte {self._position} "
                    f"of {len(self._data)}"
                )
        except (IndexError, CorruptRecordError) as error:
            del rows[before:]
            raise CorruptRecordError(
                f"batch at offset {self._header.base_offset} of {self._topic}-{self._partition}: {error}"
            ) from None

    def _read_plain(self, rows: list[Any], limit: int) -> bool:
        """Read rows until there are `limit`, or until a record needs the plain decoder: then True is returned."""
        header = self._header
        stop = min(self._index + limit, header.record_count)
        self._position, self._index = read_rows(
            self._data,
            self._position,
            self._index,
            stop,
            header.base_offset,
            header.base_timestamp,
            self._topic,
            self._partition,
            self._timestamp_type,
            self._leader_epoch,
            self._row_class,
            rows,
        )
        return self._index < stop

    def _read_any(self, rows: list[Any]) -> None:
        """Read one record with the plain decoder, and append it unless it is before the requested offset."""
        start = self._position
        size, body = decode_varint(self._data, start)
        end = body + size
        if size < 0 or end > len(self._data):
            raise CorruptRecordError(f"a record of {size} bytes begins at byte {start} of {len(self._data)}")
        header = self._header
        record: Record
        (record,) = decode_records(
            self._data[start:end], 1, header.base_offset, header.base_timestamp, self._append_time
        )
        self._position = end
        self._index += 1
        if record.offset >= self._from_offset:
            offset, timestamp, key, value, headers = record
            fields = (
                self._topic,
                self._partition,
                offset,
                timestamp,
                key,
                value,
                headers,
                self._timestamp_type,
                self._leader_epoch,
            )
            rows.append(tuple.__new__(self._row_class, fields))

    def _skip(self, count: int) -> None:
        """Skip the first `count` records by their lengths."""
        try:
            for _ in range(count):
                size, body = decode_varint(self._data, self._position)
                self._position = body + max(size, 0)
        except IndexError:
            raise CorruptRecordError(f"the records of a batch are cut off after {len(self._data)} bytes") from None
        self._index = count


def read_rows_in_python(
    data: bytes,
    position: int,
    index: int,
    stop: int,
    base_offset: int,
    base_timestamp: int,
    topic: str,
    partition: int,
    timestamp_type: TimestampType,
    leader_epoch: int,
    row_class: type[tuple[Any, ...]],
    rows: list[Any],
    /,
) -> tuple[int, int]:
    """Append the records from `index` to `stop` of a batch without gaps as rows; the position and index behind them.

    It stops before `stop` at a record with headers and at any that is unusual or malformed; what such a record is, the
    plain decoder says. Bytes that end too soon raise IndexError or CorruptRecordError, or leave a position behind them.
    """
    unzigzag, new, append = UNZIGZAG, tuple.__new__, rows.append
    for each in range(index, stop):
        start = position
        if (low := data[position]) < 0x80:
            end = unzigzag[low] + position + 1
            position += 2
        elif (high := data[position + 1]) < 0x80:
            end = (unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)) + position + 2
            position += 3
        else:
            end, position = decode_varint(data, position)
            end += position
            position += 1
        if (low := data[position]) < 0x80:
            timestamp = unzigzag[low]
            position += 1
        elif (high := data[position + 1]) < 0x80:
            timestamp = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
            position += 2
        else:
            timestamp, position = decode_varlong(data, position)
        if (low := data[position]) < 0x80:
            offset_delta = unzigzag[low]
            position += 1
        else:
            offset_delta, position = decode_varint(data, position)
        if (low := data[position]) == 1:
            key = None
            position += 1
        elif low < 0x80 and not low & 1:
            key = data[position + 1 : (position := position + 1 + unzigzag[low])]
        else:
            size, position = decode_varint(data, position)
            if size < 0:
                return start, each
            key = data[position : (position := position + size)]
        if (low := data[position]) < 0x80:
            size = low >> 1
            position += 1
        elif (high := data[position + 1]) < 0x80:
            size = high << 6 | (low & 0x7F) >> 1
            position += 2
        else:
            size, position = decode_varint(data, position)
        if offset_delta != each or position + size + 1 != end or (low & 1 and low != 1):
            return start, each
        value = None if low == 1 else data[position : end - 1]
        fields = (
            topic,
            partition,
            base_offset + each,
            base_timestamp + timestamp,
            key,
            value,
            (),
            timestamp_type,
            leader_epoch,
        )
        append(new(row_class, fields))
        position = end
    return position, stop


# A library that was built from older sources may lack it.
_in_c = getattr(speedups, "read_rows", None)
read_rows: Callable[..., tuple[int, int]] = _in_c or read_rows_in_python
"""`read_rows_in_python`, or the same in C."""
