"""Applies what a controller decides: which partitions this broker leads, follows, or deletes.

In a ZooKeeper cluster it says so in LeaderAndIsr and StopReplica, in a KRaft cluster in the metadata log.

One request is applied after the other, in the order of the controller's epochs; a request of an earlier controller is
refused as a whole. Each partition is checked and changed in one step, and the steps of a large request may be spread
over time: the methods are generators that yield between two partitions and return the errors by partition.

    topic id differs from the log's                 INCONSISTENT_TOPIC_ID
    leader epoch below the one that is known         STALE_CONTROLLER_EPOCH
    leader epoch as known                            STALE_CONTROLLER_EPOCH (nothing new)
    this broker is not among the replicas            UNKNOWN_TOPIC_OR_PARTITION
    the log is in a directory that failed            KAFKA_STORAGE_ERROR
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple, Protocol

from tidelog.replication.partition import Partition
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.replication.replica_set import LeaderAndIsr, LeaderRecoveryState
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.timing import Clock
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrPartitionState
from tidelog.wire.messages.update_metadata import UpdateMetadataPartitionState
from tidelog.wire.partitions import NO_EPOCH, PartitionKey
from tidelog.wire.primitives import NO_UUID

logger = logging.getLogger(__name__)

Errors = dict[PartitionKey, ErrorCode]


class LogSource(Protocol):
    """Opens and deletes logs."""

    def open_log(self, topic: str, index: int, topic_id: bytes | None, *, is_new: bool) -> Log:
        """The log of a partition, created where there is none. Raises ApiError and LogDirFailure."""
        ...

    def delete_log(self, topic: str, index: int) -> None:
        """Remove the log of a partition, if there is one. Raises LogDirFailure."""
        ...


class Followers(Protocol):
    """Fetches from leaders."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its leader epoch."""
        ...

    def unfollow(self, keys: Iterable[PartitionKey]) -> None:
        """Fetch these partitions no more."""
        ...


class LeadershipListener(Protocol):
    """Has state for some of the partitions that this broker leads."""

    def lead(self, partition: Partition) -> None: ...
    def resign(self, topic: str, index: int) -> None: ...


class StopReplicaOrder(NamedTuple):
    """One partition of a StopReplica request."""

    topic: str
    partition_index: int
    leader_epoch: int
    is_deleted: bool


