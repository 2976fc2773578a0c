"""One Fetch outside of any session, of partitions whose offsets the caller keeps. Nothing is decoded.

For reads that are not a consumer's: a range of offsets, a few records of a topic that holds state, a sample.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.aio.consumer.fetch_session import LAST_VERSION_WITH_NAMES
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import check_code
from tidelog.client.types import TopicPartition
from tidelog.wire.messages import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic, PartitionData


class FetchLimits(NamedTuple):
    """How much a fetch may bring, and how long the broker may wait for it."""

    partition_bytes_max: int
    wait_ms_max: int = 0
    bytes_min: int = 1
    read_committed: bool = False


async def fetch_once(
    client: NetworkClient, node_id: int, offsets: Mapping[TopicPartition, int], limits: FetchLimits
) -> dict[TopicPartition, PartitionData]:
    """What one broker has of partitions from `offsets` on. Errors of single partitions are in their data."""
    topics: dict[str, FetchTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, FetchTopic(topic=name, partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=limits.partition_bytes_max)
        )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=limits.wait_ms_max,
        min_bytes=limits.bytes_min,
        max_bytes=limits.partition_bytes_max * len(offsets),
        isolation_level=int(limits.read_committed),
        topics=list(topics.values()),
    )
    reply = await client.send(node_id, request, FetchResponse, at_most=LAST_VERSION_WITH_NAMES)
    check_code(reply.error_code, "Fetch")
    return {
        TopicPartition(topic.topic, data.partition_index): data
        for topic in reply.responses
        for data in topic.partitions
    }
