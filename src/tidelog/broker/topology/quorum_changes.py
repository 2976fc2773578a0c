"""What a change of the metadata log does to this broker: its image, the partitions that it leads and follows, its logs.

Changes are applied one after the other, each in slices and in this order: the image, replicas that are gone, roles,
then what the tree shows (settings, quotas, users, access, tokens, features), which followers of the tree read for
themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.metadata.quorum.projection import (
    apply_brokers,
    apply_topics,
    partitions_on,
    project,
    writes,
)
from tidelog.metadata.quorum.state import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, QuorumPartition
from tidelog.replication.replica_set import LeaderAndIsr, LeaderRecoveryState
from tidelog.replication.role_changes import Followers, RoleChanges, StopReplicaOrder

if TYPE_CHECKING:
    from tidelog.broker.topology.metadata_waiters import MetadataWaiters
    from tidelog.broker.topology.quorum_directories import ReplicaDirectories
    from tidelog.broker.topology.quorum_link import QuorumLink
    from tidelog.broker.topology.topology import BrokerParts
    from tidelog.metadata.quorum.state import MetadataState, Touched
    from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)


class QuorumChanges:
    """Applies changes to one broker."""

    def __init__(
        self,
        parts: BrokerParts,
        link: QuorumLink,
        followers: Followers,
        waiters: MetadataWaiters,
        directories: ReplicaDirectories,
    ) -> None:
        self._parts = parts
        self._link = link
        self._waiters = waiters
        self._directories = directories
        self._roles = RoleChanges(
            parts.replica_manager, parts.topics, followers, parts.topics.leadership_listeners, parts.base.clock
        )
        self._shown_directories: dict[int, tuple[bytes, ...]] = {}
        self.is_serving = False
        """Whether roles are taken: not before the metadata has this broker's own registration."""

    @property
    def _state(self) -> MetadataState:
        return self._link.state

    async def apply(self, touched: Touched) -> None:
        """Let this broker be as the metadata now says."""
        parts, state = self._parts, self._state
        apply_brokers(parts.image, state, touched.brokers)
        parts.image.set_controller(parts.broker_id, 0)
        touched.partitions |= partitions_on(state, self._with_other_directories(touched))
        for topic_id, _ in touched.partitions:
            if topic_id in state.topics:
                touched.topics[topic_id] = state.topics[topic_id].name
        gone = await parts.base.slices.run(apply_topics(parts.image, state, touched))
        if self.is_serving:
            await self._take_roles(touched)
        if gone:
            parts.topics.on_deleted(gone)
        found = writes(state, touched)
        if found:
            await parts.metadata.run(project, found)
        self._waiters.check()
        parts.network.wake()

    def _with_other_directories(self, touched: Touched) -> list[int]:
        """The brokers whose log directories are others than they were: their replicas may be offline."""
        changed = []
        for broker_id in touched.brokers:
            broker = self._state.brokers.get(broker_id)
            directories = () if broker is None else broker.log_dirs
            if self._shown_directories.get(broker_id, directories) != directories:
                changed.append(broker_id)
            self._shown_directories[broker_id] = directories
        return changed

    # --- replicas ---

    async def serve(self) -> None:
        """Take all roles that the metadata has for this broker: it knows its own registration now."""
        self.is_serving = True
        everything = self._state.everything()
        await self._delete_strays()
        await self._take_roles(everything)
        self._waiters.check()
        self._parts.network.wake()

    async def _delete_strays(self) -> None:
        """Logs of topics that were deleted, or of replicas that were moved away, while this broker was down."""
        state, broker_id = self._state, self._parts.broker_id
        strays: list[PartitionKey] = []
        for log in self._parts.base.log_manager.all_logs():
            if log.topic_id is None:
                logger.warning("%s has no topic id: it belongs to no topic of the cluster and is left alone", log.name)
                continue
            topic = state.topics.get(log.topic_id)
            partition = None if topic is None else topic.partitions.get(log.partition)
            if partition is None or broker_id not in partition.replicas:
                logger.warning("%s is deleted: the cluster has no replica of it on this broker", log.name)
                strays.append((log.topic, log.partition))
        await self._stop(strays)

    async def _take_roles(self, touched: Touched) -> None:
        await self._stop(list(self._gone(touched)))
        slices = self._parts.base.slices
        found = list(self._hosted(touched))
        await slices.run(
            self._roles.follow_metadata(
                (topic, topic_id, index, _leader_and_isr(partition), self._is_new(partition))
                for topic, topic_id, index, partition in found
            )
        )
        self._directories.compare([(topic_id, topic, index, partition) for topic, topic_id, index, partition in found])
        self._parts.log_dir_moves.resume()

    def _gone(self, touched: Touched) -> Iterator[PartitionKey]:
        """The partitions that are here and have no replica here any more."""
        state, manager = self._state, self._parts.replica_manager
        for topic_id, index in touched.partitions:
            key = touched.topics[topic_id], index
            hosted = manager.find(*key)
            if hosted is None or hosted.topic_id != topic_id:
                continue
            topic = state.topics.get(topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if partition is None or self._parts.broker_id not in partition.replicas:
                yield key

    def _hosted(self, touched: Touched) -> Iterator[tuple[str, bytes, int, QuorumPartition]]:
        """The partitions that have a replica here."""
        for topic_id, index in touched.partitions:
            topic = self._state.topics.get(topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is not None and partition is not None and self._parts.broker_id in partition.replicas:
                yield topic.name, topic_id, index, partition

    def _is_new(self, partition: QuorumPartition) -> bool:
        """Whether the controllers know of no log directory for the replica here: it was never made."""
        return partition.directory_of(self._parts.broker_id) in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)

    async def _stop(self, keys: list[PartitionKey]) -> None:
        """Delete replicas that are no longer here."""
        if not keys:
            return
        orders = [StopReplicaOrder(topic, index, -1, is_deleted=True) for topic, index in keys]
        await self._parts.base.slices.run(self._roles.stop_replicas(orders))
        for name in dict.fromkeys(topic for topic, _ in keys):
            await self._parts.topics.forget_deleted(name)


def _leader_and_isr(partition: QuorumPartition) -> LeaderAndIsr:
    return LeaderAndIsr(
        partition.leader_id,
        partition.leader_epoch,
        partition.isr,
        partition.replicas,
        partition.partition_epoch,
        0,
        partition.adding,
        partition.removing,
        LeaderRecoveryState(partition.recovery_state),
    )