class RoleChanges:
    """Applies the controller's requests to the partitions of one broker."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        logs: LogSource,
        followers: Followers,
        listeners: Sequence[LeadershipListener],
        clock: Clock,
    ) -> None:
        self.controller_epoch = 0
        self._replica_manager = replica_manager
        self._logs = logs
        self._followers = followers
        self._listeners = listeners
        self._clock = clock

    def check_controller(self, controller_epoch: int) -> None:
        """Accept a request of this controller; raises ApiError if a later one has sent requests already."""
        if controller_epoch < self.controller_epoch:
            raise ApiError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"the controller epoch {controller_epoch} is stale: the current one is {self.controller_epoch}",
            )
        self.controller_epoch = controller_epoch

    # --- LeaderAndIsr ---

    def become_leader_or_follower(
        self, states: Iterable[tuple[str, bytes, LeaderAndIsrPartitionState]]
    ) -> Generator[None, None, Errors]:
        """Apply the states of partitions, given with topic name and id; returns the error of each."""
        errors: Errors = {}
        for topic, topic_id, state in states:
            key = topic, state.partition_index
            errors[key] = self._become(topic, topic_id, state)
            yield
        return errors

    def _become(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode:
        partition = self._replica_manager.find(topic, state.partition_index)
        if partition is not None and state.leader_epoch <= partition.leader_epoch and not partition.is_offline:
            error = _check_id(partition, topic_id)
            return error if error is not ErrorCode.NONE else ErrorCode.STALE_CONTROLLER_EPOCH
        return self._take(topic, topic_id, state.partition_index, _leader_and_isr(state), is_new=state.is_new)

    def follow_metadata(
        self, states: Iterable[tuple[str, bytes, int, LeaderAndIsr, bool]]
    ) -> Generator[None, None, Errors]:
        """Apply what the metadata log says about partitions: name, id and index, the state, and whether the replica is
        new to this broker. A change may be of the ISR alone, so partition epochs say what is newer.
        """
        errors: Errors = {}
        for topic, topic_id, index, state, is_new in states:
            partition = self._replica_manager.find(topic, index)
            if (
                partition is None
                or partition.is_offline
                or state.partition_epoch > partition.replica_set.partition_epoch
            ):
                errors[topic, index] = self._take(topic, topic_id, index, state, is_new=is_new)
            yield
        return errors

    def _take(self, topic: str, topic_id: bytes, index: int, state: LeaderAndIsr, *, is_new: bool) -> ErrorCode:
        """Have the role that a state gives this broker."""
        manager = self._replica_manager
        try:
            partition = manager.find(topic, index)
            if partition is not None and partition.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if partition is not None:
                error = _check_id(partition, topic_id)
                if error is not ErrorCode.NONE:
                    return error
            if manager.local_id not in state.replicas:
                logger.warning("%s-%d has no replica here: %s", topic, index, list(state.replicas))
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if partition is None:
                log_id = None if topic_id == NO_UUID else topic_id
                log = self._logs.open_log(topic, index, log_id, is_new=is_new)
                partition = manager.add_partition(topic, index, topic_id, log)
            self._assign(partition, state)
        except LogDirFailure as failure:
            manager.fail_log_dir(failure)
            return failure.code
        except ApiError as error:
            logger.error("%s-%d is not served: %s", topic, index, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                manager.add_offline(topic, index)
            return error.code
        return ErrorCode.NONE

    def _assign(self, partition: Partition, state: LeaderAndIsr) -> None:
        if state.leader_id == self._replica_manager.local_id:
            self._followers.unfollow((partition.key,))
            if partition.become_leader(state, self._clock.monotonic_ms()):
                for listener in self._listeners:
                    listener.lead(partition)
        else:
            was_leader = partition.is_leader
            if partition.become_follower(state):
                self._followers.unfollow((partition.key,))
                if state.leader_id >= 0:
                    self._followers.follow(partition)
            if was_leader:
                self._resign(partition.key)
        self._replica_manager.role_changed(partition)

    def _resign(self, key: PartitionKey) -> None:
        for listener in self._listeners:
            listener.resign(*key)

    # --- UpdateMetadata ---

    def give_up_moved(self, states: Iterable[tuple[str, UpdateMetadataPartitionState]]) -> Generator[None, None, None]:
        """Lead no partition any more that has moved to other brokers.

        A broker that was cut off while a reassignment ended has missed its StopReplica request, which is sent once.
        It would go on to take records with acks=1 from clients whose metadata is as old, and they would be lost.
        """
        manager = self._replica_manager
        for topic, state in states:
            if manager.local_id not in state.replicas:
                partition = manager.find(topic, state.partition_index)
                if partition is not None and partition.is_leader and partition.leader_epoch < state.leader_epoch:
                    logger.warning("%s-%d has moved to %s: it is no longer led here", *partition.key, state.replicas)
                    partition.become_follower(_moved(state))
                    self._resign(partition.key)
                    manager.role_changed(partition)
            yield

    # --- StopReplica ---

    def stop_replicas(self, orders: Iterable[StopReplicaOrder]) -> Generator[None, None, Errors]:
        """Stop following partitions, and delete those that are to be deleted; returns the error of each."""
        errors: Errors = {}
        for order in orders:
            errors[order.topic, order.partition_index] = self._stop(order)
            yield
        return errors

    def _stop(self, order: StopReplicaOrder) -> ErrorCode:
        manager = self._replica_manager
        key = order.topic, order.partition_index
        partition = manager.find(*key)
        if partition is not None:
            if partition.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if NO_EPOCH < order.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            self._followers.unfollow((key,))
        if not order.is_deleted:
            return ErrorCode.NONE
        if partition is not None:
            manager.remove_partition(*key)
            self._resign(key)
        try:
            # Also where there is a log but no partition: the topic was deleted while this broker was down.
            self._logs.delete_log(*key)
        except LogDirFailure as failure:
            manager.fail_log_dir(failure)
            return failure.code
        return ErrorCode.NONE


def _check_id(partition: Partition, topic_id: bytes) -> ErrorCode:
    """Whether a state is about the topic that the partition belongs to."""
    if topic_id != NO_UUID and partition.topic_id not in (NO_UUID, topic_id):
        logger.error("%s-%d has another topic id", *partition.key)
        return ErrorCode.INCONSISTENT_TOPIC_ID
    return ErrorCode.NONE


def _moved(state: UpdateMetadataPartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        state.zk_version,
        state.controller_epoch,
    )


def _leader_and_isr(state: LeaderAndIsrPartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        state.partition_epoch,
        state.controller_epoch,
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        LeaderRecoveryState(state.leader_recovery_state),
    )
