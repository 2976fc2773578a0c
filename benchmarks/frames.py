"""Request frames, written by hand, and the few response fields a case looks at.

The loops in `load` send these bytes again and again, so they are built once. Versions are the newest that a 3.9 broker
serves, see `VERSIONS`; Produce and Fetch also have older ones, as clients of other languages send them. Written apart
from `tidelog.wire`, so that a mistake in the broker's codec cannot hide in the load.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import crc32c

CLIENT_ID = b"benchmarks"
NO_TAGS = b"\x00"
NO_UUID = bytes(16)
LATEST, EARLIEST = -1, -2

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 3, 19, 20
VERSIONS: Mapping[int, int] = {
    PRODUCE: 11,
    FETCH: 17,
    LIST_OFFSETS: 7,
    METADATA: 12,
    CREATE_TOPICS: 7,
    DELETE_TOPICS: 6,
}
PRODUCE_FLEXIBLE_FROM = 9
FETCH_LOG_STARTS_FROM, FETCH_SESSIONS_FROM, FETCH_LEADER_EPOCHS_FROM, FETCH_RACKS_FROM = 5, 7, 9, 11
FETCH_TOPIC_IDS_FROM = 13


def uvarint(value: int) -> bytes:
    """An unsigned varint, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A zigzag varint, as records use them."""
    return uvarint((value << 1) ^ (value >> 63))


def text(value: str) -> bytes:
    """A compact string."""
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def _short_text(value: str) -> bytes:
    """A string of the versions before the flexible ones."""
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def array(items: Sequence[bytes]) -> bytes:
    """A compact array of encoded items."""
    return uvarint(len(items) + 1) + b"".join(items)


def request(api_key: int, body: bytes, correlation_id: int = 1) -> bytes:
    """A whole frame: length, header version 2, body."""
    return _frame(api_key, VERSIONS[api_key], NO_TAGS + body, correlation_id)


def _frame(api_key: int, version: int, rest: bytes, correlation_id: int = 1) -> bytes:
    """A whole frame whose header is of version 1 but for what `rest` begins with."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(rest)) + header + rest


