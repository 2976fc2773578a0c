"""The records of `__consumer_offsets`: Kafka's keys and values, byte for byte.

A key's version is the kind of record, a value's version its layout:

    key 0, 1   group, topic, partition       value 0  offset, metadata, commit time
                                             value 1  … and expiry time
                                             value 2  as 0
                                             value 3  leader epoch after the offset
                                             value 4  flexible; the topic's id as a tagged field
    key 2      group                         value 0  protocol type, generation, protocol, leader, members
                                             value 1  rebalance timeouts of members
                                             value 2  since when the group is in its state
                                             value 3  instance ids of members

We write key 1 with value 4 (3 without a topic id; 1 for a commit with its own retention) and key 2 with value 3; all
are read. An offset
is kept in memory as it is in the log, `topic and partition` of the key and the value, and decoded on request: so
loading a million of them is fast.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.groups.classic.member import Member
from tidelog.wire.errors import WireError
from tidelog.wire.partitions import NO_EPOCH
from tidelog.wire.primitives import NO_UUID, decode_uvarint, encode_uvarint

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2

_KEY_HEAD: Final = struct.Struct(">hh")
_OFFSET_HEAD: Final = struct.Struct(">hqh")
_OFFSET_HEAD_3: Final = struct.Struct(">hqih")
_OFFSET_3_WITHOUT_METADATA: Final = struct.Struct(">hqihq")
_OFFSET_HEAD_4: Final = struct.Struct(">hqi")
_OFFSET_4_WITHOUT_METADATA: Final = struct.Struct(">hqibq3s16s")
_OFFSET_4_TAIL: Final = struct.Struct(">q3s16s")
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field: number 0, of 16 bytes."""
_COMMITTED_AT_4: Final = 15
"""Where a value of version 4 without metadata has its timestamp."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TWO_INT64: Final = struct.Struct(">qq")
NO_TIMESTAMP: Final = -1


class SchemaError(ValueError):
    """The bytes of a record do not match its version."""


class CommittedOffset(NamedTuple):
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: bytes = NO_UUID


class GroupValue(NamedTuple):
    """A group as it is stored: always between two rebalances."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: list[Member]


def partition_key(topic: str, partition: int) -> bytes:
    """Topic and partition, as the second part of an offset's key."""
    name = topic.encode()
    return _INT16.pack(len(name)) + name + _INT32.pack(partition)


def read_partition_key(key: bytes) -> tuple[str, int]:
    """The inverse of `partition_key`."""
    return key[2:-4].decode("utf-8", "replace"), _INT32.unpack_from(key, len(key) - 4)[0]


def topic_prefix(topic: str) -> bytes:
    """The prefix that only the partition keys of this topic have."""
    name = topic.encode()
    return _INT16.pack(len(name)) + name


def offset_key_prefix(group_id: str) -> bytes:
    """The bytes before the partition key."""
    name = group_id.encode()
    return _KEY_HEAD.pack(1, len(name)) + name


def group_key(group_id: str) -> bytes:
    name = group_id.encode()
    return _KEY_HEAD.pack(GROUP_KEY_VERSION, len(name)) + name


def offset_value(
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    expire_timestamp: int = NO_TIMESTAMP,
    topic_id: bytes = NO_UUID,
) -> bytes:
    """Encode a committed offset. One with its own expiry is written in version 1: no leader epoch and no topic id."""
    if expire_timestamp == NO_TIMESTAMP:
        if topic_id != NO_UUID:
            return _offset_value_4(offset, leader_epoch, metadata, commit_timestamp, topic_id)
        if not metadata:
            return _OFFSET_3_WITHOUT_METADATA.pack(3, offset, leader_epoch, 0, commit_timestamp)
        text = metadata.encode()
        return _OFFSET_HEAD_3.pack(3, offset, leader_epoch, len(text)) + text + _INT64.pack(commit_timestamp)
    text = metadata.encode()
    return _OFFSET_HEAD.pack(1, offset, len(text)) + text + _TWO_INT64.pack(commit_timestamp, expire_timestamp)


def _offset_value_4(offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, topic_id: bytes) -> bytes:
    if not metadata:
        return _OFFSET_4_WITHOUT_METADATA.pack(4, offset, leader_epoch, 1, commit_timestamp, _TOPIC_ID_TAG, topic_id)
    text = metadata.encode()
    return (
        _OFFSET_HEAD_4.pack(4, offset, leader_epoch)
        + encode_uvarint(len(text) + 1)
        + text
        + _OFFSET_4_TAIL.pack(commit_timestamp, _TOPIC_ID_TAG, topic_id)
    )


def read_offset_value(value: bytes) -> CommittedOffset:
    """Decode a committed offset of any version; raises SchemaError."""
    try:
        version = _INT16.unpack_from(value)[0]
        if version == 4:
            return _read_offset_value_4(value)
        if version == 3:
            _, offset, leader_epoch, length = _OFFSET_HEAD_3.unpack_from(value)
            start = _OFFSET_HEAD_3.size
        else:
            _, offset, length = _OFFSET_HEAD.unpack_from(value)
            leader_epoch, start = NO_EPOCH, _OFFSET_HEAD.size
        end = start + length
        if not 0 <= version <= 3 or length < 0:
            raise SchemaError(f"the offset has version {version} and {length} bytes of metadata")
        commit_timestamp = _INT64.unpack_from(value, end)[0]
        expire_timestamp = _INT64.unpack_from(value, end + 8)[0] if version == 1 else NO_TIMESTAMP
        metadata = value[start:end].decode()
    except (struct.error, UnicodeDecodeError, WireError) as error:
        raise SchemaError(f"the offset cannot be read: {error}") from None
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)


