"""The broker's image of the cluster: live brokers, topics, partition leaders.

Handlers read the image and never the tree. One task owns it and applies changes of the tree one at a time; `version`
grows with each change, so that a response made from the image can be cached until the next one.
"""

from collections.abc import Iterable, Mapping, ValuesView
from typing import Final, NamedTuple

from tidelog.metadata.placement import Located
from tidelog.metadata.tree import NO_LEADER, BrokerRegistration, Endpoint, PartitionState, ReplicaAssignment
from tidelog.wire.primitives import NO_UUID

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
NO_CONTROLLER: Final = -1
NO_LEADER_EPOCH: Final = -1


class BrokerImage(NamedTuple):
    """A broker that is alive. Its epoch is the transaction that registered it; a restarted broker has another."""

    broker_id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    epoch: int = -1

    @classmethod
    def of(cls, registration: BrokerRegistration, epoch: int = -1) -> "BrokerImage":
        endpoints = {endpoint.listener: endpoint for endpoint in registration.endpoints}
        return cls(registration.broker_id, endpoints, registration.rack, epoch)

    @property
    def location(self) -> Located:
        """Its rack, and the host that it says it is on."""
        return Located(self.rack, next((each.host for each in self.endpoints.values()), ""))

    def endpoint(self, listener: str) -> Endpoint | None:
        """Its address on the listener that the client is connected to."""
        return self.endpoints.get(listener)


class PartitionImage:
    """One partition. `leader_id` is -1 while it has no leader. A change replaces the object.

    `offline_replicas` are those on brokers that are not alive or in a log directory that failed, the latter named in
    `failed_replicas`; the image works them out. `state_version` is the version of the partition's state node, which the
    next change of the node must expect, or -1 if there is none.
    """

    __slots__ = (
        "failed_replicas",
        "index",
        "isr",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "replicas",
        "state_version",
    )

    def __init__(
        self,
        index: int,
        leader_id: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        failed_replicas: tuple[int, ...] = (),
        state_version: int = -1,
    ) -> None:
        self.index = index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        # Most often the same numbers: one tuple will do for both.
        self.isr = replicas if isr == replicas else isr
        self.failed_replicas = failed_replicas
        self.offline_replicas = failed_replicas
        self.state_version = state_version

    @classmethod
    def of(
        cls, index: int, assignment: ReplicaAssignment, state: PartitionState | None, state_version: int = -1
    ) -> "PartitionImage":
        """From what the tree holds. A partition that never had a leader has no state."""
        if state is None:
            return cls(index, NO_LEADER, NO_LEADER_EPOCH, assignment.replicas, ())
        return cls(index, state.leader, state.leader_epoch, assignment.replicas, state.isr, state_version=state_version)

    def __repr__(self) -> str:
        return (
            f"<PartitionImage {self.index}: leader {self.leader_id} in epoch {self.leader_epoch}, "
            f"replicas {self.replicas}, isr {self.isr}, offline {self.offline_replicas}>"
        )


