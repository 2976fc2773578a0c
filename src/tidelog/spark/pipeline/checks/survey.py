"""The state of a pipeline's topics in the cluster: queried once, then plain data. No Spark."""

import re
from dataclasses import dataclass, field

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.cluster import Cluster
from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.definition.endpoints import Source, Topic, table_source
from tidelog.spark.pipeline.definition.pipeline import Pipeline, topic_sinks
from tidelog.spark.pipeline.failing.own_topics import read_keys
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """The offsets of a partition from `first` to before `end`, as read_committed consumers see them."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The topics a pipeline reads (by name, those that match its pattern and its streams included), writes and owns."""

    source_topics: tuple[str, ...]
    there: dict[str, dict[int, PartitionSpan]] = field(default_factory=dict)
    parked_rows: int = 0
    """How many rows wait behind a failed row of their key, outside of the retry topics."""

    def has(self, topic: str) -> bool:
        """Whether the cluster has this topic."""
        return topic in self.there


def survey(pipeline: Pipeline, cluster: Cluster, *, with_offsets: bool = True) -> Survey:
    """Query the cluster. Offsets are queried for topics that the pipeline reads."""
    ladder = ladder_of(pipeline)
    sources = _source_topics(pipeline, cluster)
    reads = [*sources, *(ladder.retry_topics if ladder else ())]
    there: dict[str, dict[int, PartitionSpan]] = {}
    for name, topic in cluster.look_at_topics(_all_topics(pipeline, sources, ladder)).topics.items():
        partitions = range(len(topic.partitions))
        asked = with_offsets and name in reads
        there[name] = _spans(cluster, name, partitions) if asked else dict.fromkeys(partitions, PartitionSpan(0, 0))
    keys_topic = None if ladder is None else ladder.keys_topic
    parked_rows = 0
    if with_offsets and keys_topic is not None and keys_topic in there:
        keys, _ = read_keys(cluster, keys_topic, pipeline.name)
        parked_rows = sum(waiting.parked_rows for waiting in keys.values())
    return Survey(tuple(sources), there, parked_rows)


def _all_topics(pipeline: Pipeline, sources: list[str], ladder: Ladder | None) -> list[str]:
    outputs = [name for sink in topic_sinks(pipeline) for name in sink.names]
    sources_of_tables = map(table_source, pipeline.tables.values())
    tables = [name for table in sources_of_tables if isinstance(table, Topic) for name in table.names]
    return sorted({*sources, *outputs, *tables, *(ladder.own_topics if ladder else ())})


def _source_topics(pipeline: Pipeline, cluster: Cluster) -> list[str]:
    found = [_topics_of(source, cluster) for source in (pipeline.source, *pipeline.streams.values())]
    return list(dict.fromkeys(name for names in found for name in names))


def _topics_of(source: Source, cluster: Cluster) -> list[str]:
    if not isinstance(source, Topic):
        return []
    if source.pattern is None:
        return list(source.names)
    pattern = re.compile(source.pattern)
    topics = cluster.look_at_topics().topics
    return sorted(name for name, topic in topics.items() if not topic.is_internal and pattern.search(name))


def _spans(cluster: Cluster, topic: str, partitions: range) -> dict[int, PartitionSpan]:
    wanted = [TopicPartition(topic, each) for each in partitions]
    first = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
    end = cluster.list_offsets(dict.fromkeys(wanted, LATEST), read_committed=True)
    return {where.partition: PartitionSpan(first[where].offset, end[where].offset) for where in wanted}
