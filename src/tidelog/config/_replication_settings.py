"""Broker settings: replication and leadership, quotas, metrics."""

from __future__ import annotations

from tidelog.config.declaration import MIB, Settings, setting
from tidelog.config.kinds import CLASS, INT, LONG


# fmt: off
class ReplicationSettings(Settings, area="Replication"):
    """Followers, in-sync replicas and the election of leaders."""

    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, importance="high", at_least=1, dynamic="cluster-wide",
        doc="With acks=all, refuse a write unless this many replicas are in sync.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, importance="high", dynamic="cluster-wide",
        doc="Let a replica that is out of sync become leader when none in sync is left; acknowledged data may be lost.")
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms", 30_000, type=LONG, importance="high",
        doc="A follower that has not caught up for this long leaves the in-sync replicas.")
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms", 30_000, importance="high",
        doc="Timeout of a follower's fetch requests.")
    replica_socket_receive_buffer_bytes: int = setting(
        "replica.socket.receive.buffer.bytes", 64 * 1024, importance="high",
        ignored="followers' connections have the buffers of the system",
        doc="SO_RCVBUF of followers' connections.")
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes", MIB, at_least=0, doc="Bytes a follower asks for per partition.")
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms", 500, importance="high",
        doc="Longest wait of a follower's fetch; at most `replica.lag.time.max.ms`.")
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms", 1000, at_least=0,
        doc="Longest wait before a follower retries a partition whose fetch failed; it grows to that from 20 ms.")
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes", 1, importance="high", doc="Bytes a follower's fetch waits for.")
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes", 10 * MIB, at_least=0, doc="Bytes a follower asks for per request.")
    num_replica_fetchers: int = setting(
        "num.replica.fetchers", 1, importance="high", dynamic="cluster-wide",
        doc="Fetchers per leading broker that a follower runs.")
    num_replica_alter_log_dirs_threads: int | None = setting(
        "num.replica.alter.log.dirs.threads", None, type=INT, importance="high",
        doc="Moves between data directories that run at the same time; as many as there are directories when not set.")
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms", 5000, type=LONG, importance="high",
        doc="How often high watermarks are written.")
    replica_selector_class: str | None = setting(
        "replica.selector.class", None,
        doc="How a consumer's preferred replica is chosen; Kafka's class names `LeaderSelector` and "
            "`RackAwareReplicaSelector` are supported.")
    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable", True, importance="high",
        doc="Give leadership back to preferred replicas periodically.")
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage", 10, importance="high",
        doc="Percentage of a broker's preferred partitions led by other brokers that triggers rebalancing.")
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds", 300, type=LONG, importance="high", at_least=1,
        doc="How often the controller looks for imbalance.")


class QuotaSettings(Settings, area="Quotas"):
    """The windows over which quotas are measured, and whose worth an idle client may spend at once."""

    quota_window_num: int = setting(
        "quota.window.num", 11, importance="low", at_least=1,
        doc="A client that was idle may spend the worth of this many windows, less one, at once.")
    quota_window_size_seconds: int = setting(
        "quota.window.size.seconds", 1, importance="low", at_least=1,
        doc="Length of a window for client quotas.")
    replication_quota_window_num: int = setting(
        "replication.quota.window.num", 11, importance="low", at_least=1,
        doc="Windows over which replication quotas are measured.")
    replication_quota_window_size_seconds: int = setting(
        "replication.quota.window.size.seconds", 1, importance="low", at_least=1,
        doc="Length of a window for replication quotas.")
    alter_log_dirs_replication_quota_window_num: int = setting(
        "alter.log.dirs.replication.quota.window.num", 11, importance="low", at_least=1,
        doc="Windows over which the quota on moves between data directories is measured.")
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        "alter.log.dirs.replication.quota.window.size.seconds", 1, importance="low", at_least=1,
        doc="Length of a window for the quota on moves between data directories.")
    controller_quota_window_num: int = setting(
        "controller.quota.window.num", 11, importance="low", at_least=1,
        doc="A client that was idle may spend the worth of this many windows of topic and partition changes at once.")
    controller_quota_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds", 1, importance="low", at_least=1,
        doc="Length of a window for the quota on topic and partition changes.")
    client_quota_callback_class: str | None = setting(
        "client.quota.callback.class", None, type=CLASS, importance="low",
        refused="quotas are those in the metadata tree; a class that decides them is not supported",
        doc="A class that decides quotas.")


class MetricSettings(Settings, area="Metrics"):
    """The pages of metrics. Kafka's settings of its own reporters have no effect."""

    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes", MIB, importance="low", at_least=1,
        doc="Most bytes of metrics, as they are sent, that a client may push at once (KIP-714).")
    metrics_listeners: str = setting(
        "metrics.listeners", "",
        doc="Addresses at which Prometheus reads metrics, comma-separated, each `http://host:port`; port 0 is any free "
            "port. Empty: none are counted. Anybody who can connect can read them. Not in Kafka.")


class RequestLogSettings(Settings, area="Metrics"):
    """What is logged about requests."""

    tidelog_slow_request_ms: int = setting(
        "tidelog.slow.request.ms", -1, at_least=-1,
        doc="Log requests that keep the broker busy for longer, with where the time went; waiting for records, "
            "followers or members does not count. -1: none. Not in Kafka.")


class MetricReporterSettings(
    Settings, area="Metrics", ignored="metrics are served to Prometheus: set metrics.listeners"
):
    """How measurements are sampled."""

    metric_reporters: tuple[str, ...] = setting(
        "metric.reporters", (), importance="low", dynamic="cluster-wide", doc="Classes that receive metrics.")
    metrics_num_samples: int = setting(
        "metrics.num.samples", 2, importance="low", at_least=1, doc="Samples a metric is computed over.")
    metrics_sample_window_ms: int = setting(
        "metrics.sample.window.ms", 30_000, type=LONG, importance="low", at_least=1, doc="Length of a sample.")
    metrics_recording_level: str = setting(
        "metrics.recording.level", "INFO", importance="low", doc="Finest level of metrics that is recorded.")
# fmt: on
