"""Records of consumer groups in `__consumer_offsets`, as Kafka lays them out.

key 3   group           its epoch
key 4   group           the topics it is subscribed to, as of its last comparison with the cluster
key 5   group, member   a member and its subscription
key 6   group           the epoch of the target assignment
key 7   group, member   a member's target
key 8   group, member   a member's current assignment, and the partitions it is revoking
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tidelog.coordination import StateRecord
from tidelog.groups.records import RecordForm
from tidelog.wire.schema import Message, Struct, array, blob, int8, int32, string, uuid
from tidelog.wire.schema import struct as nested

GROUP_EPOCH: Final = 3
TOPICS: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
KINDS: Final = frozenset({GROUP_EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT})
_OF_MEMBERS: Final = frozenset({MEMBER, TARGET, CURRENT})

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; never changed once made, and without empty entries."""


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class GroupEpochValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    epoch: int = int32()


class PartitionRacks(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionRacks] = array(PartitionRacks)


class TopicsValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    topics: list[TopicMetadata] = array(TopicMetadata)


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class MemberValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(None, null_since=0)
    rebalance_timeout_ms: int = int32(-1)
    server_assignor: str | None = string(None, null_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = nested(ClassicMemberMetadata, null_since=0, tag=0)


class TargetEpochValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    assignment_epoch: int = int32()


class TargetValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class CurrentValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


VALUES: Final[Mapping[int, type[Message]]] = {
    GROUP_EPOCH: GroupEpochValue,
    TOPICS: TopicsValue,
    MEMBER: MemberValue,
    TARGET_EPOCH: TargetEpochValue,
    TARGET: TargetValue,
    CURRENT: CurrentValue,
}

_FORM: Final = RecordForm(VALUES, _OF_MEMBERS)
read_key = _FORM.read_key
read_value = _FORM.read_value
record = _FORM.record


def to_partitions(assignment: Assignment) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=sorted(found)) for topic, found in sorted(assignment.items())]


def from_partitions(listed: list[TopicPartitions]) -> Assignment:
    return {entry.topic_id: frozenset(entry.partitions) for entry in listed if entry.partitions}


def group_tombstones(group_id: str) -> list[StateRecord]:
    """Tombstones of a group without members."""
    return [record(kind, group_id, "", None) for kind in (TARGET_EPOCH, TOPICS, GROUP_EPOCH)]
