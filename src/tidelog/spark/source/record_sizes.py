"""How many bytes an offset takes, found by looking: for `maxBytesPerTrigger`.

One small fetch from where the micro-batch will begin, for all partitions of a topic on one leader at once; those whose
first batch is larger than that, which brokers send whole only if nothing comes before it, are asked alone. What comes
is divided by the offsets it covers, so bytes are counted as they are stored and sent, compressed if they are, and gaps
that compaction left cost nothing. It needs no permission beyond that to read. Partitions that say nothing are limited
as much as the others are.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.errors import ClientError
from tidelog.client.reader import FETCH_BY_NAME
from tidelog.client.types import TopicPartition
from tidelog.records.errors import CorruptRecordError
from tidelog.spark.source.batch_walk import walk_batches
from tidelog.spark.source.data_loss import LOG
from tidelog.spark.source.offsets import OFFSET_MAX
from tidelog.wire.errors import ApiError
from tidelog.wire.messages import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic

SAMPLE_BYTES: Final = 64 * 1024


def sample_bytes_per_offset(
    cluster: ClusterClient, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Bytes for each offset, of the partitions that could be asked."""
    sizes: dict[TopicPartition, float] = {}
    try:
        for topic in sorted({each.topic for each in starts}):
            wanted = {each.partition: offset for each, offset in starts.items() if each.topic == topic}
            for node, partitions in cluster.by_leader(topic, wanted).items():
                sizes.update(_sample(cluster, node, topic, {each: wanted[each] for each in partitions}))
                for each in partitions:
                    if TopicPartition(topic, each) not in sizes:
                        sizes.update(_sample(cluster, node, topic, {each: wanted[each]}))
    except (ClientError, ApiError, CorruptRecordError) as error:
        LOG.warning("record sizes could not be sampled for maxBytesPerTrigger: %s", error)
        cluster.forget()
    return sizes


def _sample(cluster: ClusterClient, node: Node, topic: str, starts: Mapping[int, int]) -> dict[TopicPartition, float]:
    return _sizes(cluster.on_node(node, _request(topic, starts), FetchResponse, at_most=FETCH_BY_NAME), starts)


def _request(topic: str, starts: Mapping[int, int]) -> FetchRequest:
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=SAMPLE_BYTES)
        for partition, offset in starts.items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=SAMPLE_BYTES * len(partitions),
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )


def _sizes(answer: FetchResponse, starts: Mapping[int, int]) -> dict[TopicPartition, float]:
    sizes: dict[TopicPartition, float] = {}
    for topic in answer.responses:
        for told in topic.partitions:
            if told.error_code or not told.records:
                continue
            records, start = memoryview(told.records), starts[told.partition_index]
            walk = walk_batches(records, start, OFFSET_MAX, check_crcs=False)
            if walk.next_offset > start:
                # The first batch comes whole, also when the query stands in the middle of it.
                first = min(start, int.from_bytes(records[:8], "big"))
                where = TopicPartition(topic.topic, told.partition_index)
                sizes[where] = walk.size_bytes / (walk.next_offset - first)
    return sizes
