"""The records of a batch: the plain Python decoder and encoder that define the format of magic 2.

`batch` reads and `builder` writes with these functions, which do not handle headers or compression of batches. A record
is

    length, attributes, timestamp delta, offset delta, key size and key, value size and value, header count, headers

where all numbers but the attributes byte are zigzag varints and a size of -1 means null. The loops below read varints
of one byte inline, of two where they are common, and call a function for longer ones. They check each record once, at
its end: if a slice went past the data, the positions do not match.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.records._varint import UNZIGZAG, decode_varint, decode_varlong, encode_varint
from tidelog.records.errors import CorruptRecordError

Headers = tuple[tuple[str, bytes | None], ...]
_NO_HEADERS: Headers = ()


class Record(NamedTuple):
    """One record. Header keys that are not UTF-8 keep their bytes as surrogate escapes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, log_append_time: int | None
) -> Iterator[Record]:
    """Yield the `count` records of `data`, which must contain nothing else."""
    position = 0
    size = len(data)
    unzigzag = UNZIGZAG
    new = tuple.__new__
    try:
        for _ in range(count):
            if (low := data[position]) < 0x80:
                end = unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                end = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 2
            else:
                end, position = decode_varint(data, position)
            end += position
            if (low := data[position + 1]) < 0x80:
                timestamp = unzigzag[low]
                position += 2
            elif (high := data[position + 2]) < 0x80:
                timestamp = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 3
            else:
                timestamp, position = decode_varlong(data, position + 1)
            if (low := data[position]) < 0x80:
                offset = unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 2
            else:
                offset, position = decode_varint(data, position)
            if (low := data[position]) < 0x80:
                length = unzigzag[low]
                position += 1
            else:
                length, position = decode_varint(data, position)
            key = data[position : (position := position + length)] if length >= 0 else _null("key", length)
            if (low := data[position]) < 0x80:
                length = unzigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                length = unzigzag[low & 1] ^ (high << 6 | (low & 0x7F) >> 1)
                position += 2
            else:
                length, position = decode_varint(data, position)
            value = data[position : (position := position + length)] if length >= 0 else _null("value", length)
            headers, position = decode_headers(data, position) if data[position] else (_NO_HEADERS, position + 1)
            if position != end or end > size:
                raise _misfit(position, end, size)
            yield new(
                Record,
                (
                    base_offset + offset,
                    base_timestamp + timestamp if log_append_time is None else log_append_time,
                    key,
                    value,
                    headers,
                ),
            )
    except IndexError:
        raise _cut_off(count, size) from None
    if position != size:
        raise CorruptRecordError(f"{size - position} bytes are left after the {count} records of a batch")


def decode_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = decode_varint(data, position)
    if count < 0 or count > len(data) - position:
        raise CorruptRecordError(f"a record claims {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = decode_varint(data, position)
        if length < 0:
            raise _negative_size("header key", length)
        key = data[position : position + length].decode("utf-8", "surrogateescape")
        length, position = decode_varint(data, position + length)
        if length < -1:
            raise _negative_size("header value", length)
        if length == -1:
            headers.append((key, None))
        else:
            headers.append((key, data[position : position + length]))
            position += length
    return tuple(headers), position


def encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """The bytes of one record, its length in front."""
    body = b"".join(
        (
            b"\0",
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            b"\1" if key is None else encode_varint(len(key)),
            key or b"",
            b"\1" if value is None else encode_varint(len(value)),
            value or b"",
            encode_headers(headers) if headers else b"\0",
        )
    )
    return encode_varint(len(body)) + body


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The count of headers and the headers, as they end a record."""
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        key_bytes = key.encode("utf-8", "surrogateescape")
        parts.append(encode_varint(len(key_bytes)))
        parts.append(key_bytes)
        if value is None:
            parts.append(b"\1")
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def _negative_size(what: str, size: int) -> CorruptRecordError:
    return CorruptRecordError(f"a record has a {what} of {size} bytes")


def _null(what: str, size: int) -> bytes | None:
    """None if `size` is -1; any other negative size is an error."""
    if size != -1:
        raise _negative_size(what, size)
    return None


def _misfit(position: int, end: int, size: int) -> CorruptRecordError:
    return CorruptRecordError(f"a record ends at byte {position}, not at {end} as its length says (of {size})")


def _cut_off(count: int, size: int) -> CorruptRecordError:
    return CorruptRecordError(f"the {count} records of a batch are cut off after {size} bytes")
