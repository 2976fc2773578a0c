"""Broker settings: share groups (KIP-932), and the coordinator that stores their state."""

from __future__ import annotations

from tidelog.config.declaration import MIB, SECOND_MS, Settings, setting
from tidelog.config.kinds import SHORT


# fmt: off
class ShareGroupSettings(Settings, area="Share groups"):
    """Share groups and the coordinator of their state."""

    group_share_session_timeout_ms: int = setting(
        "group.share.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Remove a member of a share group that sends no heartbeat for this long.")
    group_share_heartbeat_interval_ms: int = setting(
        "group.share.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Heartbeat interval of members of share groups.")
    group_share_max_size: int = setting(
        "group.share.max.size", 200, at_least=1, at_most=1000, doc="Most members in one share group.")
    group_share_delivery_count_limit: int = setting(
        "group.share.delivery.count.limit", 5, at_least=2, at_most=10,
        doc="A record that was delivered this often and not accepted is archived.")
    group_share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms", 30 * SECOND_MS, at_least=1000, at_most=3_600_000,
        doc="How long a member of a share group holds a record before it is delivered to another.")
    group_share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks", 2000, at_least=100, at_most=10_000,
        doc="Most records of one partition that a share group has in flight.")
    group_share_min_session_timeout_ms: int = setting(
        "group.share.min.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Least `share.session.timeout.ms` that a group may have for itself.")
    group_share_max_session_timeout_ms: int = setting(
        "group.share.max.session.timeout.ms", 60 * SECOND_MS, at_least=1,
        doc="Greatest `share.session.timeout.ms` that a group may have for itself.")
    group_share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Least `share.heartbeat.interval.ms` that a group may have for itself.")
    group_share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least=1,
        doc="Greatest `share.heartbeat.interval.ms` that a group may have for itself.")
    group_share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms", 15 * SECOND_MS, at_least=1000, at_most=30_000,
        doc="Least `share.record.lock.duration.ms` that a group may have for itself.")
    group_share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms", 60 * SECOND_MS, at_least=30_000, at_most=3_600_000,
        doc="Greatest `share.record.lock.duration.ms` that a group may have for itself.")
    group_share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit", 2, at_least=2, at_most=5,
        doc="Least `share.delivery.count.limit` that a group may have for itself.")
    group_share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit", 10, at_least=5, at_most=25,
        doc="Greatest `share.delivery.count.limit` that a group may have for itself.")
    group_share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks", 100, at_least=100, at_most=2000,
        doc="Least `share.partition.max.record.locks` that a group may have for itself.")
    group_share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks", 10_000, at_least=2000, at_most=20_000,
        doc="Greatest `share.partition.max.record.locks` that a group may have for itself.")
    group_share_max_share_sessions: int = setting(
        "group.share.max.share.sessions", 2000, at_least=1, doc="Most share sessions on a broker.")
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        "errors.deadletterqueue.auto.create.topics.enable", False, dynamic="cluster-wide",
        doc="Create the topic for dead letters of a share group when the first is written (KIP-1191).")
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "errors.deadletterqueue.topic.name.prefix", "dlq.", dynamic="cluster-wide",
        doc="What names of topics for dead letters of share groups must begin with; may be empty.")
    share_coordinator_state_topic_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions", 50, importance="high", at_least=1,
        doc="Partitions of `__share_group_state`; do not change it once the topic exists.")
    share_coordinator_state_topic_replication_factor: int = setting(
        "share.coordinator.state.topic.replication.factor", 3, type=SHORT, importance="high", at_least=1,
        doc="Replicas of `__share_group_state`. A standalone broker (embedded metadata) creates one.")
    share_coordinator_state_topic_min_isr: int = setting(
        "share.coordinator.state.topic.min.isr", 2, type=SHORT, importance="high", at_least=1,
        doc="`min.insync.replicas` of `__share_group_state`; at most its number of replicas.")
    share_coordinator_state_topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes", 100 * MIB, importance="high", at_least=1,
        doc="Segment size of `__share_group_state`.")
    share_coordinator_state_topic_compression_codec: int = setting(
        "share.coordinator.state.topic.compression.codec", 0, importance="high", at_least=0, at_most=4,
        doc="Codec of `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot", 500, at_least=0, at_most=500,
        doc="Updates of a share partition's state between two snapshots of it.")
    share_coordinator_write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms", 5 * SECOND_MS, importance="high", at_least=1,
        doc="A write of state fails when its replicas take longer than this.")
    share_coordinator_load_buffer_size: int = setting(
        "share.coordinator.load.buffer.size", 5 * MIB, importance="high", at_least=1,
        doc="Bytes read at once when state is loaded; a larger batch is still read whole.")
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms", 300 * SECOND_MS, importance="low", at_least=1,
        doc="How often all state is written as snapshots, so that the log before them can be deleted.")
# fmt: on
