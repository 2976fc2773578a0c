"""The hot codec of Produce: decodes requests into positions, encodes responses in one pass.

`messages.ProduceRequest` defines the format; this module repeats it for speed, and a property test compares the two in
every version.

Record data is never copied here: a partition is `(topic, index, start, stop)`, its records `data[start:stop]` of the
frame's buffer, with `start == -1` for null. A topic's name stays the bytes that it is in the frame.

Nearly every request has one partition. The positions of its fields are then fixed, except for two lengths, so such a
request is read with two `unpack` calls, or by the C module `_speedups` where it was built, and its response is written
with two `pack` calls. Any other shape is read and written field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct, error
from typing import Any, Final, NamedTuple

from tidelog.wire._native import speedups
from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    Buffer,
    checked_count,
    checked_string_bytes,
    decode_uvarint,
    encode_compact_string,
    encode_uvarint,
    room_after,
    skip_tagged_fields,
)

FLEXIBLE_FROM: Final = 9
PARTITIONS_MAX: Final = 11_000
"""Topics and partitions of one request: 10,000 partitions of 1,000 topics. Batches of so many, each of a single small
record, are a megabyte, the most that clients send unless they are configured otherwise."""
TRANSACTIONAL_IDS_FROM: Final = 3

PartitionSpan = tuple[bytes, int, int, int]
"""Topic, partition index, and where its records start and stop."""

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_unpack_acks_timeout_count = Struct(">hii").unpack_from
_unpack_acks_timeout = Struct(">hi").unpack_from
_unpack_two_ints = Struct(">ii").unpack_from
_new = tuple.__new__


class ProduceSpans(NamedTuple):
    """A Produce request, its records still in the frame's buffer."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[PartitionSpan]


class PartitionReply(NamedTuple):
    """The response for one partition."""

    partition_index: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


TopicReply = tuple[bytes, Sequence[PartitionReply]]


def decode_request(data: Buffer, position: int, end: int, version: int) -> ProduceSpans:
    """The request whose body is `data[position:end]`."""
    if _decode is not None:
        spans: ProduceSpans | None = _decode(data, position, end, version, ProduceSpans)
        if spans is not None:
            return spans
    return decode_in_python(data, position, end, version)


_decode: Final[Any] = None if speedups is None else speedups.decode_produce


