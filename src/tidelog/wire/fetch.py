"""The hot codec of Fetch: decodes requests into plain tuples, encodes responses into chunks between file slices.

`messages.FetchRequest` and `messages.FetchResponse` define the format; a property test compares this module with them
in every version. Record data is never copied here: a response is a list of bytes and the slice objects that were passed
in, for the connection to send from the file.

Many requests name one partition, and so do nearly all of a waiting session. Such a request, and the response with its
records, are read and written at once; any other shape is handled field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple, Protocol

from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    Buffer,
    checked_count,
    checked_string_bytes,
    checked_tag_count,
    decode_uvarint,
    encode_compact_string,
    encode_uvarint,
    room_after,
    skip_tagged_fields,
)

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
PARTITIONS_MAX: Final = 12_500
"""Topics and partitions that one request may name to read, and as many to forget: a client or a follower may read the
10,000 partitions of 2,500 topics at once. To decode so many takes some milliseconds of the event loop's time."""
_ISOLATION_FROM: Final = 4

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_new = tuple.__new__


class FetchPartition(NamedTuple):
    """The request for one partition."""

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
    """The response for one partition. `records` is bytes, a file slice, or None for nothing."""

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
_CLASSIC_PARTITION_BYTES: Final = (
    *[_PARTITION_V0.size] * 5,
    *[_PARTITION_V5.size] * 4,
    *[_PARTITION_V9.size] * 3,
)
"""By version."""


def decode_request(data: Buffer, position: int, end: int, version: int) -> FetchSpans:
    """The request whose body is `data[position:end]`."""
    try:
        if version >= FLEXIBLE_FROM:
            return _single_flexible(data, position, end, version) or _decode(data, position, end, version)
        return _single_classic(data, position, end, version) or _decode(data, position, end, version)
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


# --- requests for one partition --------------------------------------------------------------------------------------

_HEAD_V4: Final = Struct(">iiiiBih")
"""Replica, wait, smallest and largest size, isolation level, topics, length of the name."""
_HEAD_V7: Final = Struct(">iiiiBiiih")
"""The same, with session and epoch before the topics."""
_HEAD_V12: Final = Struct(">iiiiBiiBB")
_HEAD_V13: Final = Struct(">iiiiBiiB")
_HEAD_V15: Final = Struct(">iiiBiiB")
"""From here on the replica is a tagged field, which consumers leave out."""
_REST_V12: Final = Struct(">BiiqiqiBBBB")
"""Partitions, one of them, its tags and the topic's, forgotten topics, length of the rack."""
_SESSIONS_FROM: Final = 7
_RACKS_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15


def _single_classic(data: Buffer, position: int, end: int, version: int) -> FetchSpans | None:
    """A request of version 4 to 11 for one partition that forgets none; None for any other shape."""
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS_FROM:
        if end - position < _HEAD_V7.size:
            return None
        head = _HEAD_V7.unpack_from(data, position)
        replica_id, wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch, topics, name_size = head
        position += _HEAD_V7.size
    elif version >= _ISOLATION_FROM and end - position >= _HEAD_V4.size:
        replica_id, wait_ms, bytes_min, bytes_max, isolation, topics, name_size = _HEAD_V4.unpack_from(data, position)
        position += _HEAD_V4.size
    else:
        return None
    name_end = position + name_size
    if topics != 1 or name_size < 0 or name_end + 4 > end or _unpack_int(data, name_end)[0] != 1:
        return None
    if name_end + 4 + _CLASSIC_PARTITION_BYTES[version] > end:
        return None
    fetch, rest = _classic_partition(data, name_end + 4, version)
    rack_id = ""
    if version >= _SESSIONS_FROM:
        if rest + 4 > end or _unpack_int(data, rest)[0] != 0:
            return None
        rest += 4
        if version >= _RACKS_FROM:
            if rest + 2 > end or _unpack_short(data, rest)[0] != end - rest - 2:
                return None
            rack_id = str(data[rest + 2 : end], "utf-8")
            rest = end
    if rest != end:
        return None
    topic = str(data[position:name_end], "utf-8")
    return _new(
        FetchSpans,
        (
            replica_id,
            wait_ms,
            bytes_min,
            bytes_max,
            isolation,
            session_id,
            session_epoch,
            [(topic, [fetch])],
            [],
            rack_id,
        ),
    )


