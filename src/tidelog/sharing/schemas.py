"""The records of `__share_group_state`: Kafka's keys and values, byte for byte.

    key 0   group, topic id, partition   the whole state of a share partition
    key 1   the same                     what has changed since the last record of key 0

A record of key 1 adds to the snapshot whose epoch it names. So the topic is not compacted: what lies before the oldest
snapshot in use is deleted.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.fields import OWN_TAGS
from tidelog.wire.primitives import uuid_to_text
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64

SNAPSHOT: Final = 0
UPDATE: Final = 1
_VERSION: Final = b"\0\0"
_HEAD: Final = struct.Struct(">hh")
_TAIL: Final = struct.Struct(">16si")


class SchemaError(ValueError):
    """The bytes of a record do not match its version."""


class ShareKey(NamedTuple):
    """Names a share partition."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """What FindCoordinator is asked with, and what decides on the partition of the state topic."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class StateBatchValue(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()
    # Tidelog's own, which Kafka's readers skip.
    time_ms: int = int64(tag=OWN_TAGS)


class SnapshotValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatchValue] = array(StateBatchValue)


class UpdateValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(-1, tag=0)
    state_batches: list[StateBatchValue] = array(StateBatchValue)


def encode_key(kind: int, key: ShareKey) -> bytes:
    name = key.group_id.encode()
    return _HEAD.pack(kind, len(name)) + name + _TAIL.pack(key.topic_id, key.partition)


def read_key(data: bytes) -> tuple[int, ShareKey]:
    """The kind of a record and the share partition that it is about; raises SchemaError if it is malformed."""
    try:
        kind, length = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        topic_id, partition = _TAIL.unpack_from(data, end)
        group_id = data[_HEAD.size : end].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise SchemaError(f"the key cannot be read: {error}") from None
    if len(data) != end + _TAIL.size:
        raise SchemaError(f"a key of {len(data)} bytes claims {end + _TAIL.size} bytes")
    return kind, ShareKey(group_id, topic_id, partition)


def encode_value(value: Message) -> bytes:
    return _VERSION + value.encode(0)


def read_snapshot(data: bytes) -> SnapshotValue:
    _check_version(data)
    try:
        return SnapshotValue.decode(data, 0, 2)
    except WireError as error:
        raise SchemaError(str(error)) from None


def read_update(data: bytes) -> UpdateValue:
    _check_version(data)
    try:
        return UpdateValue.decode(data, 0, 2)
    except WireError as error:
        raise SchemaError(str(error)) from None


def _check_version(data: bytes) -> None:
    if data[:2] != _VERSION:
        raise SchemaError(f"the value has unknown version {data[:2].hex()}")
