"""What the cluster has of a pipeline's topics: asked once, then plain data. No Spark."""

import re
from dataclasses import dataclass, field

from tidelog.client.cluster import ClusterClient
from tidelog.client.offsets import EARLIEST, LATEST, list_offsets
from tidelog.spark.pipeline.definition import Pipeline, topic_sinks
from tidelog.spark.pipeline.endpoints import Topic
from tidelog.spark.pipeline.own_topics import read_keys
from tidelog.spark.pipeline.routing import Ladder, ladder_of
from tidelog.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """The offsets a partition holds: from `first` to before `end`, as far as readers of committed records see."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The topics a pipeline reads (by name, those that match its pattern included), writes and owns."""

    source_topics: tuple[str, ...]
    there: dict[str, dict[int, PartitionSpan]] = field(default_factory=dict)
    parked_rows: int = 0
    """How many rows wait behind a failed row of their key, outside of the retry topics."""

    def has(self, topic: str) -> bool:
        """Whether the cluster has this topic."""
        return topic in self.there


def survey(pipeline: Pipeline, cluster: ClusterClient, *, with_offsets: bool = True) -> Survey:
    """Ask the cluster. Offsets are asked for where the pipeline reads."""
    ladder = ladder_of(pipeline)
    sources = _source_topics(pipeline, cluster)
    reads = [*sources, *(ladder.retry_topics if ladder else ())]
    found = {
        str(topic.name): sorted(each.partition_index for each in topic.partitions)
        for topic in cluster.metadata(_all_topics(pipeline, sources, ladder)).topics
        if topic.error_code == ErrorCode.NONE
    }
    there: dict[str, dict[int, PartitionSpan]] = {}
    for topic, partitions in found.items():
        asked = with_offsets and topic in reads
        there[topic] = _spans(cluster, topic, partitions) if asked else dict.fromkeys(partitions, PartitionSpan(0, 0))
    keys_topic = None if ladder is None else ladder.keys_topic
    parked_rows = 0
    if with_offsets and keys_topic is not None and keys_topic in there:
        keys, _ = read_keys(cluster, keys_topic, pipeline.name)
        parked_rows = sum(waiting.parked_rows for waiting in keys.values())
    return Survey(tuple(sources), there, parked_rows)


def _all_topics(pipeline: Pipeline, sources: list[str], ladder: Ladder | None) -> list[str]:
    outputs = [name for sink in topic_sinks(pipeline) for name in sink.names]
    tables = [name for table in pipeline.tables.values() if isinstance(table, Topic) for name in table.names]
    return sorted({*sources, *outputs, *tables, *(ladder.own_topics if ladder else ())})


def _source_topics(pipeline: Pipeline, cluster: ClusterClient) -> list[str]:
    source = pipeline.source
    if not isinstance(source, Topic):
        return []
    if source.pattern is None:
        return list(source.names)
    pattern = re.compile(source.pattern)
    topics = cluster.metadata().topics
    return sorted(str(topic.name) for topic in topics if not topic.is_internal and pattern.search(str(topic.name)))


def _spans(cluster: ClusterClient, topic: str, partitions: list[int]) -> dict[int, PartitionSpan]:
    first = list_offsets(cluster, topic, dict.fromkeys(partitions, EARLIEST))
    end = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST), read_committed=True)
    return {each: PartitionSpan(first[each].offset, end[each].offset) for each in partitions}
