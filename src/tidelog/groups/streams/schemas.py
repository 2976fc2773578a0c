"""Records of streams groups in `__consumer_offsets`, as Kafka lays them out.

key 17  group           its epoch, and what the topics and settings were like when that began
key 19  group, member   a member
key 20  group           the epoch of the target assignment, and when it was computed
key 21  group, member   a member's target
key 22  group, member   a member's current tasks, and those it is revoking
key 23  group           the topology
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.coordination import StateRecord
from tidelog.groups.records import RecordForm
from tidelog.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, Subtopology, TaskIds
from tidelog.wire.schema import Message, Struct, array, int8, int32, int64, string
from tidelog.wire.schema import struct as nested

GROUP: Final = 17
MEMBER: Final = 19
TARGET_EPOCH: Final = 20
TARGET: Final = 21
CURRENT: Final = 22
TOPOLOGY: Final = 23
KINDS: Final = frozenset({GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY})
_OF_MEMBERS: Final = frozenset({MEMBER, TARGET, CURRENT})


class GroupValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(-1, tag=0)
    last_assignment_configs: list[KeyValue] | None = array(KeyValue, None, null_since=0, tag=1)


class MemberValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    instance_id: str | None = string(None, null_since=0)
    rack_id: str | None = string(None, null_since=0)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, null_since=0)
    client_tags: list[KeyValue] = array(KeyValue)


class TargetEpochValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class TargetValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class CurrentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, None, null_since=0, tag=0)  # only of active tasks


class CurrentValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


class TopologyValue(Message, api_key=-1, versions=(0, 0), flexible_from=0):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


VALUES: Final[Mapping[int, type[Message]]] = {
    GROUP: GroupValue,
    MEMBER: MemberValue,
    TARGET_EPOCH: TargetEpochValue,
    TARGET: TargetValue,
    CURRENT: CurrentValue,
    TOPOLOGY: TopologyValue,
}

_FORM: Final = RecordForm(VALUES, _OF_MEMBERS)
read_key = _FORM.read_key
read_value = _FORM.read_value
record = _FORM.record


def group_tombstones(group_id: str) -> list[StateRecord]:
    """Tombstones of a group without members."""
    return [record(kind, group_id, "", None) for kind in (TARGET_EPOCH, GROUP, TOPOLOGY)]
