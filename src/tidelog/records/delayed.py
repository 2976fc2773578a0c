"""Delayed records in the log of their topic: headers, entries, and the control batches that hold what waits.

A topic with `tidelog.delay.enable` accepts records with the header `tidelog-delay` or `tidelog-deliver-at`. `split`
takes them out of a producer's batch. What is left, which may be an empty batch, keeps the offsets and sequences of the
whole, so the producer state of the log needs no knowledge of delays. The delayed records go into control batches in
front of it, which every Kafka client skips and every replica copies.

All that happens to waiting records is one kind of control record, a `Change`: entries that are removed, entries that
are added, and the bytes of records that begin to wait. A change may depend on a batch that follows it (`lead`, `crc`):
it has no effect unless that batch is in the log, because a crash may cut the log between the two. A producer's change
depends on the rest of its batch, a delivery on the batch of delivered records. So each pair takes effect as one.

An entry is 32 bytes, ordered as the records are delivered: by time, then by arrival.

In a compacted topic the other kind of control record is a floor: an offset below which nothing waits. Compaction
removes all control batches about delayed records below the last floor. A replica that had applied some of them, and
never gets the others, drops what it takes for waiting there when it applies the floor.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.records._varint import decode_varint, decode_varlong, encode_varint
from tidelog.records.builder import build_batch
from tidelog.records.compression import Buffer, Codec, compress
from tidelog.records.control import CONTROL_KEY, CONTROL_VERSION
from tidelog.records.errors import CorruptRecordError, InvalidRecordError
from tidelog.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    assemble_batch,
)
from tidelog.records.record import Record

DELAY_HEADER: Final = b"tidelog-delay"
DELIVER_AT_HEADER: Final = b"tidelog-deliver-at"
_COMMON_PREFIX: Final = b"tidelog-de"

DELAY_CHANGE: Final = 20_000
"""The type in the key of the control record. Kafka's own types are below 10; clients ignore those they do not know."""
_CHANGE_KEY: Final = CONTROL_KEY.pack(CONTROL_VERSION, DELAY_CHANGE)
DELAY_FLOOR: Final = 20_001
_FLOOR_KEY: Final = CONTROL_KEY.pack(CONTROL_VERSION, DELAY_FLOOR)
_FLOOR: Final = struct.Struct(">hq")
"""Version and offset."""
_VERSION: Final = 0
_CHANGE: Final = struct.Struct(">hiIqhII")
"""Version, lead, crc, producer id and epoch, removed entries, added entries; then those, then the waiting records."""
_SIZE: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">qqqII")
ENTRY_BYTES: Final = _ENTRY.size
CHANGE_OVERHEAD_BYTES: Final = HEADER_BYTES + 64 + _CHANGE.size
_ENTRY_OVERHEAD_BYTES: Final = ENTRY_BYTES + _SIZE.size
_RECORD_OVERHEAD_BYTES: Final = 32

_DURATION: Final = re.compile(rb"(\d{1,18})(ms|s|m|h|d)?")
_UNITS_MS: Final = {None: 1, b"ms": 1, b"s": 1000, b"m": 60_000, b"h": 3_600_000, b"d": 86_400_000}
_EPOCH_MS: Final = re.compile(rb"\d{1,18}")
_ERRORS_MAX: Final = 1000
_SHOWN_BYTES_MAX: Final = 40
LOOP_RECORDS_MAX: Final = 400
"""Most records that are split on the event loop."""


class Entry(NamedTuple):
    """One waiting record: when it is due, its offset in the reply to its producer, and where its bytes lie."""

    deliver_at_ms: int
    """Below zero in a transaction: minus the delay, which begins at the commit."""
    id: int
    location: int
    """The base offset of the control batch with the bytes."""
    distance: int
    """From the end of that batch's value to the bytes, so that it does not depend on the size of what precedes them."""
    key_hash: int

    def pack(self) -> bytes:
        return _ENTRY.pack(*self)


def unpack_entry(data: Buffer, position: int = 0) -> Entry:
    """The entry in 32 bytes."""
    return Entry(*_ENTRY.unpack_from(data, position))


def key_hash(key: bytes | None) -> int:
    """The hash that entries are found by; 0 without a key."""
    return crc32(key) if key is not None else 0


class Change(NamedTuple):
    """What one control batch does to the waiting records of its partition."""

    removed: Sequence[bytes]
    added: Sequence[bytes]
    lead: int = 0
    """How many offsets after the control batch the batch begins that it depends on; 0 if it depends on none."""
    crc: int = 0
    """The checksum of that batch."""
    producer_id: int = NO_PRODUCER_ID
    """Of the transaction whose commit the added entries wait for; -1 outside of transactions."""
    producer_epoch: int = NO_PRODUCER_EPOCH


