"""The hot codec of Fetch: decodes requests into plain tuples, encodes responses into chunks between file slices.

The decoder is compiled from `messages.FetchRequest` (`spans`). `messages.FetchResponse` defines the format of
responses; a property test compares this module with it in every version. Record data is never copied here: a response
is a list of bytes and the slice objects that were passed in, for the connection to send from the file.

Many requests name one partition, and so do nearly all of a waiting session. The response with its records is written at
once; any other shape is written field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol

from tidelog.wire.messages import fetch as messages
from tidelog.wire.primitives import encode_compact_string, encode_uvarint
from tidelog.wire.spans import Row, RowDecoder

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
PARTITIONS_MAX: Final = 12_500
"""Topics and partitions that one request may name to read, and as many to forget: a client or a follower may read the
10,000 partitions of 2,500 topics at once. To decode so many takes some milliseconds of the event loop's time."""
_ISOLATION_FROM: Final = 4
_SESSIONS_FROM: Final = 7
_RACKS_FROM: Final = 11


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

_DECODER: Final = RowDecoder[FetchSpans](
    messages.FetchRequest,
    {
        messages.FetchRequest: Row(
            (
                "replica_id|replica_state",
                "max_wait_ms",
                "min_bytes",
                "max_bytes",
                "isolation_level",
                "session_id",
                "session_epoch",
                "topics",
                "forgotten_topics_data",
                "rack_id",
            ),
            make=FetchSpans,
            usually_empty=("forgotten_topics_data",),
        ),
        messages.ReplicaState: Row(("replica_id",), make=None),
        messages.FetchTopic: Row(("topic|topic_id", "partitions")),
        messages.ForgottenTopic: Row(("topic|topic_id", "partitions")),
        messages.FetchPartition: Row(
            (
                "partition",
                "fetch_offset",
                "partition_max_bytes",
                "current_leader_epoch",
                "last_fetched_epoch",
                "log_start_offset",
            ),
            make=FetchPartition,
        ),
    },
    elements_max=PARTITIONS_MAX,
)
decode_request: Final = _DECODER.decode
"""The request whose body is `data[position:end]`. Raises WireError."""

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
