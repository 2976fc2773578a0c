"""The hot codec of Produce: decodes requests into positions, encodes responses in one pass.

The decoder is compiled from `messages.ProduceRequest` (`spans`). `messages.ProduceResponse` defines the format of
responses; this module repeats it for speed, and a property test compares the two in every version.

Record data is never copied here: a partition is `(topic, index, start, stop)`, its records `data[start:stop]` of the
frame's buffer, with `start == -1` for null. A topic is known by its key: its name as the bytes that it is in the frame,
or from version 13 on its 16-byte id.

Nearly every request has one partition. Its response is written with two `pack` calls, any other shape field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import encode_compact_string, encode_uvarint
from tidelog.wire.spans import Row, RowDecoder

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
PARTITIONS_MAX: Final = 11_000
"""Topics and partitions of one request: 10,000 partitions of 1,000 topics. Batches of so many, each of a single small
record, are a megabyte, the most that clients send unless they are configured otherwise."""

PartitionSpan = tuple[bytes, int, int, int]
"""Topic key, partition index, and where its records start and stop."""


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


_DECODER: Final = RowDecoder[ProduceSpans](
    ProduceRequest,
    {
        ProduceRequest: Row(("transactional_id", "acks", "timeout_ms", "topic_data"), make=ProduceSpans),
        TopicProduceData: Row(("name|topic_id",), inner="partition_data", as_bytes=("name",)),
        PartitionProduceData: Row(("index", "records")),
    },
    elements_max=PARTITIONS_MAX,
)
decode_request: Final = _DECODER.decode
"""The request whose body is `data[position:end]`. Raises WireError."""


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
_SINGLE_LAYOUTS: Final = (*[None] * 5, *[_LAYOUT_V5] * 3, _LAYOUT_V8, *[_LAYOUT_V9] * 4)
"""By version; those before 5 have no log start offset, and those with topic ids are of a fixed size."""
_SINGLE_WITH_ID: Final = Struct(">ii2s16sBi2xqqq9s")
_SINGLE_WITH_ID_BYTES: Final = _SINGLE_WITH_ID.size - 4
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
    if version >= TOPIC_IDS_FROM:
        return _SINGLE_WITH_ID.pack(
            _SINGLE_WITH_ID_BYTES,
            correlation_id,
            b"\x00\x02",  # no tags in the header, one topic
            topic,
            2,  # one partition
            partition_index,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            _LAYOUT_V9.end,
        )
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
    for key, replies in topics:
        if version < TOPIC_IDS_FROM:
            parts.append(encode_uvarint(len(key) + 1))
        parts += (key, encode_uvarint(len(replies) + 1))
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