def _read_offset_value_4(value: bytes) -> CommittedOffset:
    _, offset, leader_epoch = _OFFSET_HEAD_4.unpack_from(value)
    length, start = decode_uvarint(value, _OFFSET_HEAD_4.size)
    end = start + length - 1
    if length < 1 or end > len(value):
        raise SchemaError(f"the offset has {length - 1} bytes of metadata in {len(value)} bytes")
    committed_ms = _INT64.unpack_from(value, end)[0]
    metadata = value[start:end].decode()
    return CommittedOffset(
        offset, leader_epoch, metadata, committed_ms, NO_TIMESTAMP, _topic_id_of(value, end + _INT64.size)
    )


def _topic_id_of(value: bytes, position: int) -> bytes:
    """The tagged field 0; later versions of Kafka may add others."""
    topic_id = NO_UUID
    count, position = decode_uvarint(value, position)
    for _ in range(count):
        tag, position = decode_uvarint(value, position)
        size, position = decode_uvarint(value, position)
        if position + size > len(value) or (tag == 0 and size != len(NO_UUID)):
            raise SchemaError(f"the offset has a tagged field {tag} of {size} bytes")
        if tag == 0:
            topic_id = value[position : position + size]
        position += size
    return topic_id


def topic_id_of_offset(value: bytes) -> bytes:
    """The id of the topic that an offset was committed for, without decoding the rest; `NO_UUID` if it has none."""
    if value[:2] != b"\0\4":
        return NO_UUID
    try:
        return read_offset_value(value).topic_id
    except SchemaError:
        return NO_UUID


def commit_timestamp(value: bytes) -> int:
    """When an offset was committed, without decoding the rest; not for version 1, which ends with its expiry.

    One of version 4 that cannot be read counts as never past its retention.
    """
    if value[:2] != b"\0\4":
        return int.from_bytes(value[-8:], signed=True)
    if value[_OFFSET_HEAD_4.size : _COMMITTED_AT_4] == b"\1":
        return int.from_bytes(value[_COMMITTED_AT_4 : _COMMITTED_AT_4 + 8], signed=True)
    try:
        return read_offset_value(value).commit_timestamp
    except SchemaError:
        return 2**63 - 1


def group_value(group: GroupValue, assignments: Mapping[str, bytes]) -> bytes:
    """Encode a group with the assignments of its members."""
    parts = [
        _INT16.pack(3),
        _string(group.protocol_type),
        _INT32.pack(group.generation),
        _string(group.protocol_name),
        _string(group.leader_id),
        _INT64.pack(group.state_since_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        assert group.protocol_name is not None, "a group with members has chosen a protocol"
        parts += (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _blob(member.metadata(group.protocol_name)),
            _blob(assignments.get(member.member_id, b"")),
        )
    return b"".join(parts)


def read_group_value(value: bytes) -> GroupValue:
    """Decode a stored group of any version; raises SchemaError."""
    try:
        reader = _Reader(value)
        version = reader.int16()
        if not 0 <= version <= 3:
            raise SchemaError(f"the group has unknown version {version}")
        protocol_type = reader.string()
        generation = reader.int32()
        protocol_name = reader.nullable_string()
        leader_id = reader.nullable_string()
        state_since_ms = reader.int64() if version >= 2 else NO_TIMESTAMP
        count = reader.int32()
        if not 0 <= count <= len(value):
            raise SchemaError(f"the group claims {count} members")
        members = [_read_member(reader, version, protocol_name) for _ in range(count)]
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise SchemaError(f"the group cannot be read: {error}") from None
    return GroupValue(protocol_type, generation, protocol_name, leader_id, state_since_ms, members)


def _read_member(reader: _Reader, version: int, protocol_name: str | None) -> Member:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.blob()
    assignment = reader.blob()
    return Member(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms,
        rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        ((protocol_name or "", subscription),),
        assignment,
    )


def tombstones(group_id: str, partition_keys: Iterable[bytes]) -> list[tuple[bytes, None]]:
    """Tombstones of a group's offsets."""
    prefix = offset_key_prefix(group_id)
    return [(prefix + key, None) for key in partition_keys]


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _blob(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


class _Reader:
    """Reads one value from its start to its end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack_from(self._data, self._position)[0]
        self._position += layout.size
        return number

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise SchemaError("a required string is null")
        return text

    def blob(self) -> bytes:
        length = self.int32()
        if length < 0:
            raise SchemaError("required bytes are null")
        return self._take(length)

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise SchemaError(f"a field claims {length} bytes, {len(self._data) - self._position} are left")
        data = self._data[self._position : end]
        self._position = end
        return data
