"""Records of share groups in `__consumer_offsets`, as Kafka lays them out.

key 10  group, member   a member and its subscription
key 11  group           its epoch
key 12  group           the epoch of the target assignment
key 13  group, member   a member's target
key 14  group, member   a member's current assignment
key 15  group           the partitions whose state is initialized, is being initialized, or is being deleted
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tidelog.coordination import StateRecord
from tidelog.groups.consumer.schemas import RecordKey, TargetValue, TopicPartitions
from tidelog.groups.schemas import SchemaError
from tidelog.wire.errors import WireError
from tidelog.wire.schema import Message, Struct, array, int8, int32, int64, string, uuid

MEMBER: Final = 10
GROUP_EPOCH: Final = 11
TARGET_EPOCH: Final = 12
TARGET: Final = 13
CURRENT: Final = 14
STATE_PARTITIONS: Final = 15
KINDS: Final = frozenset({MEMBER, GROUP_EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATE_PARTITIONS})
_OF_MEMBERS: Final = frozenset({MEMBER, TARGET, CURRENT})
_VERSION: Final = b"\0\0"
_HEAD: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")


class MemberValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    rack_id: str | None = string(None, null_since=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class GroupEpochValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    epoch: int = int32()
    metadata_hash: int = int64()


class TargetEpochValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class CurrentValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfoValue(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class StatePartitionsValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfoValue] = array(TopicInfoValue)


VALUES: Final[Mapping[int, type[Message]]] = {
    MEMBER: MemberValue,
    GROUP_EPOCH: GroupEpochValue,
    TARGET_EPOCH: TargetEpochValue,
    TARGET: TargetValue,
    CURRENT: CurrentValue,
    STATE_PARTITIONS: StatePartitionsValue,
}


def read_key(key: bytes) -> RecordKey:
    """Decode a key; raises SchemaError if it is malformed."""
    try:
        kind, length = _HEAD.unpack_from(key)
        end = _HEAD.size + length
        group_id = key[_HEAD.size : end].decode()
        member_id = ""
        if kind in _OF_MEMBERS:
            (length,) = _LENGTH.unpack_from(key, end)
            start, end = end + _LENGTH.size, end + _LENGTH.size + length
            member_id = key[start:end].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise SchemaError(f"the key cannot be read: {error}") from None
    if end != len(key):
        raise SchemaError(f"a key of {len(key)} bytes claims {end} bytes")
    return RecordKey(kind, group_id, member_id)


def read_value(kind: int, value: bytes) -> Message:
    """Decode a value; raises SchemaError if it is malformed or of an unknown version."""
    if value[:2] != _VERSION:
        raise SchemaError(f"the value has unknown version {value[:2].hex()}")
    try:
        return VALUES[kind].decode(value, 0, 2)
    except WireError as error:
        raise SchemaError(str(error)) from None


def record(kind: int, group_id: str, member_id: str, value: Message | None) -> StateRecord:
    """A record to append. A null value is a tombstone: it removes the key."""
    name = group_id.encode()
    key = _HEAD.pack(kind, len(name)) + name
    if kind in _OF_MEMBERS:
        member = member_id.encode()
        key += _LENGTH.pack(len(member)) + member
    return key, None if value is None else _VERSION + value.encode(0)
