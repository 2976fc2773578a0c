"""The hot codec of Produce: requests are read as positions, responses are written in one pass.

`messages.ProduceRequest` says what the bytes mean; this module says it again for speed, and a property test holds the
two equal. The broker's produce handler is the only caller.

Record data is never copied here: a partition is `(index, start, stop)` into the frame's buffer, `start == -1` for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    Buffer,
    checked_count,
    checked_string_bytes,
    decode_uvarint,
    encode_compact_string,
    encode_uvarint,
    skip_tagged_fields,
)

FLEXIBLE_FROM = 9

PartitionSpan = tuple[int, int, int]
TopicSpans = tuple[str, list[PartitionSpan]]

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_unpack_acks_timeout_count = Struct(">hii").unpack_from
_unpack_acks_timeout = Struct(">hi").unpack_from
_unpack_two_ints = Struct(">ii").unpack_from


class ProduceSpans(NamedTuple):
    """A Produce request, its records still in the frame's buffer."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicSpans]


class PartitionReply(NamedTuple):
    """What one partition is answered."""

    partition_index: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


TopicReply = tuple[str, Sequence[PartitionReply]]


def decode_request(data: Buffer, position: int, end: int, version: int) -> ProduceSpans:
    """The request whose body is `data[position:end]`."""
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_flexible(data, position, end)
        return _decode_classic(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise WireError(f"Produce v{version}: the request ends or breaks off within a field ({cause})") from cause


def decode_single(data: Buffer, position: int, end: int) -> tuple[bytes, int, int, bytes, int, int, int] | None:
    """A flexible request for one partition in its usual shape, or None for `decode_request` to deal with.

    The transactional id (empty if there is none) and the topic's name as bytes, acks and timeout between them, then the
    partition, and where its records start and stop.
    """
    try:
        transactional_id = b""
        id_size = data[position]
        if id_size:
            transactional_id = bytes(data[position + 1 : position + id_size])
            if not 1 < id_size < 0x80 or not transactional_id.isascii():
                return None
            position += id_size - 1
        acks, timeout_ms, topic_count, name_size = _unpack_single_start(data, position)
        if topic_count != 2 or not 1 < name_size < 0x80:
            return None
        position += 9
        name = bytes(data[position : position + name_size - 1])
        position += name_size - 1
        partition_count, index, size = _unpack_single_partition(data, position)
        position += 6
        if size >= 0x80:
            byte = data[position]
            size = size & 0x7F | (byte & 0x7F) << 7
            position += 1
            if byte >= 0x80:
                byte = data[position]
                size |= (byte & 0x7F) << 14
                position += 1
                if byte >= 0x80:
                    return None
        stop = position + size - 1
        # No tags follow the partition, the topic and the request: three zeros.
        if partition_count != 2 or stop + 3 != end or data[stop] or data[stop + 1] or data[stop + 2] or not size:
            return None
    except (error, IndexError):
        return None
    return transactional_id, acks, timeout_ms, name, index, position, stop


_unpack_single_start = Struct(">xhiBB").unpack_from
_unpack_single_partition = Struct(">BiB").unpack_from


def _decode_classic(data: Buffer, position: int, end: int, version: int) -> ProduceSpans:
    transactional_id = None
    if version >= 3:
        (length,) = _unpack_short(data, position)
        position += 2
        if length >= 0:
            transactional_id = str(data[position : position + length], "utf-8")
            position += length
    acks, timeout_ms, topic_count = _unpack_acks_timeout_count(data, position)
    position += 10
    topics: list[TopicSpans] = []
    for _ in range(checked_count(topic_count, end - position)):
        (length,) = _unpack_short(data, position)
        if length < 0:
            raise WireError("Produce: a topic name is null")
        position += 2 + length
        name = str(data[position - length : position], "utf-8")
        (partition_count,) = _unpack_int(data, position)
        position += 4
        partitions: list[PartitionSpan] = []
        for _ in range(checked_count(partition_count, end - position)):
            index, size = _unpack_two_ints(data, position)
            position += 8
            if size < 0:
                partitions.append((index, -1, -1))
                continue
            partitions.append((index, position, position + size))
            position += size
        topics.append((name, partitions))
    if position > end:
        raise WireError(f"Produce v{version}: fields reach {position - end} bytes beyond the request")
    return ProduceSpans(transactional_id, acks, timeout_ms, topics)


def _decode_flexible(data: Buffer, position: int, end: int) -> ProduceSpans:
    length, position = decode_uvarint(data, position)
    transactional_id = None
    if length:
        position += checked_string_bytes(length - 1)
        transactional_id = str(data[position - length + 1 : position], "utf-8")
    acks, timeout_ms = _unpack_acks_timeout(data, position)
    topic_count, position = decode_uvarint(data, position + 6)
    topics: list[TopicSpans] = []
    for _ in range(checked_count(topic_count - 1, end - position)):
        length, position = decode_uvarint(data, position)
        if not length:
            raise WireError("Produce: a topic name is null")
        position += checked_string_bytes(length - 1)
        name = str(data[position - length + 1 : position], "utf-8")
        partition_count, position = decode_uvarint(data, position)
        partitions: list[PartitionSpan] = []
        for _ in range(checked_count(partition_count - 1, end - position)):
            (index,) = _unpack_int(data, position)
            size, position = decode_uvarint(data, position + 4)
            if size:
                partitions.append((index, position, position + size - 1))
                position += size - 1
            else:
                partitions.append((index, -1, -1))
            position = skip_tagged_fields(data, position, end)
        topics.append((name, partitions))
        position = skip_tagged_fields(data, position, end)
    position = skip_tagged_fields(data, position, end)
    if position > end:
        raise WireError(f"Produce: fields reach {position - end} bytes beyond the request")
    return ProduceSpans(transactional_id, acks, timeout_ms, topics)


# --- responses -------------------------------------------------------------------------------------------------------

_pack_count = Struct(">i").pack
_pack_string_length = Struct(">h").pack
# index, error code, base offset, then by version: log append time, log start offset
_pack_v0 = Struct(">ihq").pack
_pack_v2 = Struct(">ihqq").pack
_pack_v5 = Struct(">ihqqq").pack
_NULL_STRING = b"\xff\xff"


class SingleReply:
    """Writes v9+ responses for one partition that went well, the shape of nearly every answer, in one call.

    Made once for each partition, since everything in the frame but five numbers stays the same.
    """

    __slots__ = ("_name", "_pack", "_size", "_tail")

    def __init__(self, topic: bytes) -> None:
        assert 0 < len(topic) < 0x7F, "a longer name would have a longer length"
        self._name = bytes((len(topic) + 1,)) + topic + b"\x02"
        # No record errors, no message, no tags, no throttling.
        self._tail = b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"
        self._pack = Struct(f">iiBB{len(self._name)}sihqqq{len(self._tail)}s").pack
        self._size = 6 + len(self._name) + 30 + len(self._tail)

    def encode(
        self, correlation_id: int, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """The whole frame, length and header included."""
        return self._pack(
            self._size,
            correlation_id,
            0,
            2,
            self._name,
            index,
            0,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            self._tail,
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
        raw = name.encode()
        parts += (_pack_string_length(len(raw)), raw, _pack_count(len(replies)))
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
        parts += (encode_compact_string(name), encode_uvarint(len(replies) + 1))
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
