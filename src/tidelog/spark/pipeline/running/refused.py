"""Records that brokers would refuse, found before they are sent: too large, without a topic, without a needed key.

One of them would fail its whole batch, again and again. With a policy it is a failed row. Sizes are Kafka's upper
bounds of what a record takes alone in a batch. A compressed batch is smaller than that, and by how much is not known
before: `max.message.bytes` of a topic is then not looked at. Limits of topics are those of when the query starts, where
its user may read them.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.client.cluster import Cluster
from tidelog.client.retry.topics import RECORD_BYTES
from tidelog.metadata.topic_names import TOPIC_NAME_LENGTH_MAX
from tidelog.records.header import HEADER_BYTES
from tidelog.spark.options import Options
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.steps import RECORD
from tidelog.spark.pipeline.failing.guarded import mark_failed
from tidelog.spark.pipeline.running.columns import route_of
from tidelog.wire.errors import ApiError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LOG: Final = logging.getLogger("tidelog.pipeline")

_RECORD_OVERHEAD_BYTES: Final = 21
_HEADER_OVERHEAD_BYTES: Final = 10
"""Kafka's `DefaultRecord.MAX_RECORD_OVERHEAD`, and two lengths of five bytes for a header."""
_TOPICS_MAX: Final = 2_000
"""With more topics, a limit of each would make every query of Spark's large."""
_CLEANUP: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What a producer and its topics take."""

    request_bytes: int
    batch_bytes: Mapping[str, int] = field(default_factory=dict)
    """Of the topics whose limit is known; empty if batches are compressed."""
    compacted: frozenset[str] = frozenset()


def read_limits(
    cluster: Cluster, sinks: Sequence[Topic], options: Mapping[str, str], request_bytes: int
) -> RecordLimits:
    """The limits of the topics that rows can go to: those that are named, or any."""
    names = {name for sink in sinks for name in sink.names}
    if any(not sink.names for sink in sinks):
        there = [name for name, topic in cluster.look_at_topics().topics.items() if not topic.is_internal]
        names |= set(there if len(there) <= _TOPICS_MAX else ())
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(names)]
    try:
        found = cluster.describe_configs(resources, names=[RECORD_BYTES, _CLEANUP]) if resources else {}
    except ApiError as error:
        LOG.info("the limits of the sink's topics cannot be read: %s", error)
        return RecordLimits(request_bytes)
    values = {each.name: {name: config.value for name, config in found[each].items()} for each in resources}
    is_compressed = Options(options).kafka_settings({}).get("compression.type", "none") != "none"
    sizes = {name: int(size) for name, each in values.items() if (size := each.get(RECORD_BYTES)) is not None}
    compacted = frozenset(name for name, each in values.items() if "compact" in (each.get(_CLEANUP) or ""))
    return RecordLimits(request_bytes, {} if is_compressed else sizes, compacted)


def mark_refused(rows: "DataFrame", sinks: Sequence[Topic], limits: RecordLimits) -> "DataFrame":
    """`rows`, those having failed that would make a record which brokers refuse. They need their source record."""
    if RECORD not in rows.columns:
        return rows
    reasons = []
    for sink in sinks:
        reason = _reason(rows, sink, limits)
        reasons.append(reason if sink.where is None else F.when(F.expr(sink.where), reason))
    reason = F.when(F.col(RECORD).isNotNull(), F.coalesce(*reasons))
    return mark_failed(rows, reason.isNotNull(), reason, retry=False)


def _reason(rows: "DataFrame", sink: Topic, limits: RecordLimits) -> "Column":
    """Why a record of this sink would be refused; null if it would not."""
    route = route_of(rows, sink)
    topic, key = route["topic"], route["key"]
    size = _size(rows, route["key"], route["value"])
    what = F.concat(F.lit("a record of "), size.cast("string"), F.lit(" bytes for topic "), topic)
    found = [
        F.when(size > limits.request_bytes, F.concat(what, F.lit(f" exceeds max.request.size={limits.request_bytes}"))),
    ]
    if limits.batch_bytes:
        sizes = _map(limits.batch_bytes)[topic]
        found.append(F.when(size > sizes, F.concat(what, F.lit(f" exceeds its {RECORD_BYTES}="), sizes.cast("string"))))
    if limits.compacted:
        needs_key = topic.isin(*sorted(limits.compacted)) & key.isNull()
        found.append(F.when(needs_key, F.concat(topic, F.lit(" is a compacted topic, whose records need a key"))))
    if not sink.names:
        is_name = topic.rlike(f"^[a-zA-Z0-9._-]{{1,{TOPIC_NAME_LENGTH_MAX}}}$") & ~topic.isin(".", "..")
        found.insert(0, F.when(~is_name, F.concat(F.lit("to_topic is no name of a topic: "), topic)))
        found.insert(0, F.when(topic.isNull(), F.lit("to_topic is null")))
    if "headers" in rows.columns:
        nameless = F.exists("headers", lambda header: header.isNull() | header["key"].isNull())
        found.append(F.when(nameless, F.lit("a header has no name")))
    if "to_partition" in rows.columns:
        found.append(F.when(F.col("to_partition") < 0, F.lit("to_partition is negative")))
    return F.coalesce(*found)


def _size(rows: "DataFrame", key: "Column", value: "Column") -> "Column":
    size = F.lit(HEADER_BYTES + _RECORD_OVERHEAD_BYTES) + _length(key) + _length(value)
    if "headers" not in rows.columns:
        return size
    lengths = F.aggregate(
        F.coalesce(F.col("headers"), F.array().cast(rows.schema["headers"].dataType)),
        F.lit(0),
        lambda total, header: total + _length(header["key"]) + _length(header["value"]) + _HEADER_OVERHEAD_BYTES,
    )
    return size + lengths


def _length(column: "Column") -> "Column":
    return F.coalesce(F.octet_length(column), F.lit(0))


def _map(sizes: Mapping[str, int]) -> "Column":
    return F.create_map(*[F.lit(each) for pair in sorted(sizes.items()) for each in pair])