def encode_change(change: Change, payload: Iterable[bytes] = (), *, base_offset: int, timestamp: int) -> bytes:
    """The control batch of a change. `payload` is the waiting records in it, each as `waiting_bytes` encodes it."""
    head = _CHANGE.pack(
        _VERSION,
        change.lead,
        change.crc,
        change.producer_id,
        change.producer_epoch,
        len(change.removed),
        len(change.added),
    )
    value = b"".join((head, *change.removed, *change.added, *payload))
    record = Record(base_offset, timestamp, _CHANGE_KEY, value)
    return build_batch([record], base_offset=base_offset, is_control=True)


def encode_floor(floor: int, *, base_offset: int, timestamp: int) -> bytes:
    """The control batch of a floor."""
    record = Record(base_offset, timestamp, _FLOOR_KEY, _FLOOR.pack(_VERSION, floor))
    return build_batch([record], base_offset=base_offset, is_control=True)


def is_change(batch: Buffer, header: BatchHeader) -> bool:
    """Whether a whole batch is a change."""
    return _key_of_ours(batch, header, 0) == _CHANGE_KEY


def is_floor(batch: Buffer, header: BatchHeader) -> bool:
    """Whether a whole batch is a floor."""
    return _key_of_ours(batch, header, 0) == _FLOOR_KEY


def is_about_delayed(buffer: Buffer, header: BatchHeader, position: int) -> bool:
    """Whether the batch at a position is a change or a floor."""
    return _key_of_ours(buffer, header, position) in (_CHANGE_KEY, _FLOOR_KEY)


def _key_of_ours(buffer: Buffer, header: BatchHeader, position: int) -> bytes | None:
    """The key of the record of a control batch of no producer; None for other batches."""
    if not header.is_control or header.producer_id >= 0 or header.record_count != 1:
        return None
    _, position = decode_varint(buffer, position + HEADER_BYTES)
    return bytes(buffer[position + 4 : position + 8])


def parse_floor(batch: Buffer) -> int:
    """The offset of a floor. Raises CorruptRecordError."""
    try:
        _, position = decode_varint(batch, HEADER_BYTES)
        _, position = decode_varint(batch, position + 8)
        version, floor = _FLOOR.unpack_from(batch, position)
    except (struct.error, IndexError) as error:
        raise CorruptRecordError("a floor of delayed records is cut off") from error
    if version != _VERSION:
        raise CorruptRecordError(f"a floor of delayed records has version {version}, not {_VERSION}")
    return int(floor)


def parse_change(batch: Buffer) -> Change:
    """The change in a control batch. Raises CorruptRecordError."""
    try:
        _, position = decode_varint(batch, HEADER_BYTES)
        size, position = decode_varint(batch, position + 8)
        version, lead, crc, producer_id, producer_epoch, removed, added = _CHANGE.unpack_from(batch, position)
    except (struct.error, IndexError) as error:
        raise CorruptRecordError("a change of delayed records is cut off") from error
    if version != _VERSION:
        raise CorruptRecordError(f"a change of delayed records has version {version}, not {_VERSION}")
    start = position + _CHANGE.size
    middle = start + removed * ENTRY_BYTES
    end = middle + added * ENTRY_BYTES
    if end > position + size or position + size > len(batch):
        raise CorruptRecordError(f"a change claims {removed} removed and {added} added entries in {size} bytes")
    entries = bytes(batch[start:end])
    return Change(
        [entries[at : at + ENTRY_BYTES] for at in range(0, middle - start, ENTRY_BYTES)],
        [entries[at : at + ENTRY_BYTES] for at in range(middle - start, end - start, ENTRY_BYTES)],
        lead,
        crc,
        producer_id,
        producer_epoch,
    )


def waiting_bytes(tail: bytes) -> bytes:
    """A waiting record in the payload of a change: its size, then the record from its key on."""
    return _SIZE.pack(len(tail)) + tail


def waiting_size(data: Buffer) -> int:
    """The bytes of the record after the size that `data` begins with."""
    size: int = _SIZE.unpack_from(data)[0]
    return size


WAITING_SIZE_BYTES: Final = _SIZE.size


def key_of(tail: bytes) -> bytes | None:
    """The key of a waiting record."""
    size, position = decode_varint(tail, 0)
    return None if size < 0 else tail[position : position + size]


def value_bytes_of(tail: bytes) -> int:
    """The size of a waiting record's value; -1 if it is null."""
    size, position = decode_varint(tail, 0)
    return decode_varint(tail, position + max(size, 0))[0]


