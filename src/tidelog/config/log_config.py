"""The settings of one topic's logs: every topic-level setting of Kafka 3.9.

`topic_config` makes one from a topic's overrides and the broker's settings. The storage room receives no other
configuration.
"""

from __future__ import annotations

from tidelog.config import _checks as checks
from tidelog.config.declaration import (
    DAY_MS,
    GIB,
    HOUR_MS,
    LONG_MAX,
    MIB,
    MINUTE_MS,
    Settings,
    Synonym,
    setting,
)
from tidelog.config.kinds import LIST, LONG


class LogConfig(Settings, scope="topic"):
    """Settings of one partition's log. A topic may override each of them."""

    # fmt: off
    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy", ("delete",), one_of=("compact", "delete"), synonyms=("log.cleanup.policy",),
        doc="What happens to old data: `delete` drops segments past retention, `compact` keeps the last record of "
            "each key; both may be named.")
    compression_type: str = setting(
        "compression.type", "producer", one_of=checks.COMPRESSION_TYPES, synonyms=("compression.type",),
        doc="Codec that batches are stored with; `producer` keeps the codec each batch arrived with.")
    compression_gzip_level: int = setting(
        "compression.gzip.level", -1, validator=checks.GZIP_LEVEL, synonyms=("compression.gzip.level",),
        doc="gzip level when the broker compresses; -1 is the codec's own default.")
    compression_lz4_level: int = setting(
        "compression.lz4.level", 9, at_least=1, at_most=17, synonyms=("compression.lz4.level",),
        doc="lz4 level when the broker compresses.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, synonyms=("compression.zstd.level",),
        doc="zstd level when the broker compresses.")
    delete_retention_ms: int = setting(
        "delete.retention.ms", DAY_MS, type=LONG, at_least=0, synonyms=("log.cleaner.delete.retention.ms",),
        doc="How long compaction keeps a tombstone, so that a reader from offset 0 still sees every deletion.")
    errors_deadletterqueue_group_enable: bool = setting(
        "errors.deadletterqueue.group.enable", False,
        doc="Let share groups write dead letters to the topic (KIP-1191).")
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms", MINUTE_MS, type=LONG, at_least=0, synonyms=("log.segment.delete.delay.ms",),
        doc="Time between renaming a file to `.deleted` and removing it.")
    flush_messages: int = setting(
        "flush.messages", LONG_MAX, type=LONG, at_least=1, synonyms=("log.flush.interval.messages",),
        doc="Call fsync after this many records.")
    flush_ms: int = setting(
        "flush.ms", LONG_MAX, type=LONG, at_least=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="Call fsync when the oldest unflushed record is this old.")
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas", (), type=LIST, validator=checks.THROTTLED_REPLICAS,
        doc="Replicas whose fetching is throttled, as `partition:broker` pairs, or `*` for all.")
    index_interval_bytes: int = setting(
        "index.interval.bytes", 4096, at_least=0, synonyms=("log.index.interval.bytes",),
        doc="Bytes of records between two entries of the offset and time index.")
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas", (), type=LIST, validator=checks.THROTTLED_REPLICAS,
        doc="Replicas to which the leader's sending is throttled, as `partition:broker` pairs, or `*` for all.")
    local_retention_bytes: int = setting(
        "local.retention.bytes", -2, type=LONG, at_least=-2, synonyms=("log.local.retention.bytes",),
        ignored="tiered storage is not supported", doc="Bytes that stay on the broker's disk.")
    local_retention_ms: int = setting(
        "local.retention.ms", -2, type=LONG, at_least=-2, synonyms=("log.local.retention.ms",),
        ignored="tiered storage is not supported", doc="Time for which data stays on the broker's disk.")
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms", LONG_MAX, type=LONG, at_least=1, synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="A record is compacted at the latest this long after it was written.")
    max_message_bytes: int = setting(
        "max.message.bytes", MIB + 12, at_least=0, synonyms=("message.max.bytes",),
        doc="Largest record batch that is accepted, after compression.")
    message_downconversion_enable: bool = setting(
        "message.downconversion.enable", True, importance="low", synonyms=("log.message.downconversion.enable",),
        doc="Convert batches to old formats for consumers that need it; otherwise such fetches are refused.")
    message_format_version: str = setting(
        "message.format.version", "3.0-IV1", validator=checks.METADATA_VERSION,
        synonyms=("log.message.format.version",),
        ignored="the stored format is always the current one", doc="Version of the stored format.")
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms", LONG_MAX, type=LONG, at_least=0,
        synonyms=("log.message.timestamp.after.max.ms",),
        doc="Refuse records whose timestamp lies further ahead of the broker's clock (CreateTime only).")
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms", LONG_MAX, type=LONG, at_least=0,
        synonyms=("log.message.timestamp.before.max.ms",),
        doc="Refuse records whose timestamp lies further behind the broker's clock (CreateTime only).")
    message_timestamp_difference_max_ms: int = setting(
        "message.timestamp.difference.max.ms", LONG_MAX, type=LONG, at_least=0,
        synonyms=("log.message.timestamp.difference.max.ms",),
        doc="Deprecated: sets both `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`.")
    message_timestamp_type: str = setting(
        "message.timestamp.type", "CreateTime", one_of=("CreateTime", "LogAppendTime"),
        synonyms=("log.message.timestamp.type",),
        doc="Timestamp of a record: the producer's (CreateTime) or the broker's (LogAppendTime).")
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio", 0.5, at_least=0, at_most=1, synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="Share of a log that must be uncompacted before the cleaner cleans it.")
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms", 0, type=LONG, at_least=0, synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="A record stays uncompacted at least this long.")
    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, at_least=1, synonyms=("min.insync.replicas",),
        doc="With acks=all, refuse a write unless this many replicas are in sync.")
    preallocate: bool = setting(
        "preallocate", False, synonyms=("log.preallocate",),
        doc="Reserve the disk space of a new segment when it is created.")
    remote_log_copy_disable: bool = setting(
        "remote.log.copy.disable", False,
        ignored="tiered storage is not supported", doc="Copy no more segments.")
    remote_log_delete_on_disable: bool = setting(
        "remote.log.delete.on.disable", False,
        ignored="tiered storage is not supported", doc="Delete what was copied.")
    remote_storage_enable: bool = setting(
        "remote.storage.enable", False,
        refused="tiered storage is not supported", doc="Move old segments to another store.")
    retention_bytes: int = setting(
        "retention.bytes", -1, type=LONG, synonyms=("log.retention.bytes",),
        doc="Delete the oldest segments while a partition is larger than this; -1 keeps all.")
    retention_ms: int = setting(
        "retention.ms", 7 * DAY_MS, type=LONG, at_least=-1,
        synonyms=(
            "log.retention.ms", Synonym("log.retention.minutes", MINUTE_MS), Synonym("log.retention.hours", HOUR_MS)),
        doc="Delete segments whose newest record is older than this; -1 keeps all.")
    segment_bytes: int = setting(
        "segment.bytes", GIB, at_least=14, synonyms=("log.segment.bytes",),
        doc="Start a new segment at this size.")
    segment_index_bytes: int = setting(
        "segment.index.bytes", 10 * MIB, at_least=4, synonyms=("log.index.size.max.bytes",),
        doc="Size an index file is preallocated to; a full index starts a new segment.")
    segment_jitter_ms: int = setting(
        "segment.jitter.ms", 0, type=LONG, at_least=0,
        synonyms=("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", HOUR_MS)),
        doc="Start a new segment earlier by a random time up to this, so that segments do not all start together.")
    segment_ms: int = setting(
        "segment.ms", 7 * DAY_MS, type=LONG, at_least=1,
        synonyms=("log.roll.ms", Synonym("log.roll.hours", HOUR_MS)),
        doc="Start a new segment when the current one is this old.")
    tidelog_delay_enable: bool = setting(
        "tidelog.delay.enable", False,
        doc="Let records with the header `tidelog-delay` or `tidelog-deliver-at` wait until their time. Not in Kafka.")
    tidelog_delay_max_ms: int = setting(
        "tidelog.delay.max.ms", 366 * DAY_MS, type=LONG, at_least=1,
        doc="Refuse records that are to wait longer (`tidelog.delay.enable`). Not in Kafka.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, synonyms=("unclean.leader.election.enable",),
        doc="Let a replica that is out of sync become leader when none in sync is left; acknowledged data may be lost.")
    # fmt: on

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether segments past retention are deleted."""
        return "delete" in self.cleanup_policy


def needed_in_sync(min_insync_replicas: int, replicas: int) -> int:
    """How many in-sync replicas acks=all needs: `min.insync.replicas`, at most the number of replicas."""
    return min(min_insync_replicas, replicas)