class TopicImage:
    """One topic. `partitions` is in order and without gaps: a partition's index is its place."""

    __slots__ = ("is_internal", "name", "partitions", "topic_id", "wire_name")

    def __init__(self, name: str, topic_id: bytes, partitions: Iterable[PartitionImage]) -> None:
        self.name = name
        self.wire_name = name.encode()
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.is_internal = name in INTERNAL_TOPICS
        for index, partition in enumerate(self.partitions):
            assert partition.index == index, f"topic {name} has partition {partition.index} where {index} belongs"

    def __repr__(self) -> str:
        return f"<TopicImage {self.name!r} with {len(self.partitions)} partitions>"

    def partition(self, index: int) -> PartitionImage | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class ClusterImage:
    """Everything the broker knows about the cluster. Look-ups cost one or two dictionary accesses."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = 0
        self.version = 0
        self._brokers: dict[int, BrokerImage] = {}
        self._topics: dict[str, TopicImage] = {}
        self._topics_by_id: dict[bytes, TopicImage] = {}
        self._overrides: dict[str, Mapping[str, str]] = {}
        # Only names with a dot or an underscore can collide; they are kept under the name that metrics would give them.
        self._collisions: dict[str, list[str]] = {}

    def brokers(self) -> list[BrokerImage]:
        """The brokers that are alive, by id."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def broker_ids(self) -> list[int]:
        return sorted(self._brokers)

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self._brokers.get(broker_id)

    def topics(self) -> ValuesView[TopicImage]:
        return self._topics.values()

    def topic_count(self) -> int:
        return len(self._topics)

    def topic(self, name: str) -> TopicImage | None:
        return self._topics.get(name)

    def replica_ids(self) -> set[int]:
        """Every broker that has a replica of some partition, alive or not."""
        assignments = {partition.replicas for topic in self._topics.values() for partition in topic.partitions}
        return {replica for replicas in assignments for replica in replicas}

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        found = self._topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        return self._topics_by_id.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes:
        """The id of a topic; `NO_UUID` if there is no such topic, or it is from before there were ids."""
        topic = self._topics.get(name)
        return NO_UUID if topic is None else topic.topic_id

    def partition(self, topic_name: str, index: int) -> PartitionImage | None:
        topic = self._topics.get(topic_name)
        return None if topic is None else topic.partition(index)

    def colliding_topics(self, name: str) -> list[str]:
        """Other topics whose metric names equal that of `name`, because metrics replace `.` by `_`."""
        return [other for other in self._collisions.get(name.replace(".", "_"), ()) if other != name]

    def overrides(self, topic_name: str) -> Mapping[str, str]:
        """The settings that a topic has for itself."""
        return self._overrides.get(topic_name, {})

    def set_overrides(self, topic_name: str, overrides: Mapping[str, str]) -> None:
        self._overrides[topic_name] = overrides

    def set_controller(self, broker_id: int, epoch: int) -> None:
        self.controller_id = broker_id
        self.controller_epoch = epoch
        self.version += 1

    def set_broker(self, broker: BrokerImage) -> None:
        """A broker registered, or changed its registration."""
        is_new = broker.broker_id not in self._brokers
        self._brokers[broker.broker_id] = broker
        if is_new:
            self._refresh_offline_replicas(broker.broker_id)
        self.version += 1

    def remove_broker(self, broker_id: int) -> None:
        """A broker is gone. Its partitions keep their leader until the controller names another."""
        if self._brokers.pop(broker_id, None) is not None:
            self._refresh_offline_replicas(broker_id)
            self.version += 1

    def set_topic(self, topic: TopicImage) -> None:
        """A topic was created, or got more partitions, or is known under a new id."""
        before = self._topics.get(topic.name)
        if before is not None:
            self._topics_by_id.pop(before.topic_id, None)
        elif "." in topic.name or "_" in topic.name:
            self._collisions.setdefault(topic.name.replace(".", "_"), []).append(topic.name)
        for partition in topic.partitions:
            self._find_offline_replicas(partition)
        self._topics[topic.name] = topic
        if topic.topic_id != NO_UUID:  # a topic from before there were ids
            self._topics_by_id[topic.topic_id] = topic
        self.version += 1

    def set_partition(self, topic_name: str, partition: PartitionImage) -> None:
        """A partition of a known topic changed: its leader, its ISR or its replicas."""
        self._find_offline_replicas(partition)
        self._topics[topic_name].partitions[partition.index] = partition
        self.version += 1

    def remove_topic(self, name: str) -> TopicImage | None:
        self._overrides.pop(name, None)
        topic = self._topics.pop(name, None)
        if topic is None:
            return None
        self._topics_by_id.pop(topic.topic_id, None)
        alike = self._collisions.get(name.replace(".", "_"), [])
        if name in alike:
            alike.remove(name)
            if not alike:
                del self._collisions[name.replace(".", "_")]
        self.version += 1
        return topic

    def _find_offline_replicas(self, partition: PartitionImage) -> None:
        alive, failed = self._brokers, partition.failed_replicas
        partition.offline_replicas = tuple(
            replica for replica in partition.replicas if replica not in alive or replica in failed
        )

    def _refresh_offline_replicas(self, broker_id: int) -> None:
        for topic in self._topics.values():
            for partition in topic.partitions:
                if broker_id in partition.replicas:
                    self._find_offline_replicas(partition)