def record(offset_delta: int, value: bytes) -> bytes:
    """One record without key and headers."""
    body = b"\x00" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(values: Sequence[bytes], producer: tuple[int, int, int] = (-1, -1, -1), attributes: int = 0) -> bytes:
    """An uncompressed record batch of magic 2, stamped now. `producer` is its id, epoch and first sequence number."""
    records = b"".join(record(delta, value) for delta, value in enumerate(values))
    now_ms = int(time.time() * 1000)
    last_delta = len(values) - 1
    checked = struct.pack(">hiqqqhii", attributes, last_delta, now_ms, now_ms, *producer, len(values)) + records
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def batch_of_bytes(batch_bytes: int, record_bytes: int) -> bytes:
    """A batch of about `batch_bytes`, never more, made of records of about `record_bytes`."""
    count = max(1, batch_bytes // record_bytes)
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    each = (batch_bytes - 61) // count
    overhead = len(record(count, value[:each])) - each
    return batch([value[: each - overhead]] * count)


def produce(topic: str, partition: int, records: bytes, acks: int = -1, version: int = VERSIONS[PRODUCE]) -> bytes:
    """Produce one batch to one partition, in version 3 or newer."""
    if version < PRODUCE_FLEXIBLE_FROM:
        head = struct.pack(">hhii", -1, acks, 30_000, 1) + _short_text(topic)
        return _frame(PRODUCE, version, head + struct.pack(">iii", 1, partition, len(records)) + records)
    data = struct.pack(">i", partition) + uvarint(len(records) + 1) + records + NO_TAGS
    topic_data = text(topic) + array([data]) + NO_TAGS
    body = uvarint(0) + struct.pack(">hi", acks, 30_000) + array([topic_data]) + NO_TAGS
    return _frame(PRODUCE, version, NO_TAGS + body)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long a fetch may wait and how much it may bring."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 52_428_800


def fetch(
    topic_id: bytes,
    positions: Iterable[tuple[int, int]],
    limits: FetchLimits,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    """Fetch (partition, offset) pairs of one topic; without a session unless one is given."""
    partitions = [
        struct.pack(">iiqiqi", partition, -1, offset, -1, -1, limits.bytes_max) + NO_TAGS
        for partition, offset in positions
    ]
    topics = [topic_id + array(partitions) + NO_TAGS] if partitions else []
    head = struct.pack(">iiibii", limits.wait_ms_max, limits.bytes_min, limits.bytes_max, 0, *session)
    return request(FETCH, head + array(topics) + array([]) + text("") + NO_TAGS)


def fetch_by_name(topic: str, partition: int, offset: int, limits: FetchLimits, version: int) -> bytes:
    """Fetch one partition without a session, in a version from 4 to 11."""
    parts = [struct.pack(">iiiib", -1, limits.wait_ms_max, limits.bytes_min, limits.bytes_max, 0)]
    if version >= FETCH_SESSIONS_FROM:
        parts.append(struct.pack(">ii", 0, -1))
    parts += [struct.pack(">i", 1), _short_text(topic), struct.pack(">ii", 1, partition)]
    if version >= FETCH_LEADER_EPOCHS_FROM:
        parts.append(struct.pack(">i", -1))
    parts.append(struct.pack(">q", offset))
    if version >= FETCH_LOG_STARTS_FROM:
        parts.append(struct.pack(">q", -1))
    parts.append(struct.pack(">i", limits.bytes_max))
    if version >= FETCH_SESSIONS_FROM:
        parts.append(struct.pack(">i", 0))
    if version >= FETCH_RACKS_FROM:
        parts.append(_short_text(""))
    return _frame(FETCH, version, b"".join(parts))


def metadata(topics: Sequence[str], auto_create: bool = False) -> bytes:
    """Describe the named topics."""
    names = [NO_UUID + text(topic) + NO_TAGS for topic in topics]
    return request(METADATA, array(names) + bytes([auto_create, False]) + NO_TAGS)


def create_topic(topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1) -> bytes:
    """Create one topic."""
    settings = [text(name) + text(value) + NO_TAGS for name, value in configs.items()]
    creatable = text(topic) + struct.pack(">ih", partitions, replicas) + array([]) + array(settings) + NO_TAGS
    return request(CREATE_TOPICS, array([creatable]) + struct.pack(">ib", 60_000, 0) + NO_TAGS)


def delete_topic(topic: str) -> bytes:
    """Delete one topic by name."""
    state = text(topic) + NO_UUID + NO_TAGS
    return request(DELETE_TOPICS, array([state]) + struct.pack(">i", 60_000) + NO_TAGS)


def list_offsets(topic: str, partitions: Sequence[int], timestamp: int = LATEST) -> bytes:
    """Ask for one offset of each partition."""
    wanted = [struct.pack(">iiq", partition, -1, timestamp) + NO_TAGS for partition in partitions]
    topics = [text(topic) + array(wanted) + NO_TAGS]
    return request(LIST_OFFSETS, struct.pack(">ib", -1, 0) + array(topics) + NO_TAGS)


class Reader:
    """Walks a flexible response body, field by field. Opens behind correlation id and header tags."""

    def __init__(self, frame: bytes | memoryview) -> None:
        self._frame = memoryview(frame)
        self._position = 4
        self.skip_tags()

    def take(self, layout: str) -> tuple[int, ...]:
        """Fixed-width fields, by `struct` layout."""
        values = struct.unpack_from(">" + layout, self._frame, self._position)
        self._position += struct.calcsize(">" + layout)
        return values

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, length: int) -> bytes:
        self._position += length
        return bytes(self._frame[self._position - length : self._position])

    def text(self) -> str | None:
        length = self.uvarint() - 1
        return None if length < 0 else self.raw(length).decode()

    def count(self) -> int:
        """The length of a compact array; a null one counts as empty."""
        return max(0, self.uvarint() - 1)

    def numbers(self) -> list[int]:
        return [self.take("i")[0] for _ in range(self.count())]

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())
