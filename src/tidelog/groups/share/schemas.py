"""Records of share groups in `__consumer_offsets`, as Kafka lays them out.

key 10  group, member   a member and its subscription
key 11  group           its epoch
key 12  group           the epoch of the target assignment
key 13  group, member   a member's target
key 14  group, member   a member's current assignment
key 15  group           the partitions whose state is initialized, is being initialized, or is being deleted
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.groups.consumer.schemas import TargetValue, TopicPartitions
from tidelog.groups.records import RecordForm
from tidelog.wire.schema import Message, Struct, array, int8, int32, int64, string, uuid

MEMBER: Final = 10
GROUP_EPOCH: Final = 11
TARGET_EPOCH: Final = 12
TARGET: Final = 13
CURRENT: Final = 14
STATE_PARTITIONS: Final = 15
KINDS: Final = frozenset({MEMBER, GROUP_EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATE_PARTITIONS})
_OF_MEMBERS: Final = frozenset({MEMBER, TARGET, CURRENT})


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

_FORM: Final = RecordForm(VALUES, _OF_MEMBERS)
read_key = _FORM.read_key
read_value = _FORM.read_value
record = _FORM.record
