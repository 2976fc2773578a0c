"""Consumer groups: their members, assignments and committed offsets.

`GroupShard` decides, one for each partition of `__consumer_offsets`; the runtime of `coordination` carries out its
decisions, and the edge in `tidelog.broker.coordinators.groups` connects both to sockets and logs. No I/O here.
"""

from tidelog.groups.classic.group import Group
from tidelog.groups.classic.joining import Joiner
from tidelog.groups.classic.states import GroupState
from tidelog.groups.offset_requests import (
    Codes,
    CommitCodes,
    Committer,
    PartitionOffset,
    TopicId,
    is_of_topic,
    read_stored,
)
from tidelog.groups.schemas import CommittedOffset
from tidelog.groups.settings import ConsumerTimeouts, GroupSettings
from tidelog.groups.shard import GroupShard

__all__ = [
    "Codes",
    "CommitCodes",
    "CommittedOffset",
    "Committer",
    "ConsumerTimeouts",
    "Group",
    "GroupSettings",
    "GroupShard",
    "GroupState",
    "Joiner",
    "PartitionOffset",
    "TopicId",
    "is_of_topic",
    "read_stored",
]
