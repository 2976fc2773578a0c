"""The hot codec of OffsetCommit: small requests into plain tuples, responses in one pass.

`messages.OffsetCommitRequest` says what the bytes mean; this module says it again for speed, and a property test holds
the two equal in every version. Commits are what consumers send most often after fetches.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.primitives import (
    Buffer,
    checked_count,
    checked_string_bytes,
    decode_uvarint,
    encode_uvarint,
    skip_tagged_fields,
)

FLEXIBLE_FROM: Final = 8
_MEMBERS_FROM: Final = 1
_TIMESTAMPS_IN: Final = 1
_THROTTLE_FROM: Final = 3
_RETENTION_UNTIL: Final = 4
_LEADER_EPOCHS_FROM: Final = 6
_INSTANCE_IDS_FROM: Final = 7

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_unpack_long = Struct(">q").unpack_from
_unpack_generation = Struct(">ih").unpack_from
"""A number and the length of the string behind it."""
_unpack_offset = Struct(">iq").unpack_from
"""Partition and offset."""
_unpack_offset_and_epoch = Struct(">iqi").unpack_from
_new = tuple.__new__


class CommittedPartition(NamedTuple):
    """What is committed for one partition."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None
    commit_timestamp: int


class CommittedTopic(NamedTuple):
    """The partitions of one topic."""

    name: str
    partitions: list[CommittedPartition]


