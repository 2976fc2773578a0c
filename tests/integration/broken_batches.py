"""Batches that are not what they say, with the answer of Apache Kafka 3.9.1 to each and ours.

`tests/compat/apache_kafka/test_broken_batches.py` holds a running Kafka to its column, `test_hostile_batches.py` our
broker to ours. The two differ where Kafka answers UNKNOWN_SERVER_ERROR, and where Kafka stores what readers disagree
about; a reason stands beside each of the latter.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

from tidelog.records.compression import Codec, compress
from tidelog.wire.errors import ErrorCode

NONE = ErrorCode.NONE
INVALID = ErrorCode.INVALID_RECORD
CORRUPT = ErrorCode.CORRUPT_MESSAGE
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR

TIMESTAMP = 1_700_000_000_000
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class BrokenBatch(NamedTuple):
    """The records of one partition in a Produce request, and the two answers."""

    records: bytes | None
    ours: ErrorCode
    kafkas: ErrorCode | None
    """None where Kafka never answers."""


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def record(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes = b"v",
    key_size: int | None = None,
    value_size: int | None = None,
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    """A record whose sizes may lie."""
    sizes = (len(key) if key is not None else -1) if key_size is None else key_size
    body = b"".join(
        (
            b"\0",
            varint(timestamp_delta),
            varint(offset_delta),
            varint(sizes),
            key or b"",
            varint(len(value) if value_size is None else value_size),
            value,
            headers,
        )
    )
    return varint(len(body) if length is None else length) + body


def sealed(
    payload: bytes,
    *,
    attributes: int = 0,
    count: int = 1,
    last_delta: int | None = None,
    max_timestamp: int = TIMESTAMP,
) -> bytes:
    """A batch with a correct length and checksum, whatever it holds."""
    delta = count - 1 if last_delta is None else last_delta
    checked = struct.pack(">hiqqqhii", attributes, delta, TIMESTAMP, max_timestamp, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def good_batch() -> bytes:
    """With a key, so that compacted topics take it."""
    return sealed(record())


def patched(position: int, form: str, value: int) -> bytes:
    """A batch with a number overwritten, its checksum left as it was."""
    batch = bytearray(good_batch())
    struct.pack_into(form, batch, position, value)
    return bytes(batch)


BROKEN_HEADERS: dict[str, BrokenBatch] = {
    "a wrong checksum": BrokenBatch(patched(17, ">I", 12345), CORRUPT, CORRUPT),
    "a wrong byte": BrokenBatch(good_batch()[:-2] + b"w\x00", CORRUPT, CORRUPT),
    "a length beyond the end": BrokenBatch(patched(8, ">i", 1_000_000), INVALID, INVALID),
    "a length of two billion": BrokenBatch(patched(8, ">i", 2**31 - 1), INVALID, UNKNOWN),
    "a negative length": BrokenBatch(patched(8, ">i", -1), CORRUPT, CORRUPT),
    "a length of zero": BrokenBatch(patched(8, ">i", 0), CORRUPT, CORRUPT),
    "an unknown codec": BrokenBatch(sealed(b"xxxx", attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN),
    "a negative count": BrokenBatch(sealed(b"", count=-1), INVALID, INVALID),
    "no records": BrokenBatch(sealed(b"", count=0), INVALID, INVALID),
    "more offsets than records": BrokenBatch(sealed(record(), last_delta=10), INVALID, INVALID),
    "fewer offsets than records": BrokenBatch(sealed(record() + record(1), count=2, last_delta=0), INVALID, INVALID),
    "a base offset": BrokenBatch(patched(0, ">q", 42), INVALID, INVALID),
    "an unknown magic": BrokenBatch(patched(16, ">b", 3), CORRUPT, CORRUPT),
    "an old magic": BrokenBatch(patched(16, ">b", 1), INVALID, INVALID),
    "the bit of a control batch": BrokenBatch(sealed(record(), attributes=0x20), INVALID, INVALID),
    "two batches": BrokenBatch(good_batch() * 2, INVALID, INVALID),
    "half a batch": BrokenBatch(good_batch()[:40], INVALID, INVALID),
    "a few bytes": BrokenBatch(b"abc", INVALID, INVALID),
    "nothing": BrokenBatch(b"", INVALID, INVALID),
    "null": BrokenBatch(None, INVALID, None),
}

BROKEN_RECORDS: dict[str, BrokenBatch] = {
    "no records at all": BrokenBatch(sealed(b"", count=3), INVALID, INVALID),
    "a count of two billion": BrokenBatch(sealed(b"", count=2**31 - 1), INVALID, INVALID),
    "fewer records than the count": BrokenBatch(sealed(record(), count=3), INVALID, INVALID),
    "more records than the count": BrokenBatch(sealed(record() + record(1)), INVALID, INVALID),
    "a record that is cut off": BrokenBatch(sealed(record()[:-3]), INVALID, INVALID),
    "bytes after the last record": BrokenBatch(sealed(record() + b"left over"), INVALID, INVALID),
    "a record of minus five bytes": BrokenBatch(sealed(b"\x09" + bytes(20)), INVALID, INVALID),
    "a record of no bytes": BrokenBatch(sealed(b"\0"), INVALID, INVALID),
    "a record length that is too large": BrokenBatch(sealed(record(length=100)), INVALID, INVALID),
    "a record length that is too small": BrokenBatch(sealed(record(length=3)), INVALID, INVALID),
    "a key of two billion bytes": BrokenBatch(sealed(record(key_size=2**31 - 1)), INVALID, INVALID),
    "a key beyond its record": BrokenBatch(sealed(record(key_size=6)), INVALID, INVALID),
    "a value of a billion bytes": BrokenBatch(sealed(record(value_size=2**30)), INVALID, INVALID),
    "a varint without an end": BrokenBatch(sealed(b"\xff" * 40), INVALID, UNKNOWN),
    "a timestamp without an end": BrokenBatch(sealed(varint(40) + b"\0" + b"\xff" * 39), INVALID, INVALID),
    "two billion headers": BrokenBatch(sealed(record(headers=varint(2**31 - 1))), INVALID, INVALID),
    "minus one header": BrokenBatch(sealed(record(headers=varint(-1))), INVALID, INVALID),
    "a header without a key": BrokenBatch(sealed(record(headers=varint(1) + varint(-1) + varint(0))), INVALID, INVALID),
    # Kafka takes every negative size for null; decoders of other clients do not.
    "a value of minus two bytes": BrokenBatch(sealed(record(value=b"", value_size=-2)), INVALID, NONE),
    "a header value of minus two bytes": BrokenBatch(
        sealed(record(headers=varint(1) + varint(1) + b"h" + varint(-2))), INVALID, NONE
    ),
    # Java's sum wraps around.
    "a timestamp beyond 64 bits": BrokenBatch(sealed(record(timestamp_delta=2**63 - 1)), INVALID, NONE),
}


def _compressed_cases(codec: Codec) -> dict[str, BrokenBatch]:
    name = codec.name.lower()

    def packed(payload: bytes, count: int = 1) -> bytes:
        return sealed(compress(codec, payload), attributes=codec, count=count)

    cut_short = UNKNOWN if codec is not Codec.GZIP else INVALID
    empty = INVALID if codec is Codec.ZSTD else UNKNOWN
    return {
        f"noise for {name}": BrokenBatch(sealed(b"noise" * 20, attributes=codec), INVALID, UNKNOWN),
        f"plain records for {name}": BrokenBatch(sealed(record(), attributes=codec), INVALID, UNKNOWN),
        f"no bytes for {name}": BrokenBatch(sealed(b"", attributes=codec), INVALID, empty),
        f"two billion records in no bytes of {name}": BrokenBatch(
            sealed(b"", attributes=codec, count=2**31 - 1), INVALID, empty
        ),
        f"{name} of nothing": BrokenBatch(packed(b""), INVALID, INVALID),
        f"{name} that is cut off": BrokenBatch(
            sealed(compress(codec, record() * 1000)[:-5], attributes=codec), INVALID, cut_short
        ),
        f"{name} of fewer records": BrokenBatch(packed(record(), count=3), INVALID, INVALID),
        f"{name} of more records": BrokenBatch(packed(record() + record(1)), INVALID, INVALID),
        f"{name} of a record that is cut off": BrokenBatch(packed(record()[:-3]), INVALID, INVALID),
        f"{name} of a negative length": BrokenBatch(packed(b"\x09" + bytes(20)), INVALID, INVALID),
        f"{name} of a value of a billion bytes": BrokenBatch(packed(record(value_size=2**30)), INVALID, INVALID),
        f"{name} of minus one header": BrokenBatch(packed(record(headers=varint(-1))), INVALID, INVALID),
        f"{name} of bytes after the last record": BrokenBatch(packed(record() + b"after"), INVALID, INVALID),
    }


for _codec in COMPRESSED:
    BROKEN_RECORDS.update(_compressed_cases(_codec))

KEPT: dict[str, bytes] = {
    "offsets that run backwards": sealed(record(1) + record(0), count=2),
    "offsets that are all alike": sealed(record() * 2, count=2),
    "a gap in the offsets": sealed(record() + record(2), count=2),
    "a max timestamp that no record has": sealed(record(), max_timestamp=5),
}
"""What Kafka stores as well. Offsets are numbered again here, and the max timestamp is put right by both."""

KEPT_UNLESS_COMPRESSED = [name for name in KEPT if "offsets" in name]
"""Compressed, these get UNKNOWN_SERVER_ERROR from Kafka, and INVALID_RECORD here."""
