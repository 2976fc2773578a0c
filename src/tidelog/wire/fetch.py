"""The hot codec of Fetch: requests into plain tuples, responses into chunks that file slices stand between.

`messages.FetchRequest` and `messages.FetchResponse` say what the bytes mean; a property test holds this module to
them. The broker's fetch handler is the only caller. Record data never passes through here: a response is a list whose
elements are bytes or the very slice objects that were handed in, for the connection to send from the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple, Protocol

from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    Buffer,
    checked_count,
    checked_string_bytes,
    checked_tag_count,
    decode_uvarint,
    encode_compact_string,
    encode_uvarint,
    skip_tagged_fields,
)

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_new = tuple.__new__


class FetchPartition(NamedTuple):
    """What is asked of one partition."""

    partition_index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


TopicKey = str | bytes
"""A topic's name, or from version 13 on its 16-byte id."""


class FetchSpans(NamedTuple):
    """A Fetch request in plain tuples."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten: list[tuple[TopicKey, list[int]]]
    rack_id: str


class Slice(Protocol):
    """Bytes of a file, to be sent as they are."""

    @property
    def length(self) -> int: ...


class PartitionReply(NamedTuple):
    """What one partition is answered. `records` is bytes, a file slice, or None for nothing."""

    partition_index: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: bytes | Slice | None = None
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


TopicReply = tuple[TopicKey, Sequence[PartitionReply]]
Chunk = bytes | Slice

# Partitions of a request by first version: (struct, order of the fields in FetchPartition).
_PARTITION_V0 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")


def decode_request(data: Buffer, position: int, end: int, version: int) -> FetchSpans:
    """The request whose body is `data[position:end]`."""
    try:
        return _decode(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise WireError(f"Fetch v{version}: the request ends or breaks off within a field ({cause})") from cause


def _decode(data: Buffer, position: int, end: int, version: int) -> FetchSpans:
    replica_id = -1
    if version <= 14:
        (replica_id,) = _unpack_int(data, position)
        position += 4
    max_wait_ms, min_bytes = _unpack_two(data, position)
    position += 8
    max_bytes, isolation_level, session_id, session_epoch = 0x7FFFFFFF, 0, 0, -1
    if version >= 3:
        (max_bytes,) = _unpack_int(data, position)
        position += 4
    if version >= 4:
        isolation_level = data[position]
        position += 1
    if version >= 7:
        session_id, session_epoch = _unpack_two(data, position)
        position += 8
    topics, position = _decode_topics(data, position, end, version)
    forgotten: list[tuple[TopicKey, list[int]]] = []
    if version >= 7:
        forgotten, position = _decode_forgotten(data, position, end, version)
    rack_id = ""
    if version >= FLEXIBLE_FROM:
        rack_id, position = _compact_name(data, position)
        replica_id, position = _decode_tags(data, position, end, version, replica_id)
    elif version >= 11:
        rack_id, position = _classic_name(data, position)
    if position > end:
        raise WireError(f"Fetch v{version}: fields reach {position - end} bytes beyond the request")
    return FetchSpans(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )


_unpack_two = Struct(">ii").unpack_from

Single = tuple[int, int, int, int, int, int, bytes, FetchPartition]
"""Wait, smallest and largest size, isolation level, session, its epoch, topic id, and what is asked."""

_SINGLE = Struct(">iiiBiiB16sBiiqiqi3sB")
_SINGLE_END = b"\x00\x00\x01"
"""No tags for partition and topic, and nothing forgotten."""


def decode_single(data: Buffer, position: int, end: int, version: int) -> Single | None:
    """A consumer's request of version 13 or newer for one partition in its usual shape; None for `decode_request`.

    Its rack is passed over: it matters where a partition has more than one replica to read from.
    """
    if version <= 14 and position < end:
        if data[position] < 0x80:
            return None  # a follower's id; a consumer's is negative
        position += 4
    rack = position + _SINGLE.size
    if end <= rack:
        return None
    wait_ms, bytes_min, bytes_max, isolation_level, session_id, session_epoch, *asked, forgotten, rack_size = (
        _SINGLE.unpack_from(data, position)
    )
    topics, topic_id, partitions, index, epoch, offset, last_epoch, start_offset, partition_bytes = asked
    if topics != 2 or partitions != 2 or last_epoch >= 0 or forgotten != _SINGLE_END:
        return None
    # One byte follows the rack: the request has no tags. A rack that might not be text is for others to refuse.
    if not 0 < rack_size < 0x80 or rack + rack_size != end or data[end - 1]:
        return None
    if rack_size > 1 and not bytes(data[rack : end - 1]).isascii():
        return None
    fetch = _new(FetchPartition, (index, offset, partition_bytes, epoch, last_epoch, start_offset))
    return wait_ms, bytes_min, bytes_max, isolation_level, session_id, session_epoch, topic_id, fetch


def _decode_topics(
    data: Buffer, position: int, end: int, version: int
) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], int]:
    is_flexible = version >= FLEXIBLE_FROM
    count, position = _count(data, position, end, is_flexible)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    for _ in range(count):
        key, position = _topic_key(data, position, version)
        partition_count, position = _count(data, position, end, is_flexible)
        partitions: list[FetchPartition] = []
        for _ in range(partition_count):
            if is_flexible:
                index, epoch, offset, last_epoch, start, limit = _PARTITION_V12.unpack_from(data, position)
                position += 32
                position = position + 1 if not data[position] else skip_tagged_fields(data, position, end)
                partitions.append(FetchPartition(index, offset, limit, epoch, last_epoch, start))
            else:
                partition, position = _classic_partition(data, position, version)
                partitions.append(partition)
        if is_flexible:
            position = skip_tagged_fields(data, position, end)
        topics.append((key, partitions))
    return topics, position


def _classic_partition(data: Buffer, position: int, version: int) -> tuple[FetchPartition, int]:
    if version >= 9:
        index, epoch, offset, start, limit = _PARTITION_V9.unpack_from(data, position)
        return FetchPartition(index, offset, limit, epoch, -1, start), position + 28
    if version >= 5:
        index, offset, start, limit = _PARTITION_V5.unpack_from(data, position)
        return FetchPartition(index, offset, limit, -1, -1, start), position + 24
    index, offset, limit = _PARTITION_V0.unpack_from(data, position)
    return FetchPartition(index, offset, limit), position + 16


def _decode_forgotten(
    data: Buffer, position: int, end: int, version: int
) -> tuple[list[tuple[TopicKey, list[int]]], int]:
    is_flexible = version >= FLEXIBLE_FROM
    count, position = _count(data, position, end, is_flexible)
    forgotten: list[tuple[TopicKey, list[int]]] = []
    for _ in range(count):
        key, position = _topic_key(data, position, version)
        partition_count, position = _count(data, position, end, is_flexible)
        indexes = list(Struct(f">{partition_count}i").unpack_from(data, position))
        position += 4 * partition_count
        if is_flexible:
            position = skip_tagged_fields(data, position, end)
        forgotten.append((key, indexes))
    return forgotten, position


def _decode_tags(data: Buffer, position: int, end: int, version: int, replica_id: int) -> tuple[int, int]:
    """The request's own tagged fields; only the follower's identity of version 15 (tag 1) matters here."""
    if position < end and not data[position]:
        return replica_id, position + 1
    count, position = decode_uvarint(data, position)
    for _ in range(checked_tag_count(count, end - position)):
        tag, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        if tag == 1 and version >= 15 and size >= 4:
            (replica_id,) = _unpack_int(data, position)
        position += size
    return replica_id, position


def _count(data: Buffer, position: int, end: int, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        count, position = decode_uvarint(data, position)
        return checked_count(count - 1, end - position), position
    (count,) = _unpack_int(data, position)
    return checked_count(count, end - position), position + 4


def _topic_key(data: Buffer, position: int, version: int) -> tuple[TopicKey, int]:
    if version >= TOPIC_IDS_FROM:
        if position + 16 > len(data):
            raise WireError("Fetch: the request ends within a topic id")
        return bytes(data[position : position + 16]), position + 16
    if version >= FLEXIBLE_FROM:
        return _compact_name(data, position)
    return _classic_name(data, position)


def _compact_name(data: Buffer, position: int) -> tuple[str, int]:
    length, position = decode_uvarint(data, position)
    if not length:
        raise WireError(f"Fetch: a name at byte {position} is null")
    end = position + checked_string_bytes(length - 1)
    return str(data[position:end], "utf-8"), end


def _classic_name(data: Buffer, position: int) -> tuple[str, int]:
    (length,) = _unpack_short(data, position)
    if length < 0:
        raise WireError(f"Fetch: a name at byte {position} is null")
    end = position + 2 + length
    return str(data[position + 2 : end], "utf-8"), end


# --- responses -------------------------------------------------------------------------------------------------------

_COPIED_BYTES_MAX = 4096
"""Records up to this size are copied next to the fields around them; a chunk of their own would cost more."""

_pack_int = Struct(">i").pack
_pack_head = Struct(">ii").pack
_pack_v0 = Struct(">ihq").pack
_pack_v4 = Struct(">ihqq").pack
_pack_v5 = Struct(">ihqqq").pack
_pack_aborted = Struct(">qq").pack


def encode_response(
    correlation_id: int,
    version: int,
    topics: Sequence[TopicReply],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
) -> list[Chunk]:
    """A whole response frame, length and header included, as chunks in order."""
    is_flexible = version >= FLEXIBLE_FROM
    out: list[Chunk] = []
    part = bytearray(b"\x00" if is_flexible else b"")
    if version >= 1:
        part += _pack_int(throttle_time_ms)
    if version >= 7:
        part += error_code.to_bytes(2, "big", signed=True)
        part += _pack_int(session_id)
    part += encode_uvarint(len(topics) + 1) if is_flexible else _pack_int(len(topics))
    for key, replies in topics:
        part += _encode_topic_key(key, is_flexible)
        part += encode_uvarint(len(replies) + 1) if is_flexible else _pack_int(len(replies))
        for reply in replies:
            part = _encode_partition(reply, version, out, part)
        if is_flexible:
            part += b"\x00"
    if is_flexible:
        part += b"\x00"
    if part:
        out.append(bytes(part))
    size = 4
    for chunk in out:
        size += len(chunk) if isinstance(chunk, bytes) else chunk.length
    first = out[0]
    assert isinstance(first, bytes), "a response opens with its own fields"
    out[0] = _pack_head(size, correlation_id) + first
    return out


def encode_single(
    correlation_id: int,
    session_id: int,
    topic_id: bytes,
    partition_index: int,
    offsets: tuple[int, int, int],
    aborted: Sequence[tuple[int, int]] | None,
    records: Slice,
) -> list[Chunk]:
    """The same for records of one partition, in version 13 or newer. `offsets`: high watermark, stable, log start."""
    length = records.length
    rest = _encode_aborted(aborted, True) + _NO_PREFERRED_REPLICA + encode_uvarint(length + 1)
    size = _SINGLE_REPLY.size - 4 + len(rest) + length + 3
    head = _SINGLE_REPLY.pack(size, correlation_id, 0, 0, 0, session_id, 2, topic_id, 2, partition_index, 0, *offsets)
    return [head + rest, records, b"\x00\x00\x00"]


_SINGLE_REPLY = Struct(">iiBihiB16sBihqqq")
"""Length, correlation id, tags; throttle time, error, session; one topic, its id, one partition, its first fields."""
_NO_PREFERRED_REPLICA = b"\xff\xff\xff\xff"


def _encode_topic_key(key: TopicKey, is_flexible: bool) -> bytes:
    if isinstance(key, bytes):
        return key
    if is_flexible:
        return encode_compact_string(key)
    raw = key.encode()
    return len(raw).to_bytes(2, "big") + raw


def _encode_partition(reply: PartitionReply, version: int, out: list[Chunk], part: bytearray) -> bytearray:
    """Add one partition to `part`; where file bytes follow, `part` and the slice go to `out` and a new part begins."""
    is_flexible = version >= FLEXIBLE_FROM
    if version >= 5:
        part += _pack_v5(*reply[:5])
    elif version >= 4:
        part += _pack_v4(*reply[:4])
    else:
        part += _pack_v0(*reply[:3])
    if version >= 4:
        part += _encode_aborted(reply.aborted_transactions, is_flexible)
    if version >= 11:
        part += _pack_int(reply.preferred_read_replica)
    records = reply.records
    if records is None:
        part += b"\x01" if is_flexible else b"\x00\x00\x00\x00"
    else:
        length = len(records) if isinstance(records, bytes) else records.length
        part += encode_uvarint(length + 1) if is_flexible else _pack_int(length)
        if isinstance(records, bytes) and length <= _COPIED_BYTES_MAX:
            part += records
        else:
            out.append(bytes(part))
            out.append(records)
            part = bytearray()
    if is_flexible:
        part += _encode_tags(reply)
    return part


def _encode_aborted(aborted: Sequence[tuple[int, int]] | None, is_flexible: bool) -> bytes:
    if aborted is None:
        return b"\x00" if is_flexible else b"\xff\xff\xff\xff"
    parts = [encode_uvarint(len(aborted) + 1) if is_flexible else _pack_int(len(aborted))]
    for producer_id, first_offset in aborted:
        parts.append(_pack_aborted(producer_id, first_offset))
        if is_flexible:
            parts.append(b"\x00")
    return b"".join(parts)


def _encode_tags(reply: PartitionReply) -> bytes:
    """Tag 0: where the follower's log left the leader's; tag 1: who leads now."""
    if reply.diverging_epoch is None and reply.current_leader is None:
        return b"\x00"
    tags: list[bytes] = []
    if reply.diverging_epoch is not None:
        epoch, end_offset = reply.diverging_epoch
        tags.append(b"\x00\x0d" + _pack_int(epoch) + end_offset.to_bytes(8, "big", signed=True) + b"\x00")
    if reply.current_leader is not None:
        tags.append(b"\x01\x09" + _pack_int(reply.current_leader[0]) + _pack_int(reply.current_leader[1]) + b"\x00")
    return encode_uvarint(len(tags)) + b"".join(tags)