class CommitSpans(NamedTuple):
    """An OffsetCommit request in plain tuples."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[CommittedTopic]


def decode_request(data: Buffer, position: int, end: int, version: int) -> CommitSpans:
    """The request whose body is `data[position:end]`."""
    try:
        single = _single(data, position, end, version)
        if single is not None:
            return single
        if version >= FLEXIBLE_FROM:
            spans, position = _decode_flexible(data, position, end)
        else:
            spans, position = _decode_classic(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise WireError(f"OffsetCommit v{version}: the request ends or breaks off within a field ({cause})") from cause
    if position > end:
        raise WireError(f"OffsetCommit v{version}: fields reach {position - end} bytes beyond the request")
    return spans


# --- requests for one partition --------------------------------------------------------------------------------------


def _single(data: Buffer, position: int, end: int, version: int) -> CommitSpans | None:
    """A short request for one partition, as consumers send them; None for any other, and for broken ones."""
    if end - position > _SINGLE_BYTES_MAX or version < _RETENTION_UNTIL + 1:
        return None
    try:
        if version >= FLEXIBLE_FROM:
            return _single_flexible(data, position, end)
        return _single_classic(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError):
        return None


_SINGLE_BYTES_MAX: Final = 512


def _single_flexible(data: Buffer, position: int, end: int) -> CommitSpans | None:
    """With lengths of one byte and without tags, only three lengths decide where each field lies."""
    group_end = position + data[position]
    (generation_id,) = _unpack_int(data, group_end)
    member = group_end + 4
    member_end = member + data[member]
    instance_id = None
    topics = member_end + 1
    if data[member_end]:
        topics = member_end + data[member_end]
        instance_id = str(data[member_end + 1 : topics], "utf-8")
    topic = topics + 1
    topic_end = topic + data[topic]
    if data[topics] != 2 or data[topic_end] != 2:
        return None
    index, offset, leader_epoch = _unpack_offset_and_epoch(data, topic_end + 1)
    metadata = topic_end + 17
    size = data[metadata]
    rest = metadata + (size or 1)
    # No tags follow the partition, the topic and the request: three zeros.
    if (
        rest + 3 != end
        or data[rest]
        or data[rest + 1]
        or data[rest + 2]
        or not _are_short(data, position, member, topic)
    ):
        return None
    if size >= 0x80 or data[member_end] >= 0x80:
        return None
    text = str(data[metadata + 1 : rest], "utf-8") if size else None
    return _spans(
        str(data[position + 1 : group_end], "utf-8"),
        generation_id,
        str(data[member + 1 : member_end], "utf-8"),
        instance_id,
        str(data[topic + 1 : topic_end], "utf-8"),
        (index, offset, leader_epoch, text, -1),
    )


def _are_short(data: Buffer, first: int, second: int, third: int) -> bool:
    """Whether these are lengths of strings that are not null, in one byte each."""
    return 0 < data[first] < 0x80 and 0 < data[second] < 0x80 and 0 < data[third] < 0x80


def _single_classic(data: Buffer, position: int, end: int, version: int) -> CommitSpans | None:
    """The versions 5 to 7."""
    group_end = position + 2 + _unpack_short(data, position)[0]
    generation_id, member_size = _unpack_generation(data, group_end)
    member_end = group_end + 6 + member_size
    instance_id, topics = (None, member_end) if version < _INSTANCE_IDS_FROM else _classic_nullable(data, member_end)
    topic_count, topic_size = _unpack_generation(data, topics)
    topic_end = topics + 6 + topic_size
    if (
        topic_count != 1
        or _unpack_int(data, topic_end)[0] != 1
        or min(group_end - position - 2, member_size, topic_size) < 0
    ):
        return None
    if version >= _LEADER_EPOCHS_FROM:
        index, offset, leader_epoch = _unpack_offset_and_epoch(data, topic_end + 4)
        text, after = _classic_nullable(data, topic_end + 20)
    else:
        (index, offset), leader_epoch = _unpack_offset(data, topic_end + 4), -1
        text, after = _classic_nullable(data, topic_end + 16)
    if after != end:
        return None
    return _spans(
        str(data[position + 2 : group_end], "utf-8"),
        generation_id,
        str(data[group_end + 6 : member_end], "utf-8"),
        instance_id,
        str(data[topics + 6 : topic_end], "utf-8"),
        (index, offset, leader_epoch, text, -1),
    )


def _spans(
    group_id: str,
    generation_id: int,
    member_id: str,
    instance_id: str | None,
    name: str,
    partition: tuple[int, int, int, str | None, int],
) -> CommitSpans:
    topics = [_new(CommittedTopic, (name, [_new(CommittedPartition, partition)]))]
    return _new(CommitSpans, (group_id, generation_id, member_id, instance_id, -1, topics))


# --- requests of any shape -------------------------------------------------------------------------------------------


def _decode_classic(data: Buffer, position: int, end: int, version: int) -> tuple[CommitSpans, int]:
    group_id, position = _classic_string(data, position)
    generation_id, member_id, instance_id, retention_ms = -1, "", None, -1
    if version >= _MEMBERS_FROM:
        (generation_id,) = _unpack_int(data, position)
        member_id, position = _classic_string(data, position + 4)
        if version >= _INSTANCE_IDS_FROM:
            instance_id, position = _classic_nullable(data, position)
        if _TIMESTAMPS_IN < version <= _RETENTION_UNTIL:
            (retention_ms,) = _unpack_long(data, position)
            position += 8
    (topic_count,) = _unpack_int(data, position)
    position += 4
    topics = []
    for _ in range(checked_count(topic_count, end - position)):
        name, position = _classic_string(data, position)
        (partition_count,) = _unpack_int(data, position)
        position += 4
        partitions = []
        for _ in range(checked_count(partition_count, end - position)):
            leader_epoch = timestamp = -1
            if version >= _LEADER_EPOCHS_FROM:
                index, offset, leader_epoch = _unpack_offset_and_epoch(data, position)
                position += 16
            else:
                index, offset = _unpack_offset(data, position)
                position += 12
                if version == _TIMESTAMPS_IN:
                    (timestamp,) = _unpack_long(data, position)
                    position += 8
            metadata, position = _classic_nullable(data, position)
            partitions.append(_new(CommittedPartition, (index, offset, leader_epoch, metadata, timestamp)))
        topics.append(_new(CommittedTopic, (name, partitions)))
    return _new(CommitSpans, (group_id, generation_id, member_id, instance_id, retention_ms, topics)), position


def _decode_flexible(data: Buffer, position: int, end: int) -> tuple[CommitSpans, int]:
    group_id, position = _compact_string(data, position)
    (generation_id,) = _unpack_int(data, position)
    member_id, position = _compact_string(data, position + 4)
    instance_id, position = _compact_nullable(data, position)
    topic_count, position = decode_uvarint(data, position)
    topics = []
    for _ in range(checked_count(topic_count - 1, end - position)):
        name, position = _compact_string(data, position)
        partition_count, position = decode_uvarint(data, position)
        partitions = []
        for _ in range(checked_count(partition_count - 1, end - position)):
            index, offset, leader_epoch = _unpack_offset_and_epoch(data, position)
            metadata, position = _compact_nullable(data, position + 16)
            position = skip_tagged_fields(data, position, end) if data[position] else position + 1
            partitions.append(_new(CommittedPartition, (index, offset, leader_epoch, metadata, -1)))
        position = skip_tagged_fields(data, position, end) if data[position] else position + 1
        topics.append(_new(CommittedTopic, (name, partitions)))
    position = skip_tagged_fields(data, position, end) if data[position] else position + 1
    return _new(CommitSpans, (group_id, generation_id, member_id, instance_id, -1, topics)), position


def _classic_nullable(data: Buffer, position: int) -> tuple[str | None, int]:
    (size,) = _unpack_short(data, position)
    position += 2
    if size <= 0:
        return (None if size else ""), position
    return str(data[position : position + size], "utf-8"), position + size


def _classic_string(data: Buffer, position: int) -> tuple[str, int]:
    (size,) = _unpack_short(data, position)
    if size < 0:
        raise WireError(f"OffsetCommit: a string at byte {position} is null")
    position += 2
    return str(data[position : position + size], "utf-8"), position + size


def _compact_nullable(data: Buffer, position: int) -> tuple[str | None, int]:
    size = data[position]
    position += 1
    if size <= 1:
        return ("" if size else None), position
    return _compact_string(data, position - 1)


def _compact_string(data: Buffer, position: int) -> tuple[str, int]:
    size = data[position]
    if 0 < size < 0x80:
        end = position + size
        return str(data[position + 1 : end], "utf-8"), end
    if not size:
        raise WireError(f"OffsetCommit: a string at byte {position} is null")
    size, position = decode_uvarint(data, position)
    end = position + checked_string_bytes(size - 1)
    return str(data[position:end], "utf-8"), end


# --- responses -------------------------------------------------------------------------------------------------------

TopicReply = tuple[str, Sequence[tuple[int, int]]]
"""A topic and, for each of its partitions, index and error code."""

_pack_int = Struct(">i").pack
_pack_short = Struct(">h").pack
_pack_head = Struct(">ii").pack
_pack_code = Struct(">ih").pack
_pack_flexible_code = Struct(">ihx").pack


def encode_response(correlation_id: int, version: int, topics: Sequence[TopicReply]) -> bytes:
    """A whole response frame, length and header included, without throttling."""
    if version >= FLEXIBLE_FROM:
        # Tags of the header, throttle time.
        parts = [b"\x00\x00\x00\x00\x00", encode_uvarint(len(topics) + 1)]
        for name, codes in topics:
            raw = name.encode()
            parts += (encode_uvarint(len(raw) + 1), raw, encode_uvarint(len(codes) + 1))
            parts += [_pack_flexible_code(index, code) for index, code in codes]
            parts.append(b"\x00")
        parts.append(b"\x00")
    else:
        parts = [b"\x00\x00\x00\x00"] if version >= _THROTTLE_FROM else []
        parts.append(_pack_int(len(topics)))
        for name, codes in topics:
            raw = name.encode()
            parts += (_pack_short(len(raw)), raw, _pack_int(len(codes)))
            parts += [_pack_code(index, code) for index, code in codes]
    body = b"".join(parts)
    return _pack_head(len(body) + 4, correlation_id) + body