def _single_flexible(data: Buffer, position: int, end: int, version: int) -> FetchSpans | None:
    """A request of version 12 or newer for one partition, without tags and forgotten topics; None for others."""
    replica_id = -1
    key: TopicKey
    if end - position < _SINGLE_FLEXIBLE_BYTES_MIN:
        return None
    if version >= _REPLICA_STATE_FROM:
        head = _HEAD_V15.unpack_from(data, position)
        wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch, topics = head
        position += _HEAD_V15.size
    elif version >= TOPIC_IDS_FROM:
        head = _HEAD_V13.unpack_from(data, position)
        replica_id, wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch, topics = head
        position += _HEAD_V13.size
    else:
        head = _HEAD_V12.unpack_from(data, position)
        replica_id, wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch, topics, name_size = head
        position += _HEAD_V12.size
        if not 0 < name_size < 0x80:
            return None
        key = str(data[position : position + name_size - 1], "utf-8") if topics == 2 else ""
        position += name_size - 1
    if version >= TOPIC_IDS_FROM:
        key = bytes(data[position : position + 16])
        position += 16
    rack = position + _REST_V12.size
    if topics != 2 or end <= rack:
        return None
    rest = _REST_V12.unpack_from(data, position)
    partitions, index, epoch, offset, last_epoch, start_offset, limit, tags, topic_tags, forgotten, rack_size = rest
    if partitions != 2 or tags or topic_tags or forgotten != 1:
        return None
    if not 0 < rack_size < 0x80:
        return None
    # One byte follows the rack: the request has no tags. Or a follower's, which has the one that says who it is.
    tags_at = rack + rack_size - 1
    if tags_at + 1 == end:
        if data[tags_at]:
            return None
    elif tags_at + _FOLLOWER_TAG.size == end:
        tag_count, tag, tag_size, replica_id, _, inner_tags = _FOLLOWER_TAG.unpack_from(data, tags_at)
        if (tag_count, tag, tag_size, inner_tags) != _FOLLOWER_TAG_SHAPE or version < _REPLICA_STATE_FROM:
            return None
    else:
        return None
    rack_id = str(data[rack:tags_at], "utf-8") if rack_size > 1 else ""
    fetch = _new(FetchPartition, (index, offset, limit, epoch, last_epoch, start_offset))
    return _new(
        FetchSpans,
        (
            replica_id,
            wait_ms,
            bytes_min,
            bytes_max,
            isolation,
            session_id,
            session_epoch,
            [(key, [fetch])],
            [],
            rack_id,
        ),
    )


_FOLLOWER_TAG: Final = Struct(">BBBiqB")
"""The tags of a follower's request: their count, number and size, the replica's id and epoch, no tags inside."""
_FOLLOWER_TAG_SHAPE: Final = (1, 1, 13, 0)
_SINGLE_FLEXIBLE_BYTES_MIN: Final = _HEAD_V12.size + _REST_V12.size + 1


# --- requests of any shape -------------------------------------------------------------------------------------------


def _decode_topics(
    data: Buffer, position: int, end: int, version: int
) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], int]:
    is_flexible = version >= FLEXIBLE_FROM
    count, position = _count(data, position, end, is_flexible)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    room_after(PARTITIONS_MAX, count)
    room = PARTITIONS_MAX
    for _ in range(count):
        key, position = _topic_key(data, position, version)
        partition_count, position = _count(data, position, end, is_flexible)
        room = room_after(room, partition_count)
        partitions: list[FetchPartition] = []
        for _ in range(partition_count):
            if is_flexible:
                index, epoch, offset, last_epoch, start, limit = _PARTITION_V12.unpack_from(data, position)
                position += 32
                position = position + 1 if not data[position] else skip_tagged_fields(data, position, end)
                partitions.append(_new(FetchPartition, (index, offset, limit, epoch, last_epoch, start)))
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
        return _new(FetchPartition, (index, offset, limit, epoch, -1, start)), position + 28
    if version >= 5:
        index, offset, start, limit = _PARTITION_V5.unpack_from(data, position)
        return _new(FetchPartition, (index, offset, limit, -1, -1, start)), position + 24
    index, offset, limit = _PARTITION_V0.unpack_from(data, position)
    return _new(FetchPartition, (index, offset, limit, -1, -1, -1)), position + 16


