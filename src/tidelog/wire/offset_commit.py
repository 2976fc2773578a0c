"""The hot codec of OffsetCommit: decodes requests into plain tuples, encodes responses in one pass.

`messages.OffsetCommitRequest` defines the format; this module repeats it for speed, and a property test compares the
two in every version. Consumers send only fetches more often than commits. Where the C module `_speedups` was built, it
decodes requests; `decode_in_python` defines the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, TypeAlias

from tidelog.wire._native import speedups
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
NO_TIMESTAMP: Final = -1
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
_unpack_epoch_behind_offset = Struct(">qi").unpack_from

CommittedPartition: TypeAlias = tuple[int, int, int, str | None, int]
"""Index, offset, leader epoch, metadata and timestamp of the commit; -1 for the last unless it is of version 1."""

CommittedTopic: TypeAlias = tuple[str, Sequence[CommittedPartition]]

CommitFields: TypeAlias = tuple[str, int, str, str | None, int, list[CommittedTopic]]
"""An OffsetCommit request: group, generation, member, instance id, retention in ms, topics."""


def decode_request(data: Buffer, position: int, end: int, version: int) -> CommitFields:
    """The request whose body is `data[position:end]`."""
    if _decode is not None:
        fields: CommitFields | None = _decode(data, position, end, version)
        if fields is not None:
            return fields
    return decode_in_python(data, position, end, version)


_decode: Final[Any] = None if speedups is None else speedups.decode_offset_commit


def decode_in_python(data: Buffer, position: int, end: int, version: int) -> CommitFields:
    """The same without the C module. Raises WireError."""
    try:
        single = _single(data, position, end, version)
        if single is not None:
            return single
        if version >= FLEXIBLE_FROM:
            fields, position = _decode_flexible(data, position, end)
        else:
            fields, position = _decode_classic(data, position, end, version)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise WireError(f"OffsetCommit v{version}: the request ends or breaks off within a field ({cause})") from cause
    if position > end:
        raise WireError(f"OffsetCommit v{version}: fields reach {position - end} bytes beyond the request")
    return fields


# --- requests for one partition --------------------------------------------------------------------------------------


def _single(data: Buffer, position: int, end: int, version: int) -> CommitFields | None:
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


def _single_flexible(data: Buffer, position: int, end: int) -> CommitFields | None:
    """With lengths of one byte and without tags, a few lengths give the position of each field.

    A consumer's requests begin with the same bytes as long as its group is stable: these are decoded once.
    """
    member = position + data[position] + 4
    instance = member + data[member]
    topic = instance + (data[instance] or 1) + 1
    offset_position = topic + data[topic] + 5
    metadata = offset_position + 12
    size = data[metadata]
    rest = metadata + (size or 1)
    # No tags follow the partition, the topic and the request: three zeros.
    if rest + 3 != end or size >= 0x80 or data[rest : rest + 3] != b"\0\0\0":
        return None
    head = _read_head(bytes(data[position:offset_position]))
    if head is None:
        return None
    group_id, generation_id, member_id, instance_id, name, index = head
    offset, leader_epoch = _unpack_epoch_behind_offset(data, offset_position)
    text = None if not size else "" if size == 1 else str(data[metadata + 1 : rest], "utf-8")
    return group_id, generation_id, member_id, instance_id, -1, [(name, [(index, offset, leader_epoch, text, -1)])]


@lru_cache(maxsize=1024)
def _read_head(data: bytes) -> tuple[str, int, str, str | None, str, int] | None:
    """Group, generation, member, instance, topic and partition, which is what lies before the offset.

    None unless it is one topic with one partition, and each length is of one byte.
    """
    group_end = data[0]
    (generation_id,) = _unpack_int(data, group_end)
    member = group_end + 4
    instance = member + data[member]
    topics = instance + (data[instance] or 1)
    topic = topics + 1
    topic_end = topic + data[topic]
    if not (data[topics] == data[topic_end] == 2 and _are_short(data, 0, member, topic) and data[instance] < 0x80):
        return None
    return (
        str(data[1:group_end], "utf-8"),
        generation_id,
        str(data[member + 1 : instance], "utf-8"),
        str(data[instance + 1 : topics], "utf-8") if data[instance] else None,
        str(data[topic + 1 : topic_end], "utf-8"),
        int(_unpack_int(data, topic_end + 1)[0]),
    )


def _are_short(data: Buffer, first: int, second: int, third: int) -> bool:
    """Whether these are lengths of strings that are not null, in one byte each."""
    return 0 < data[first] < 0x80 and 0 < data[second] < 0x80 and 0 < data[third] < 0x80


def _single_classic(data: Buffer, position: int, end: int, version: int) -> CommitFields | None:
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
    return (
        str(data[position + 2 : group_end], "utf-8"),
        generation_id,
        str(data[group_end + 6 : member_end], "utf-8"),
        instance_id,
        -1,
        [(str(data[topics + 6 : topic_end], "utf-8"), [(index, offset, leader_epoch, text, -1)])],
    )


# --- requests of any shape -------------------------------------------------------------------------------------------


def _decode_classic(data: Buffer, position: int, end: int, version: int) -> tuple[CommitFields, int]:
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
    topics: list[CommittedTopic] = []
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
            partitions.append((index, offset, leader_epoch, metadata, timestamp))
        topics.append((name, partitions))
    return (group_id, generation_id, member_id, instance_id, retention_ms, topics), position


def _decode_flexible(data: Buffer, position: int, end: int) -> tuple[CommitFields, int]:
    group_id, position = _compact_string(data, position)
    (generation_id,) = _unpack_int(data, position)
    member_id, position = _compact_string(data, position + 4)
    instance_id, position = _compact_nullable(data, position)
    topic_count, position = decode_uvarint(data, position)
    topics: list[CommittedTopic] = []
    for _ in range(checked_count(topic_count - 1, end - position)):
        name, position = _compact_string(data, position)
        partition_count, position = decode_uvarint(data, position)
        partitions = []
        for _ in range(checked_count(partition_count - 1, end - position)):
            index, offset, leader_epoch = _unpack_offset_and_epoch(data, position)
            metadata, position = _compact_nullable(data, position + 16)
            position = skip_tagged_fields(data, position, end) if data[position] else position + 1
            partitions.append((index, offset, leader_epoch, metadata, -1))
        position = skip_tagged_fields(data, position, end) if data[position] else position + 1
        topics.append((name, partitions))
    position = skip_tagged_fields(data, position, end) if data[position] else position + 1
    return (group_id, generation_id, member_id, instance_id, -1, topics), position


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
    if len(topics) == 1 and len(topics[0][1]) == 1:
        name, ((index, code),) = topics[0]
        if not code:
            # A partition that exists, for which the same response is sent repeatedly.
            body = _encode_success(name, index, version)
            return _pack_head(len(body) + 4, correlation_id) + body
    body = _encode_body(version, topics)
    return _pack_head(len(body) + 4, correlation_id) + body


@lru_cache(maxsize=1024)
def _encode_success(name: str, index: int, version: int) -> bytes:
    return _encode_body(version, [(name, [(index, 0)])])


def _encode_body(version: int, topics: Sequence[TopicReply]) -> bytes:
    """What follows the correlation id."""
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
    return b"".join(parts)
