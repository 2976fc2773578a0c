"""Metadata for tests, as a reply would make it."""

from collections.abc import Mapping, Sequence

from tidelog.client.aio.metadata import MetadataCache
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def topic_id(name: str) -> bytes:
    """An id made of its topic's name."""
    return name.encode().ljust(16, b"\1")


def metadata_with(
    topics: Mapping[str, Sequence[tuple[int, int]]],
    *,
    brokers: Mapping[int, str | None] | None = None,
    with_ids: bool = True,
    into: MetadataCache | None = None,
) -> MetadataCache:
    """Topics with (leader, epoch) of each partition, on brokers with racks."""
    cache = into or MetadataCache(max_age_ms=1000)
    known = {1: None, 2: None, 3: None} if brokers is None else brokers
    reply = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="h", port=each, rack=rack) for each, rack in known.items()],
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id(name) if with_ids else bytes(16),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader]
                    )
                    for index, (leader, epoch) in enumerate(partitions)
                ],
            )
            for name, partitions in topics.items()
        ],
    )
    cache.update(reply, 0, wanted=None)
    return cache
