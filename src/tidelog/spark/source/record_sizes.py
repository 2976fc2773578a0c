"""Samples the bytes per offset, for `maxBytesPerTrigger`.

One small fetch from where the micro-batch will begin, for all partitions of a topic on one leader at once; those whose
first batch is larger than that, which brokers send whole only if nothing comes before it, are asked alone. What comes
is divided by the offsets it covers, so bytes are counted as they are stored and sent, compressed if they are, and gaps
that compaction left cost nothing. It needs no permission beyond that to read. Partitions that say nothing are limited
as much as the others are.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.cluster import Cluster, FetchLimits
from tidelog.client.errors import ClientError
from tidelog.client.types import TopicPartition
from tidelog.records.errors import CorruptRecordError
from tidelog.spark.source.batch_walk import walk_batches
from tidelog.spark.source.data_loss import LOG
from tidelog.spark.source.offsets import OFFSET_MAX

_SAMPLE: Final = FetchLimits(64 * 1024)


def sample_bytes_per_offset(cluster: Cluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """Bytes for each offset, of the partitions that could be asked."""
    sizes: dict[TopicPartition, float] = {}
    try:
        for topic in sorted({where.topic for where in starts}):
            wanted = {where: offset for where, offset in starts.items() if where.topic == topic}
            sizes |= _sample(cluster, wanted)
            for where, offset in wanted.items():
                if where not in sizes:
                    sizes |= _sample(cluster, {where: offset})
    except (ClientError, CorruptRecordError) as error:
        LOG.warning("record sizes could not be sampled for maxBytesPerTrigger: %s", error)
    return sizes


def _sample(cluster: Cluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    try:
        fetched = cluster.fetch(starts, _SAMPLE)
    except PartlyRefused as refused:
        fetched = refused.results
    sizes: dict[TopicPartition, float] = {}
    for where, data in fetched.items():
        if data.records:
            size = _bytes_per_offset(memoryview(data.records), starts[where])
            if size is not None:
                sizes[where] = size
    return sizes


def _bytes_per_offset(records: memoryview, start: int) -> float | None:
    walk = walk_batches(records, start, OFFSET_MAX, check_crcs=False)
    if walk.next_offset <= start:
        return None
    # The first batch comes whole, also when the query stands in the middle of it.
    first = min(start, int.from_bytes(records[:8], "big"))
    return walk.size_bytes / (walk.next_offset - first)
