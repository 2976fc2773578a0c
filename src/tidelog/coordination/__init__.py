"""The common part of the coordinators: decide, append, replay.

A coordinator keeps the state of its groups or transactions in an internal topic. Each partition of that topic is a
`Shard`: it turns a request or a timeout into a `Decision`, and `CoordinatorRuntime` appends the decision's records,
lets the shard replay them, and releases the replies once they are committed. Loading a partition is replaying it.

The room does no I/O: the edges in `tidelog.broker` provide appends, clock and timer.
"""

from tidelog.coordination.decision import (
    NOTHING,
    Answer,
    CancelTimer,
    Decision,
    ProducerEpoch,
    Respond,
    SetTimer,
    StateRecord,
    TimerChange,
    TimerKey,
)
from tidelog.coordination.partitioning import java_string_hash, partition_for
from tidelog.coordination.runtime import Append, Batching, CoordinatorRuntime, Loading, ShardState
from tidelog.coordination.shard import Shard

__all__ = [
    "NOTHING",
    "Answer",
    "Append",
    "Batching",
    "CancelTimer",
    "CoordinatorRuntime",
    "Decision",
    "Loading",
    "ProducerEpoch",
    "Respond",
    "SetTimer",
    "Shard",
    "ShardState",
    "StateRecord",
    "TimerChange",
    "TimerKey",
    "java_string_hash",
    "partition_for",
]
