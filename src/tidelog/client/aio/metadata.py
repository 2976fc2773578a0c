"""The metadata cache of a client: brokers, topics, leaders and their epochs, and when to refresh.

Pure: replies and the time come in as arguments. `NetworkClient` feeds it and asks it when to refresh; producers and
consumers read it. A `version` that rises with each change lets them notice changes without comparing anything.

A reply may be older than what is known, because brokers hear of changes at different moments. Leader epochs decide: an
older epoch of the same topic (same topic id) never replaces a newer one (KIP-320).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tidelog.wire.partitions import NO_EPOCH
from tidelog.wire.primitives import NO_UUID

NO_NODE: Final = -1


class PartitionMetadata(NamedTuple):
    """One partition, as the brokers last described it."""

    topic: str
    partition: int
    leader_id: int = NO_NODE
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """One topic. With an error it has no partitions. `partitions` are in order and without gaps."""

    name: str
    topic_id: bytes = NO_UUID
    is_internal: bool = False
    error_code: int = 0
    partitions: tuple[PartitionMetadata, ...] = ()


class MetadataCache:
    """The last known state of the cluster."""

    def __init__(self, *, max_age_ms: int) -> None:
        self.version = 0
        """Rises with every update, full or partial."""
        self.nodes: Mapping[int, BrokerNode] = {}
        self.controller_id = NO_NODE
        self.cluster_id: str | None = None
        self.topics: dict[str, TopicMetadata] = {}
        self._names: dict[bytes, str] = {}
        self._max_age_ms = max_age_ms
        self._updated_ms: int | None = None
        self._is_stale = True

    # Reading.

    def topic(self, name: str) -> TopicMetadata | None:
        """What is known of a topic; None if it was never asked for, or is gone."""
        return self.topics.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic id."""
        return self._names.get(topic_id)

    def topic_names(self, *, with_internal: bool) -> Iterator[str]:
        """The topics that exist, for a pattern to be matched with."""
        return (
            topic.name
            for topic in self.topics.values()
            if not topic.error_code and (with_internal or not topic.is_internal)
        )

    def topic_id(self, name: str) -> bytes:
        """The id of a topic; zeroes if it is unknown."""
        found = self.topics.get(name)
        return NO_UUID if found is None else found.topic_id

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """What is known of one partition."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 while that is not known."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def leader(self, topic: str, partition: int) -> BrokerNode | None:
        """The broker to ask for a partition; None while there is none, or its address is not known."""
        found = self.partition(topic, partition)
        return None if found is None else self.nodes.get(found.leader_id)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of the leader; -1 while it is not known."""
        found = self.partition(topic, partition)
        return NO_EPOCH if found is None else found.leader_epoch

    @property
    def controller(self) -> BrokerNode | None:
        """The broker that takes administrative requests."""
        return self.nodes.get(self.controller_id)

    # Freshness.

    def request_update(self) -> int:
        """Mark what is known as stale; returns the version that any update will exceed."""
        self._is_stale = True
        return self.version

    def refresh_in_ms(self, now_ms: int) -> int:
        """Milliseconds until an update is due; 0 when it is due now."""
        if self._is_stale or self._updated_ms is None:
            return 0
        return max(0, self._updated_ms + self._max_age_ms - now_ms)

    # Changing.

    def update(self, reply: MetadataResponse, now_ms: int, *, wanted: Iterable[str] | None) -> None:
        """Take over a reply to a question for `wanted` topics (None: all of them).

        Topics that were not asked for any more are forgotten; those asked for and not found keep the error.
        """
        self.nodes = {each.node_id: BrokerNode(each.node_id, each.host, each.port, each.rack) for each in reply.brokers}
        self.controller_id = reply.controller_id
        self.cluster_id = reply.cluster_id
        kept = None if wanted is None else set(wanted)
        topics = {name: topic for name, topic in self.topics.items() if kept is not None and name in kept}
        for each in reply.topics:
            if each.name is not None:
                topics[each.name] = _newer(self.topics.get(each.name), each, each.name)
        self.topics = topics
        self._names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id != NO_UUID}
        self._updated_ms = now_ms
        self._is_stale = any(_is_transient(topic) for topic in topics.values())
        self.version += 1

    def update_leader(
        self, where: TopicPartition, leader_id: int, leader_epoch: int, nodes: Iterable[BrokerNode] = ()
    ) -> bool:
        """Take over the leader that a Produce or Fetch reply named (KIP-951). False if that is no news."""
        topic = self.topics.get(where.topic)
        known = self.partition(where.topic, where.partition)
        if topic is None or known is None or leader_epoch <= known.leader_epoch or leader_id < 0:
            return False
        self.nodes = {**self.nodes, **{node.node_id: node for node in nodes}}
        if leader_id not in self.nodes:
            return False
        partitions = list(topic.partitions)
        partitions[where.partition] = known._replace(leader_id=leader_id, leader_epoch=leader_epoch, error_code=0)
        self.topics[where.topic] = topic._replace(partitions=tuple(partitions))
        self.version += 1
        return True

    def forget_topic(self, name: str) -> None:
        """Drop a topic that is no longer needed."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            self._names.pop(gone.topic_id, None)


# Errors of a topic or partition that a later answer may not have.
_TRANSIENT: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


FINAL_TOPIC_ERRORS: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Errors of a topic that end the wait for its metadata, as in Kafka's clients. After all others it is asked for again:
a topic cannot be created while too few brokers are up, for example."""


def _is_transient(topic: TopicMetadata) -> bool:
    if topic.error_code in _TRANSIENT:
        return True
    return any(partition.leader_id == NO_NODE or partition.error_code in _TRANSIENT for partition in topic.partitions)


def topic_from(response: MetadataResponseTopic) -> TopicMetadata:
    """A topic as a broker described it."""
    return _newer(None, response, response.name or "")


def _newer(known: TopicMetadata | None, response: MetadataResponseTopic, name: str) -> TopicMetadata:
    """The topic of the response, except partitions with a newer known leader epoch."""
    if response.error_code != ErrorCode.NONE:
        return TopicMetadata(name, response.topic_id, response.is_internal, response.error_code)
    same_topic = known is not None and known.topic_id == response.topic_id
    before = known.partitions if known is not None and same_topic else ()
    partitions = []
    for index, each in enumerate(sorted(response.partitions, key=lambda part: part.partition_index)):
        if index < len(before) and NO_EPOCH < each.leader_epoch < before[index].leader_epoch:
            partitions.append(before[index])
        else:
            partitions.append(_partition(name, each))
    return TopicMetadata(name, response.topic_id, response.is_internal, 0, tuple(partitions))


def _partition(topic: str, partition: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        topic,
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.error_code,
    )
