"""Broker settings: consumer groups and their offsets, producers and transactions."""

from __future__ import annotations

from tidelog.config import _checks as checks
from tidelog.config.declaration import DAY_MS, HOUR_MS, INT_MAX, MIB, MINUTE_MS, SECOND_MS, Settings, setting
from tidelog.config.kinds import LONG, SHORT


# fmt: off
class GroupSettings(Settings, area="Groups and offsets"):
    """The group coordinator."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", 6000, doc="Shortest session timeout a member may ask for.")
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms", 30 * MINUTE_MS, doc="Longest session timeout a member may ask for.")
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms", 3000, default_alone=0,
        doc="Wait for more members before the first rebalance of a new group. "
            "A broker alone does not wait.")
    group_max_size: int = setting(
        "group.max.size", INT_MAX, at_least=1, doc="Most members in one group.")
    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Remove a member of the newer group protocol (KIP-848) that sends no heartbeat for this long.")
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Heartbeat interval of members of the newer group protocol (KIP-848).")
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Shortest `consumer.session.timeout.ms` that a group may have for itself.")
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", MINUTE_MS, at_least=1,
        doc="Longest `consumer.session.timeout.ms` that a group may have for itself.")
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Shortest `consumer.heartbeat.interval.ms` that a group may have for itself.")
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least=1,
        doc="Longest `consumer.heartbeat.interval.ms` that a group may have for itself.")
    group_consumer_max_size: int = setting(
        "group.consumer.max.size", INT_MAX, at_least=1,
        doc="Most members in one group of the newer protocol (KIP-848).")
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy", "disabled", validator=checks.MIGRATION_POLICY,
        doc="Whether a group with members may change its protocol: `upgrade` lets a classic group become one of the "
            "newer protocol (KIP-848) when such a consumer joins, `downgrade` lets it become a classic group again "
            "when the last one leaves, `bidirectional` allows both, `disabled` neither.")
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
        one_of=("classic", "consumer", "streams"), validator=checks.REBALANCE_PROTOCOLS,
        doc="Group protocols to serve; without `consumer`, requests of the newer one (KIP-848) are rejected, without "
            "`streams` those of streams groups (KIP-1071). `classic` is required. Kafka 3.9 serves only `classic` by "
            "default.")
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", 4096, importance="high", doc="Longest metadata text of a committed offset.")
    offsets_load_buffer_size: int = setting(
        "offsets.load.buffer.size", 5 * MIB, importance="high", at_least=1,
        doc="Bytes read at once when offsets are loaded; a larger batch is still read whole.")
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor", 3, type=SHORT, importance="high", at_least=1,
        doc="Replicas of `__consumer_offsets`. A standalone broker (embedded metadata) creates one.")
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", 50, importance="high", at_least=1,
        doc="Partitions of `__consumer_offsets`; do not change it once the topic exists.")
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", 100 * MIB, importance="high", at_least=1,
        doc="Segment size of `__consumer_offsets`; small segments load and compact faster.")
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec", 0, importance="high",
        doc="Codec of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes", 7 * 24 * 60, importance="high", at_least=1,
        doc="Delete the offsets of a group without members after this long.")
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", 10 * MINUTE_MS, type=LONG, importance="high", at_least=1,
        doc="How often the coordinator looks for expired offsets.")
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", 5000, importance="high", at_least=1,
        doc="An offset commit fails when its replicas take longer than this.")
    offsets_commit_required_acks: int = setting(
        "offsets.commit.required.acks", -1, type=SHORT, importance="high",
        ignored="commits wait for all in-sync replicas",
        doc="Acknowledgements an offset commit waits for; -1 is all in-sync replicas.")


class TransactionSettings(Settings, area="Producers and transactions"):
    """The transaction coordinator, and the producer state of partitions."""

    transaction_state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor", 3, type=SHORT, importance="high", at_least=1,
        doc="Replicas of `__transaction_state`. A standalone broker (embedded metadata) creates one.")
    transaction_state_log_min_isr: int = setting(
        "transaction.state.log.min.isr", 2, importance="high", at_least=1,
        doc="`min.insync.replicas` of `__transaction_state`; at most its number of replicas.")
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions", 50, importance="high", at_least=1,
        doc="Partitions of `__transaction_state`; do not change it once the topic exists.")
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes", 100 * MIB, importance="high", at_least=1,
        doc="Segment size of `__transaction_state`.")
    transaction_state_log_load_buffer_size: int = setting(
        "transaction.state.log.load.buffer.size", 5 * MIB, importance="high", at_least=1,
        doc="Bytes read at once when transactions are loaded; a larger batch is still read whole.")
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms", 15 * MINUTE_MS, importance="high", at_least=1,
        doc="Longest transaction timeout a producer may ask for.")
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", 7 * DAY_MS, importance="high", at_least=1,
        doc="Delete a transactional id that has not been used for this long.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, importance="low", at_least=1,
        doc="How often the coordinator looks for transactions past their timeout.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, importance="low", at_least=1,
        doc="How often the coordinator looks for unused transactional ids.")
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable", True, importance="low", dynamic="cluster-wide",
        doc="Ask the coordinator, before a transactional write, whether the partition belongs to the transaction.")
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.ms", 20, importance="low", at_least=1,
        doc="How often the coordinator is asked to add a partition while it ends the producer's transaction before.")
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms", 100, importance="low", at_least=0,
        doc="How long it is asked so before the producer has to retry.")
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", DAY_MS, importance="low", at_least=1, dynamic="cluster-wide",
        doc="A partition forgets an idle producer's sequence numbers after this long.")
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, importance="low", at_least=1,
        doc="How often partitions look for idle producers.")
# fmt: on