def build_delivery(due: Sequence[tuple[int, bytes]]) -> bytes:
    """The batch of records that become visible: each with its due time as timestamp, all else as it was produced."""
    base_timestamp = due[0][0]
    parts = []
    for offset_delta, (deliver_at_ms, tail) in enumerate(due):
        body = b"".join(
            (b"\0", encode_varint(deliver_at_ms - base_timestamp), encode_varint(offset_delta), tail),
        )
        parts.append(encode_varint(len(body)))
        parts.append(body)
    header = BatchHeader(
        0, 0, -1, 2, 0, 0, len(due) - 1, base_timestamp, due[-1][0], NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE,
        len(due),
    )  # fmt: skip
    return assemble_batch(header, b"".join(parts))


def delivery_bytes(tail_bytes: int) -> int:
    """At most so many bytes does a waiting record add to the batch of its delivery."""
    return tail_bytes + _RECORD_OVERHEAD_BYTES


# Out of a producer's batch


class DelayRules(NamedTuple):
    """The rules of a topic for delayed records."""

    delay_max_ms: int
    batch_bytes_max: int


class _Delayed(NamedTuple):
    """A record that is to wait: its number in the batch, its time (see `Entry.deliver_at_ms`), hash and bytes."""

    position: int
    deliver_at_ms: int
    key_hash: int
    tail: bytes


class Waiting(NamedTuple):
    """The delayed records of one batch, in as many control batches as they need."""

    chunks: Sequence[Sequence[_Delayed]]
    producer_id: int
    producer_epoch: int

    @property
    def batch_count(self) -> int:
        return len(self.chunks)

    def encode(self, base_offset: int, crc: int, now_ms: int) -> list[bytes]:
        """The control batches, from `base_offset` on. The batch that they depend on follows and has `crc`."""
        first_id = base_offset + len(self.chunks)
        return [
            self._encode(chunk, base_offset + slot, first_id, crc, now_ms) for slot, chunk in enumerate(self.chunks)
        ]

    def _encode(self, chunk: Sequence[_Delayed], location: int, first_id: int, crc: int, now_ms: int) -> bytes:
        payload = [waiting_bytes(record.tail) for record in chunk]
        distances = distances_of(payload)
        added = [
            Entry(record.deliver_at_ms, first_id + record.position, location, distance, record.key_hash).pack()
            for record, distance in zip(chunk, distances, strict=True)
        ]
        change = Change((), added, first_id - location, crc, self.producer_id, self.producer_epoch)
        return encode_change(change, payload, base_offset=location, timestamp=now_ms)


def distances_of(payload: Sequence[bytes]) -> list[int]:
    """How far each part lies before the end of all."""
    left = sum(map(len, payload))
    distances = []
    for part in payload:
        distances.append(left)
        left -= len(part)
    return distances


class Split(NamedTuple):
    """A producer's batch in two: what is visible at once, and what waits."""

    batch: bytes
    waiting: Waiting


def has_delay_headers(content: Buffer) -> bool:
    """Whether encoded records may have one of the headers; False for certain if they have none."""
    return (content if isinstance(content, bytes) else bytes(content)).find(_COMMON_PREFIX) >= 0


def split(header: BatchHeader, content: Buffer, rules: DelayRules, now_ms: int, level: int | None) -> Split | None:
    """Take the delayed records out of a checked batch, whose decompressed records are `content`; None if it has none.

    A record that is due already is not delayed. Raises InvalidRecordError, which names each record at fault.
    """
    data = bytes(content)
    visible: list[bytes] = []
    delayed: list[_Delayed] = []
    errors: list[tuple[int, str]] = []
    max_timestamp = NO_TIMESTAMP
    position = 0
    for index in range(header.record_count):
        start = position
        length, position = decode_varint(data, position)
        position += length
        found = _read_record(data, start)
        try:
            wait_ms = _wait_ms(found.headers, rules.delay_max_ms, now_ms)
            if wait_ms > 0:
                delayed.append(_delay(data[found.tail : position], index, wait_ms, found, header, rules, now_ms))
                continue
        except ValueError as error:
            errors.append((index, str(error)))
            if len(errors) == _ERRORS_MAX:
                break
            continue
        visible.append(data[start:position])
        max_timestamp = max(max_timestamp, header.base_timestamp + found.timestamp_delta)
    if errors:
        index, problem = errors[0]
        raise InvalidRecordError(
            f"{len(errors)} records rejected, starting with record {index}: {problem}", tuple(errors)
        )
    if not delayed:
        return None
    return Split(
        _rest_of(header, visible, max_timestamp, level),
        Waiting(
            _chunks(delayed, rules.batch_bytes_max),
            header.producer_id if header.is_transactional else NO_PRODUCER_ID,
            header.producer_epoch if header.is_transactional else NO_PRODUCER_EPOCH,
        ),
    )


