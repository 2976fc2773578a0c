"""Which partitions to fetch from which broker now. Pure; `Fetcher` carries it out."""

from collections.abc import Container
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.partition_state import PartitionState
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.metadata import NO_NODE, MetadataCache
from tidelog.client.fetch_session import FetchEntry
from tidelog.client.types import TopicPartition
from tidelog.wire.partitions import NO_EPOCH

_NO_OFFSET: Final = -1  # a consumer has no log that begins anywhere


class FetchPlan(NamedTuple):
    """The partitions to fetch from each broker, and whether some leader is not known."""

    by_node: dict[int, dict[TopicPartition, FetchEntry]]
    needs_metadata: bool


def plan_fetches(
    subscription: SubscriptionState,
    buffer: FetchBuffer,
    metadata: MetadataCache,
    under_way: Container[tuple[int, TopicPartition, int]],
    now_ms: int,
    partition_bytes_max: int,
) -> FetchPlan:
    """All partitions that may be read, by broker, without what is `under_way`: (broker, partition, offset).

    A broker is asked for all its partitions or for none: it waits as long as one of them holds enough. If that one were
    left out and the others had nothing new, the request would wait at the broker for fetch.max.wait.ms while what is
    here runs out.
    """
    by_node: dict[int, dict[TopicPartition, FetchEntry]] = {}
    held: set[int] = set()
    needs_metadata = False
    for partition, state in subscription.partitions.items():
        if not state.is_fetchable or state.retry_at_ms > now_ms:
            continue
        node_id = _replica_to_read(state, metadata, now_ms)
        if node_id == NO_NODE:
            needs_metadata = True
        elif node_id not in held:
            offset = buffer.next_offset(state)
            if offset is None:
                held.add(node_id)
            elif (node_id, partition, offset) not in under_way:
                topic_id = metadata.topic_id(partition.topic)
                target = FetchEntry(topic_id, offset, _NO_OFFSET, partition_bytes_max, state.leader.epoch, NO_EPOCH)
                by_node.setdefault(node_id, {})[partition] = target
    return FetchPlan({node_id: by_node[node_id] for node_id in by_node if node_id not in held}, needs_metadata)


def _replica_to_read(state: PartitionState, metadata: MetadataCache, now_ms: int) -> int:
    node_id = state.replica_to_read(now_ms)
    if node_id in metadata.nodes:
        return node_id
    # The replica nearby is gone; its leader may be there.
    if state.forget_preferred_replica() and state.leader.node_id in metadata.nodes:
        return state.leader.node_id
    return NO_NODE
