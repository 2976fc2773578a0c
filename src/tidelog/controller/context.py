"""The controller's state of the cluster: the only copy, read from the tree when a controller is elected.

Changed by the controller's event of the moment and by nothing else. Iteration is in order of topic and index wherever
it can reach the outside, so that the same events lead to the same requests.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tidelog.controller.partitions import EPOCH_DURING_DELETE, Leadership, PartitionReplica
from tidelog.controller.states import PartitionStatus, ReplicaStatus
from tidelog.metadata.tree import BrokerRegistration, ReplicaAssignment, TopicAssignment
from tidelog.wire.partitions import NO_EPOCH, TopicPartition

_NO_REPLICAS = ReplicaAssignment(())


class LiveBroker(NamedTuple):
    """A registered broker. Each registration has another epoch."""

    registration: BrokerRegistration
    epoch: int

    @property
    def broker_id(self) -> int:
        return self.registration.broker_id


class ControllerContext:
    """The cluster as this controller knows it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: this broker is not controller any more, or not yet."""
        self.epoch = 0
        self.epoch_version = 0
        """The version of `/controller_epoch`, which fences every write."""
        self.live_brokers: dict[int, LiveBroker] = {}
        """All that are registered, those that shut down included."""
        self.shutting_down: set[int] = set()
        self.topics: dict[str, list[ReplicaAssignment]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.reassigning: set[TopicPartition] = set()
        self.partition_states: dict[TopicPartition, PartitionStatus] = {}
        self.replica_states: dict[PartitionReplica, ReplicaStatus] = {}
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        """By broker: the partitions whose replica is in a log directory that failed."""
        self.topics_to_delete: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    # --- brokers ---

    def live_broker_ids(self) -> list[int]:
        """The brokers that may lead: registered and not shutting down."""
        return sorted(self.live_brokers.keys() - self.shutting_down)

    def registered_broker_ids(self) -> list[int]:
        """Brokers that shut down included: they still need the leaders."""
        return sorted(self.live_brokers)

    def broker_epoch(self, broker_id: int) -> int | None:
        broker = self.live_brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def is_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Whether the replica of `partition` on this broker can serve."""
        if broker_id not in self.live_brokers or (broker_id in self.shutting_down and not or_shutting_down):
            return False
        return partition not in self.offline_directories.get(broker_id, ())

    def online_replicas(self, partition: TopicPartition) -> list[int]:
        """In the order of the assignment."""
        return [replica for replica in self.assignment(partition).replicas if self.is_online(replica, partition)]

    def offline_replicas(self, partition: TopicPartition) -> list[int]:
        """In the order of the assignment; most often none."""
        replicas = self.assignment(partition).replicas
        if self.shutting_down or self.offline_directories:
            return [replica for replica in replicas if not self.is_online(replica, partition)]
        return [replica for replica in replicas if replica not in self.live_brokers]

    # --- topics and assignments ---

    def add_topic(self, name: str, assignment: TopicAssignment) -> None:
        self.topics[name] = list(assignment.partitions)
        if assignment.topic_id is not None:
            self.topic_ids[name] = assignment.topic_id
            self.topic_names[assignment.topic_id] = name

    def remove_topic(self, name: str) -> None:
        for partition in self.partitions_of(name):
            self.leaderships.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.reassigning.discard(partition)
        for replica in self.replicas_of(name):
            self.replica_states.pop(replica, None)
        self.topics.pop(name, None)
        topic_id = self.topic_ids.pop(name, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.topics_to_delete.discard(name)
        self.topics_with_deletion_started.discard(name)
        self.topics_ineligible_for_deletion.discard(name)

    def topic_assignment(self, name: str) -> TopicAssignment:
        """The content of the topic's node, from the controller's state."""
        return TopicAssignment(self.topic_ids.get(name), tuple(self.topics[name]))

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Without replicas if there is no such partition."""
        assignments = self.topics.get(partition.topic, ())
        return assignments[partition.partition] if 0 <= partition.partition < len(assignments) else _NO_REPLICAS

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.topics[partition.topic][partition.partition] = assignment

    def has_partition(self, partition: TopicPartition) -> bool:
        return 0 <= partition.partition < len(self.topics.get(partition.topic, ()))

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition, in order."""
        for name in sorted(self.topics):
            yield from self.partitions_of(name)

    def partitions_of(self, name: str) -> list[TopicPartition]:
        return [TopicPartition(name, index) for index in range(len(self.topics.get(name, ())))]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        return [partition for partition in self.partitions() if broker_id in self.assignment(partition).replicas]

    def replicas_of(self, name: str) -> list[PartitionReplica]:
        return self.replicas_of_partitions(self.partitions_of(name))

    def replicas_of_partitions(self, partitions: Iterable[TopicPartition]) -> list[PartitionReplica]:
        return [
            PartitionReplica(partition, replica)
            for partition in partitions
            for replica in self.assignment(partition).replicas
        ]

    def replicas_on(self, broker_ids: Collection[int]) -> list[PartitionReplica]:
        return [
            replica for replica in self.replicas_of_partitions(self.partitions()) if replica.broker_id in broker_ids
        ]

    def online_and_offline_replicas(self) -> tuple[list[PartitionReplica], list[PartitionReplica]]:
        online: list[PartitionReplica] = []
        offline: list[PartitionReplica] = []
        for replica in self.replicas_of_partitions(self.partitions()):
            (online if self.is_online(replica.broker_id, replica.partition) else offline).append(replica)
        return online, offline

    # --- leaders ---

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch that goes into StopReplica."""
        if partition.topic in self.topics_to_delete:
            return EPOCH_DURING_DELETE
        leadership = self.leaderships.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Those that ever had one and are not to be deleted."""
        return sorted(partition for partition in self.leaderships if partition.topic not in self.topics_to_delete)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [
            partition
            for partition in self.partitions_with_leaders()
            if not self.is_online(self.leaderships[partition].leader, partition)
        ]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Only those that another broker could lead: with more than one replica."""
        return [
            partition
            for partition in self.partitions_with_leaders()
            if self.leaderships[partition].leader == broker_id and len(self.assignment(partition).replicas) > 1
        ]

    # --- states ---

    def partition_state(self, partition: TopicPartition) -> PartitionStatus:
        return self.partition_states.get(partition, PartitionStatus.NON_EXISTENT)

    def replica_state(self, replica: PartitionReplica) -> ReplicaStatus:
        return self.replica_states.get(replica, ReplicaStatus.NON_EXISTENT)

    def partitions_in(self, statuses: Collection[PartitionStatus]) -> list[TopicPartition]:
        return sorted(partition for partition, status in self.partition_states.items() if status in statuses)

    def replicas_in(self, name: str, status: ReplicaStatus) -> list[PartitionReplica]:
        return [replica for replica in self.replicas_of(name) if self.replica_state(replica) is status]

    def offline_partition_count(self) -> int:
        """Partitions without a leader, those of topics that are being deleted left out."""
        return sum(
            status is PartitionStatus.OFFLINE and partition.topic not in self.topics_with_deletion_started
            for partition, status in self.partition_states.items()
        )