def _decode_forgotten(
    data: Buffer, position: int, end: int, version: int
) -> tuple[list[tuple[TopicKey, list[int]]], int]:
    is_flexible = version >= FLEXIBLE_FROM
    count, position = _count(data, position, end, is_flexible)
    forgotten: list[tuple[TopicKey, list[int]]] = []
    room_after(PARTITIONS_MAX, count)
    room = PARTITIONS_MAX
    for _ in range(count):
        key, position = _topic_key(data, position, version)
        partition_count, position = _count(data, position, end, is_flexible)
        room = room_after(room, partition_count)
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
    if len(topics) == 1 and version >= _ISOLATION_FROM:
        key, replies = topics[0]
        records = replies[0].records if len(replies) == 1 else None
        if records is not None and not isinstance(records, bytes) and replies[0][8:] == _NO_TAGS:
            return _encode_single(
                correlation_id, version, key, replies[0], records, error_code, session_id, throttle_time_ms
            )
    return _encode(correlation_id, version, topics, error_code, session_id, throttle_time_ms)


_NO_TAGS: Final = (None, None)
"""A reply's last two fields, which travel as tagged fields: no diverging epoch and no leader."""


def _encode(
    correlation_id: int,
    version: int,
    topics: Sequence[TopicReply],
    error_code: int,
    session_id: int,
    throttle_time_ms: int,
) -> list[Chunk]:
    """`encode_response` field by field."""
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


# Everything before the topic's key in a reply with one topic.
_REPLY_V1: Final = Struct(">iiii")
"""Length, correlation id, throttle time, topics."""
_REPLY_V7: Final = Struct(">iiihii")
"""Error and session before the topics."""
_REPLY_V12: Final = Struct(">iiBihiB")
"""Tags of the header, and counts of one byte."""
_ONE: Final = b"\x00\x00\x00\x01"


def _encode_single(
    correlation_id: int,
    version: int,
    key: TopicKey,
    reply: PartitionReply,
    records: Slice,
    error_code: int,
    session_id: int,
    throttle_time_ms: int,
) -> list[Chunk]:
    """`encode_response`, in version 4 or newer, for one partition with records of a file and without tags."""
    index, code, high_watermark, stable_offset, start_offset, aborted, preferred, *_ = reply
    length = records.length
    if version >= FLEXIBLE_FROM:
        rest = (
            _encode_topic_key(key, True)
            + b"\x02"
            + _pack_v5(index, code, high_watermark, stable_offset, start_offset)
            + _encode_aborted(aborted, True)
            + _pack_int(preferred)
            + encode_uvarint(length + 1)
        )
        size = _REPLY_V12.size - 4 + len(rest) + length + 3
        head = _REPLY_V12.pack(size, correlation_id, 0, throttle_time_ms, error_code, session_id, 2)
        return [head + rest, records, b"\x00\x00\x00"]
    rest = _encode_topic_key(key, False) + _ONE
    if version >= 5:
        rest += _pack_v5(index, code, high_watermark, stable_offset, start_offset)
    else:
        rest += _pack_v4(index, code, high_watermark, stable_offset)
    rest += _encode_aborted(aborted, False)
    if version >= _RACKS_FROM:
        rest += _pack_int(preferred)
    rest += _pack_int(length)
    if version >= _SESSIONS_FROM:
        size = _REPLY_V7.size - 4 + len(rest) + length
        head = _REPLY_V7.pack(size, correlation_id, throttle_time_ms, error_code, session_id, 1)
    else:
        size = _REPLY_V1.size - 4 + len(rest) + length
        head = _REPLY_V1.pack(size, correlation_id, throttle_time_ms, 1)
    return [head + rest, records]


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
    """Tag 0: where the follower's log diverges from the leader's; tag 1: the current leader."""
    if reply.diverging_epoch is None and reply.current_leader is None:
        return b"\x00"
    tags: list[bytes] = []
    if reply.diverging_epoch is not None:
        epoch, end_offset = reply.diverging_epoch
        tags.append(b"\x00\x0d" + _pack_int(epoch) + end_offset.to_bytes(8, "big", signed=True) + b"\x00")
    if reply.current_leader is not None:
        tags.append(b"\x01\x09" + _pack_int(reply.current_leader[0]) + _pack_int(reply.current_leader[1]) + b"\x00")
    return encode_uvarint(len(tags)) + b"".join(tags)
