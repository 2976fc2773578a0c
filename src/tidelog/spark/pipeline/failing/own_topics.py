"""The topics of a failure policy: created before the first batch if they do not exist. No Spark.

They have unlimited retention unless the policy sets one: a row that waits while the pipeline is stopped must not be
deleted. They allow larger records than the source, because a failed record has more headers.
"""

from tidelog.client.aio.admin.types import EARLIEST, LATEST, ConfigResource, NewTopic, ResourceType
from tidelog.client.cluster import Cluster
from tidelog.client.errors import DeadlinePassed
from tidelog.client.retry.topics import (
    KEPT_FOR_EVER,
    LAST_OF_EACH_KEY,
    RECORD_BYTES,
    RECORD_BYTES_DEFAULT,
    TRAIL_BYTES_MAX,
)
from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.failing.ordering import Waiting, load_keys
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.wire.errors import ApiError, ErrorCode


def room_for_failed(cluster: Cluster, sources: tuple[str, ...]) -> int:
    """How large a record of `sources` can be that has failed, in bytes."""
    topics = [ConfigResource(ResourceType.TOPIC, name) for name in sources]
    found = cluster.describe_configs(topics, names=[RECORD_BYTES]).values()
    sizes = [int(config.value) for settings in found for config in settings.values() if config.value is not None]
    return max(sizes, default=RECORD_BYTES_DEFAULT) + TRAIL_BYTES_MAX


def wanted_topics(ladder: Ladder, partitions: int, record_bytes: int) -> dict[str, NewTopic]:
    """The topics of a ladder by name, as they are to be made beside a source of so many partitions."""
    kept = {**KEPT_FOR_EVER, RECORD_BYTES: str(record_bytes)}
    wanted = {name: NewTopic(name, partitions, configs=kept) for name in ladder.own_topics}
    if ladder.retention_ms is not None:
        passing = {**kept, "retention.ms": str(ladder.retention_ms)}
        wanted |= {name: NewTopic(name, partitions, configs=passing) for name in ladder.retry_topics}
    if ladder.keys_topic is not None:
        wanted[ladder.keys_topic] = NewTopic(ladder.keys_topic, 1, configs=LAST_OF_EACH_KEY)
    return wanted


def make_missing(cluster: Cluster, ladder: Ladder, partitions: int, record_bytes: int) -> list[str]:
    """Create missing topics; returns their names."""
    wanted = wanted_topics(ladder, partitions, record_bytes)
    there = cluster.look_at_topics(wanted).topics
    made: list[str] = []
    for name, topic in wanted.items():
        if name in there:
            continue
        try:
            cluster.create_topics([topic])
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        made.append(name)
    return made


def read_keys(cluster: Cluster, topic: str, pipeline: str) -> tuple[dict[bytes, Waiting], list[str]]:
    """The blocked keys of `pipeline` after its last committed batch, and warnings about records that were skipped."""
    partitions = [TopicPartition(topic, each) for each in range(cluster.partition_count(topic, is_expected=True))]
    ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
    starts = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
    reading = cluster.read(
        {where: place.offset for where, place in starts.items()},
        {where: place.offset for where, place in ends.items()},
        read_committed=True,
    )
    warnings: list[str] = []
    try:
        keys = load_keys(pipeline, ((_bytes(each.key), _bytes(each.value)) for each in reading), warnings.append)
    except DeadlinePassed as error:
        raise PipelineError(f"the blocked keys in topic {topic!r} could not be read: {error}") from error
    return keys, warnings


def _bytes(data: bytes | None) -> bytes | None:
    return None if data is None else bytes(data)
