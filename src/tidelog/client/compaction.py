"""Compaction on request, which only Tidelog's brokers know. `tidelog topic compact` is the caller."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.errors import ConnectionLost, UnsupportedByBroker
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.own_messages import CompactTopic, CompactTopicsRequest, CompactTopicsResponse, OwnApiKey


class Compaction(NamedTuple):
    """One replica of a partition: the state of its last compaction that was asked for."""

    partition: int
    broker: int
    state: str
    message: str
    bytes_before: int
    bytes_after: int
    bytes_done: int
    bytes_total: int

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state not in ("waiting", "cleaning")

    @property
    def share_done(self) -> float:
        """How far it is, from 0 to 1."""
        if self.is_over:
            return 1.0
        return min(self.bytes_done / self.bytes_total, 1.0) if self.bytes_total else 0.0


def compact_topic(
    cluster: ClusterClient, topic: str, partitions: Iterable[int], *, only_status: bool = False
) -> list[Compaction]:
    """Have every replica of the partitions compacted, or only ask how far that is. Refusals are raised as ApiError."""
    wanted = set(partitions)
    (found,) = cluster.metadata([topic]).topics
    raise_if_refused(f"topic {topic!r}", found.error_code)
    by_broker: dict[int, list[int]] = {}
    for partition in sorted(found.partitions, key=lambda each: each.partition_index):
        if partition.partition_index in wanted:
            for broker in partition.replica_nodes:
                by_broker.setdefault(broker, []).append(partition.partition_index)
    nodes = {node.node_id: node for node in cluster.nodes()}
    return [
        state
        for broker, indexes in by_broker.items()
        if broker in nodes
        for state in _ask(cluster, nodes[broker], topic, indexes, only_status)
    ]


def _ask(cluster: ClusterClient, node: Node, topic: str, partitions: list[int], only_status: bool) -> list[Compaction]:
    request = CompactTopicsRequest(topics=[CompactTopic(name=topic, partitions=partitions)], only_status=only_status)
    connection = cluster.connection_to(node)
    connection.served.setdefault(OwnApiKey.COMPACT_TOPICS, (0, 0))
    try:
        (answer,) = connection.send(request, CompactTopicsResponse).topics
    except ConnectionLost as error:
        raise UnsupportedByBroker(
            f"the broker at {connection.address} does not compact on request: it closed the connection, "
            "as brokers other than Tidelog do"
        ) from error
    for each in answer.partitions:
        raise_if_refused(f"{topic}-{each.partition_index}", each.error_code, each.error_message)
    return [
        Compaction(
            each.partition_index,
            node.node_id,
            each.state,
            each.error_message or "",
            each.bytes_before,
            each.bytes_after,
            each.bytes_done,
            each.bytes_total,
        )
        for each in answer.partitions
    ]