class _Found(NamedTuple):
    timestamp_delta: int
    tail: int
    key: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]


def _read_record(data: bytes, position: int) -> _Found:
    """What decides on a record: its key and its delay headers, and where its key begins."""
    _, position = decode_varint(data, position)
    timestamp_delta, position = decode_varlong(data, position + 1)
    _, tail = decode_varint(data, position)
    size, position = decode_varint(data, tail)
    key = None
    if size >= 0:
        key = data[position : position + size]
        position += size
    size, position = decode_varint(data, position)
    count, position = decode_varint(data, position + max(size, 0))
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        size, position = decode_varint(data, position)
        name = data[position : position + size]
        size, position = decode_varint(data, position + size)
        if name in (DELAY_HEADER, DELIVER_AT_HEADER):
            headers.append((name, data[position : position + size] if size >= 0 else None))
        position += max(size, 0)
    return _Found(timestamp_delta, tail, key, headers)


def _wait_ms(headers: Sequence[tuple[bytes, bytes | None]], delay_max_ms: int, now_ms: int) -> int:
    """How long a record is to wait from now on; 0 if it is not. Raises ValueError."""
    if not headers:
        return 0
    names = {name for name, _ in headers}
    if len(names) > 1:
        raise ValueError("the headers tidelog-delay and tidelog-deliver-at exclude each other")
    name, value = headers[-1]
    if value is None:
        raise ValueError(f"the header {name.decode()} is null")
    wait_ms = parse_delay_ms(value) if name == DELAY_HEADER else parse_deliver_at_ms(value) - now_ms
    if wait_ms > delay_max_ms:
        raise ValueError(
            f"{name.decode()}={_shown(value)} is {wait_ms} ms ahead, more than tidelog.delay.max.ms={delay_max_ms}; "
            "change that setting of the topic"
        )
    return max(wait_ms, 0)


def parse_delay_ms(value: bytes) -> int:
    """The milliseconds of `1500`, `1500ms`, `10s`, `5m`, `2h` or `1d`. Raises ValueError."""
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(
            f"the header tidelog-delay is {_shown(value)}, not milliseconds or a number with ms, s, m, h or d, as text"
        )
    return int(found[1]) * _UNITS_MS[found[2]]


def parse_deliver_at_ms(value: bytes) -> int:
    """The milliseconds since 1970 in a header. Raises ValueError."""
    if _EPOCH_MS.fullmatch(value) is None:
        raise ValueError(f"the header tidelog-deliver-at is {_shown(value)}, not milliseconds since 1970, as text")
    return int(value)


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace"))


def _delay(
    tail: bytes, index: int, wait_ms: int, found: _Found, header: BatchHeader, rules: DelayRules, now_ms: int
) -> _Delayed:
    room = rules.batch_bytes_max - CHANGE_OVERHEAD_BYTES - _ENTRY_OVERHEAD_BYTES
    if len(tail) > room:
        raise ValueError(
            f"a delayed record is stored uncompressed, and {len(tail)} bytes do not fit "
            f"max.message.bytes={rules.batch_bytes_max}; change that setting of the topic"
        )
    is_relative = header.is_transactional and found.headers[-1][0] == DELAY_HEADER
    return _Delayed(index, -wait_ms if is_relative else now_ms + wait_ms, key_hash(found.key), tail)


def _chunks(delayed: Sequence[_Delayed], batch_bytes_max: int) -> list[list[_Delayed]]:
    chunks: list[list[_Delayed]] = []
    room = 0
    for record in delayed:
        size = len(record.tail) + _ENTRY_OVERHEAD_BYTES
        if size > room:
            chunks.append([])
            room = batch_bytes_max - CHANGE_OVERHEAD_BYTES
        chunks[-1].append(record)
        room -= size
    return chunks


def _rest_of(header: BatchHeader, visible: Sequence[bytes], max_timestamp: int, level: int | None) -> bytes:
    """The batch without its delayed records: offsets, sequences and timestamps as they were."""
    attributes = header.attributes
    payload = b"".join(visible)
    if not visible:
        # As compaction leaves a batch without records: no codec, and the timestamp of what it had.
        attributes &= ~CODEC_MASK
        max_timestamp = header.max_timestamp
    elif attributes & CODEC_MASK:
        payload = compress(Codec(attributes & CODEC_MASK), payload, level)
    rest = header._replace(attributes=attributes, max_timestamp=max_timestamp, record_count=len(visible))
    return assemble_batch(rest, payload)