def decode_in_python(data: Buffer, position: int, end: int, version: int) -> ProduceSpans:
    """The same without the C module, which decodes requests for one partition. Raises WireError."""
    try:
        if version >= FLEXIBLE_FROM:
            return _single_flexible(data, position, end) or _decode_flexible(data, position, end)
        return _single_classic(data, position, end, version) or _decode_classic(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise WireError(f"Produce v{version}: the request ends or breaks off within a field ({cause})") from cause


# --- requests for one partition --------------------------------------------------------------------------------------

_NAME_BYTES_MAX: Final = 249
"""The longest valid topic name."""
_CLASSIC_FIELDS: Final = Struct(">hhiihiii").size
_FLEXIBLE_FIELDS: Final = Struct(">BhiBBBiB").size


@cache
def _classic_fields(name_size: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    """Reads everything before the records of one partition, in the versions 3 to 8.

    Length of the transactional id, acks, timeout, topics, length of the name, name, partitions, index, size of records.
    """
    return Struct(f">hhiih{name_size}siii").unpack_from


@cache
def _flexible_fields(name_size: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    """The same from version 9 on, with lengths and counts of one byte each."""
    return Struct(f">BhiBB{name_size}sBiB").unpack_from


def _single_classic(data: Buffer, position: int, end: int, version: int) -> ProduceSpans | None:
    """A request of version 3 to 8 for one partition; None for any other shape."""
    if version < TRANSACTIONAL_IDS_FROM or end - position < _CLASSIC_FIELDS:
        return None
    transactional_id = None
    id_size = _unpack_short(data, position)[0]
    if id_size >= 0:
        transactional_id = str(data[position + 2 : position + 2 + id_size], "utf-8")
        position += id_size
        if end - position < _CLASSIC_FIELDS:
            return None
    name_size = _unpack_short(data, position + 12)[0]
    start = position + _CLASSIC_FIELDS + name_size
    if not 0 <= name_size <= _NAME_BYTES_MAX or start > end:
        return None
    _, acks, timeout_ms, topic_count, _, topic, partition_count, index, size = _classic_fields(name_size)(
        data, position
    )
    if topic_count != 1 or partition_count != 1 or size < 0 or start + size != end or not topic.isascii():
        return None
    return _new(ProduceSpans, (transactional_id, acks, timeout_ms, [(topic, index, start, end)]))


def _single_flexible(data: Buffer, position: int, end: int) -> ProduceSpans | None:
    """A request of version 9 or newer for one partition, without tags and with short names; None for others."""
    if end - position < _FLEXIBLE_FIELDS:
        return None
    transactional_id = None
    id_size = data[position]
    if id_size:
        if id_size >= 0x80:
            return None
        position += id_size - 1
        transactional_id = str(data[position - id_size + 2 : position + 1], "utf-8")
        if end - position < _FLEXIBLE_FIELDS:
            return None
    name_size = data[position + 8] - 1
    start = position + _FLEXIBLE_FIELDS + name_size
    if not 0 <= name_size < 0x7F or start > end:
        return None
    _, acks, timeout_ms, topic_count, _, topic, partition_count, index, size = _flexible_fields(name_size)(
        data, position
    )
    if topic_count != 2 or partition_count != 2 or start + 2 > end:
        return None
    if size >= 0x80:
        byte = data[start]
        if byte < 0x80:
            size += (byte - 1) << 7
            start += 1
        else:
            size, start = decode_uvarint(data, start - 1)
    stop = start + size - 1
    # No tags follow the partition, the topic and the request: three zeros.
    if not size or stop + 3 != end or data[stop] or data[stop + 1] or data[stop + 2] or not topic.isascii():
        return None
    return _new(ProduceSpans, (transactional_id, acks, timeout_ms, [(topic, index, start, stop)]))


# --- requests of any shape -------------------------------------------------------------------------------------------


def _name(data: Buffer, start: int, stop: int) -> bytes:
    """A topic's name, checked to be UTF-8."""
    name = bytes(data[start:stop])
    if not name.isascii():
        name.decode()
    return name


def _decode_classic(data: Buffer, position: int, end: int, version: int) -> ProduceSpans:
    transactional_id = None
    if version >= TRANSACTIONAL_IDS_FROM:
        (length,) = _unpack_short(data, position)
        position += 2
        if length >= 0:
            transactional_id = str(data[position : position + length], "utf-8")
            position += length
    acks, timeout_ms, topic_count = _unpack_acks_timeout_count(data, position)
    position += 10
    partitions: list[PartitionSpan] = []
    room_after(PARTITIONS_MAX, topic_count)
    room = PARTITIONS_MAX
    for _ in range(checked_count(topic_count, end - position)):
        (length,) = _unpack_short(data, position)
        if length < 0:
            raise WireError("Produce: a topic name is null")
        position += 2 + length
        topic = _name(data, position - length, position)
        (partition_count,) = _unpack_int(data, position)
        position += 4
        room = room_after(room, partition_count)
        for _ in range(checked_count(partition_count, end - position)):
            index, size = _unpack_two_ints(data, position)
            position += 8
            if size < 0:
                partitions.append((topic, index, -1, -1))
                continue
            partitions.append((topic, index, position, position + size))
            position += size
    if position > end:
        raise WireError(f"Produce v{version}: fields reach {position - end} bytes beyond the request")
    return ProduceSpans(transactional_id, acks, timeout_ms, partitions)


def _decode_flexible(data: Buffer, position: int, end: int) -> ProduceSpans:
    length, position = decode_uvarint(data, position)
    transactional_id = None
    if length:
        position += checked_string_bytes(length - 1)
        transactional_id = str(data[position - length + 1 : position], "utf-8")
    acks, timeout_ms = _unpack_acks_timeout(data, position)
    topic_count, position = decode_uvarint(data, position + 6)
    partitions: list[PartitionSpan] = []
    room_after(PARTITIONS_MAX, topic_count)
    room = PARTITIONS_MAX
    for _ in range(checked_count(topic_count - 1, end - position)):
        length, position = decode_uvarint(data, position)
        if not length:
            raise WireError("Produce: a topic name is null")
        position += checked_string_bytes(length - 1)
        topic = _name(data, position - length + 1, position)
        partition_count, position = decode_uvarint(data, position)
        room = room_after(room, partition_count - 1)
        for _ in range(checked_count(partition_count - 1, end - position)):
            (index,) = _unpack_int(data, position)
            size, position = decode_uvarint(data, position + 4)
            if size:
                partitions.append((topic, index, position, position + size - 1))
                position += size - 1
            else:
                partitions.append((topic, index, -1, -1))
            position = skip_tagged_fields(data, position, end) if data[position] else position + 1
        position = skip_tagged_fields(data, position, end)
    position = skip_tagged_fields(data, position, end)
    if position > end:
        raise WireError(f"Produce: fields reach {position - end} bytes beyond the request")
    return ProduceSpans(transactional_id, acks, timeout_ms, partitions)


# --- responses -------------------------------------------------------------------------------------------------------

_pack_count = Struct(">i").pack
_pack_string_length = Struct(">h").pack
# index, error code, base offset, then by version: log append time, log start offset
_pack_v0 = Struct(">ihq").pack
_pack_v2 = Struct(">ihqq").pack
_pack_v5 = Struct(">ihqqq").pack
_NULL_STRING = b"\xff\xff"


class _SingleLayout(NamedTuple):
    """The layout of a successful response for one partition in a version: all but the name has a fixed size."""

    pack_head: Callable[..., bytes]
    """Size of the frame, correlation id, `one_topic`, length of the name."""
    one_topic: bytes
    name_size_extra: int
    """Added to the name's size in its length field: 1 for a compact string."""
    pack_rest: Callable[..., bytes]
    """`one_partition`, its index, no error, base offset, log append time, log start offset, `end`."""
    one_partition: bytes
    end: bytes
    """No record errors, no message, no tags and no throttling, as far as the version has them."""
    size: int
    """The size of all that, without the frame's length and the name."""


def _layout(one_topic: bytes, name_size: str, one_partition: bytes, end: bytes) -> _SingleLayout:
    head = Struct(f">ii{len(one_topic)}s{name_size}")
    rest = Struct(f">{len(one_partition)}si2xqqq{len(end)}s")
    extra = 1 if name_size == "B" else 0
    return _SingleLayout(head.pack, one_topic, extra, rest.pack, one_partition, end, head.size - 4 + rest.size)


_ONE: Final = b"\x00\x00\x00\x01"
_LAYOUT_V5: Final = _layout(_ONE, "h", _ONE, b"\x00\x00\x00\x00")
_LAYOUT_V8: Final = _layout(_ONE, "h", _ONE, b"\x00\x00\x00\x00\xff\xff\x00\x00\x00\x00")
_LAYOUT_V9: Final = _layout(b"\x00\x02", "B", b"\x02", b"\x01\x00\x00\x00\x00\x00\x00\x00\x00")
_SINGLE_LAYOUTS: Final = (*[None] * 5, *[_LAYOUT_V5] * 3, _LAYOUT_V8, *[_LAYOUT_V9] * 3)
"""By version; those before 5 have no log start offset."""
_SINGLE_NAME_BYTES_MAX: Final = 0x7E
"""The length of a longer compact string takes two bytes."""


def encode_single(
    correlation_id: int,
    version: int,
    topic: bytes,
    partition_index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """`encode_response` for one successful partition, without throttling."""
    layout = _SINGLE_LAYOUTS[version]
    name_size = len(topic)
    if layout is None or name_size > _SINGLE_NAME_BYTES_MAX:
        reply = PartitionReply(partition_index, 0, base_offset, log_append_time_ms, log_start_offset)
        return encode_response(correlation_id, version, [(topic, [reply])], 0)
    pack_head, one_topic, extra, pack_rest, one_partition, end, size = layout
    return (
        pack_head(size + name_size, correlation_id, one_topic, name_size + extra)
        + topic
        + pack_rest(one_partition, partition_index, base_offset, log_append_time_ms, log_start_offset, end)
    )


def encode_response(correlation_id: int, version: int, topics: Sequence[TopicReply], throttle_time_ms: int) -> bytes:
    """A whole response frame, length and header included."""
    parts = _flexible_parts(version, topics) if version >= FLEXIBLE_FROM else _classic_parts(version, topics)
    if version >= 1:
        parts.append(_pack_count(throttle_time_ms))
    header = correlation_id.to_bytes(4, "big", signed=True)
    if version >= FLEXIBLE_FROM:
        header += b"\x00"
        parts.append(b"\x00")
    body = b"".join(parts)
    return b"".join((_pack_count(len(header) + len(body)), header, body))


def _fixed_part(version: int, reply: PartitionReply) -> bytes:
    index, code, base_offset, log_append_time_ms, log_start_offset = reply[:5]
    if version >= 5:
        return _pack_v5(index, code, base_offset, log_append_time_ms, log_start_offset)
    if version >= 2:
        return _pack_v2(index, code, base_offset, log_append_time_ms)
    return _pack_v0(index, code, base_offset)


def _classic_parts(version: int, topics: Sequence[TopicReply]) -> list[bytes]:
    parts = [_pack_count(len(topics))]
    for name, replies in topics:
        parts += (_pack_string_length(len(name)), name, _pack_count(len(replies)))
        for reply in replies:
            parts.append(_fixed_part(version, reply))
            if version >= 8:
                parts.append(_pack_count(len(reply.record_errors)))
                for batch_index, message in reply.record_errors:
                    parts += (_pack_count(batch_index), _string(message))
                parts.append(_string(reply.error_message))
    return parts


def _flexible_parts(version: int, topics: Sequence[TopicReply]) -> list[bytes]:
    parts = [encode_uvarint(len(topics) + 1)]
    for name, replies in topics:
        parts += (encode_uvarint(len(name) + 1), name, encode_uvarint(len(replies) + 1))
        for reply in replies:
            parts += (_fixed_part(version, reply), encode_uvarint(len(reply.record_errors) + 1))
            for batch_index, message in reply.record_errors:
                parts += (_pack_count(batch_index), encode_compact_string(message), b"\x00")
            parts.append(encode_compact_string(reply.error_message))
            leader = reply.current_leader if version >= 10 else None
            parts.append(b"\x00" if leader is None else _current_leader_tag(leader))
        parts.append(b"\x00")
    return parts


def _current_leader_tag(leader: tuple[int, int]) -> bytes:
    """One tagged field: tag 0, nine bytes, leader id and epoch and no tags of its own."""
    return (
        b"\x01\x00\x09" + leader[0].to_bytes(4, "big", signed=True) + leader[1].to_bytes(4, "big", signed=True) + b"\0"
    )


def _string(value: str | None) -> bytes:
    if value is None:
        return _NULL_STRING
    raw = value.encode()
    return _pack_string_length(len(raw)) + raw
