"""The states of partitions and replicas, and which state may follow which. The tables are Kafka's.

partition   NON_EXISTENT → NEW → ONLINE ⇄ OFFLINE → NON_EXISTENT
replica     NON_EXISTENT → NEW → ONLINE ⇄ OFFLINE → DELETION_STARTED → DELETION_SUCCESSFUL → NON_EXISTENT
                                                ↖ DELETION_INELIGIBLE ↙
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class StateChangeFailedError(Exception):
    """A partition or a replica cannot enter a state and stays in the one that it has; the message says why."""


class PartitionStatus(Enum):
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """Has replicas and never had a leader."""
    ONLINE = "OnlinePartition"
    """Has a leader that is alive."""
    OFFLINE = "OfflinePartition"
    """Had a leader, which is gone."""


class ReplicaStatus(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Just created; it can follow a leader and not yet become one."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker is down, or it was stopped."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It cannot be deleted now: its broker is down, or refused."""


PREVIOUS_OF_PARTITION: Final[Mapping[PartitionStatus, frozenset[PartitionStatus]]] = {
    PartitionStatus.NEW: frozenset({PartitionStatus.NON_EXISTENT}),
    PartitionStatus.ONLINE: frozenset({PartitionStatus.NEW, PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.OFFLINE: frozenset({PartitionStatus.NEW, PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.NON_EXISTENT: frozenset({PartitionStatus.OFFLINE}),
}
"""The states from which a partition may enter a state."""

_SERVING: Final = frozenset(
    {ReplicaStatus.NEW, ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_INELIGIBLE}
)

PREVIOUS_OF_REPLICA: Final[Mapping[ReplicaStatus, frozenset[ReplicaStatus]]] = {
    ReplicaStatus.NEW: frozenset({ReplicaStatus.NON_EXISTENT}),
    ReplicaStatus.ONLINE: _SERVING,
    ReplicaStatus.OFFLINE: _SERVING,
    ReplicaStatus.DELETION_STARTED: frozenset({ReplicaStatus.OFFLINE}),
    ReplicaStatus.DELETION_SUCCESSFUL: frozenset({ReplicaStatus.DELETION_STARTED}),
    ReplicaStatus.DELETION_INELIGIBLE: frozenset({ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_STARTED}),
    ReplicaStatus.NON_EXISTENT: frozenset({ReplicaStatus.DELETION_SUCCESSFUL}),
}
"""The states from which a replica may enter a state."""
