"""Settings that a group or a subscription to clients' metrics has for itself, as topics have theirs.

A group's own setting takes the place of the broker's, within the broker's bounds, also when those are changed later.
A subscription has no other source of settings than itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.config import _checks as checks
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.declaration import HOUR_MS, MINUTE_MS, SECOND_MS, Settings, parse_settings, setting
from tidelog.config.errors import ConfigError, UnknownSettingError
from tidelog.config.names import with_suggestion
from tidelog.config.topics import broker_value


# fmt: off
class GroupConfig(Settings, scope="group"):
    """Settings of one group."""

    consumer_session_timeout_ms: int = setting(
        "consumer.session.timeout.ms", 45 * SECOND_MS, at_least=1, synonyms=("group.consumer.session.timeout.ms",),
        doc="Remove a member that sends no heartbeat for this long; for groups of the newer protocol (KIP-848).")
    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1, synonyms=("group.consumer.heartbeat.interval.ms",),
        doc="Heartbeat interval of members; for groups of the newer protocol (KIP-848).")
    share_session_timeout_ms: int = setting(
        "share.session.timeout.ms", 45 * SECOND_MS, at_least=1, synonyms=("group.share.session.timeout.ms",),
        doc="Remove a member of a share group that sends no heartbeat for this long.")
    share_heartbeat_interval_ms: int = setting(
        "share.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1, synonyms=("group.share.heartbeat.interval.ms",),
        doc="Heartbeat interval of members of a share group.")
    share_record_lock_duration_ms: int = setting(
        "share.record.lock.duration.ms", 30 * SECOND_MS, at_least=1000,
        synonyms=("group.share.record.lock.duration.ms",),
        doc="How long a member of a share group holds a record before it is delivered to another.")
    share_delivery_count_limit: int = setting(
        "share.delivery.count.limit", 5, at_least=2, synonyms=("group.share.delivery.count.limit",),
        doc="A record that was delivered this often and not accepted is archived.")
    share_partition_max_record_locks: int = setting(
        "share.partition.max.record.locks", 2000, at_least=100, synonyms=("group.share.partition.max.record.locks",),
        doc="Most records of one partition that a share group has in flight.")
    share_auto_offset_reset: str = setting(
        "share.auto.offset.reset", "latest", validator=checks.SHARE_RESET,
        doc="Where a share group begins in a partition that it has not read: `latest`, `earliest`, or so long ago.")
    share_isolation_level: str = setting(
        "share.isolation.level", "read_uncommitted", one_of=("read_uncommitted", "read_committed"),
        doc="Whether a share group gets records of transactions that are open or aborted.")
    share_renew_acknowledge_enable: bool = setting(
        "share.renew.acknowledge.enable", True,
        doc="Let members of a share group renew the locks of records (KIP-1222).")
    share_retry_delays: tuple[str, ...] = setting(
        "share.retry.delays", (), validator=checks.RETRY_DELAYS,
        doc="How long a record of a share group waits after its first, second, … delivery, when it was released or its "
            "lock has ended; the last one holds for all later deliveries. Not in Kafka.")
    streams_session_timeout_ms: int = setting(
        "streams.session.timeout.ms", 45 * SECOND_MS, at_least=1, synonyms=("group.streams.session.timeout.ms",),
        doc="Remove a member that sends no heartbeat for this long; for streams groups (KIP-1071).")
    streams_heartbeat_interval_ms: int = setting(
        "streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1, synonyms=("group.streams.heartbeat.interval.ms",),
        doc="Heartbeat interval of members; for streams groups (KIP-1071).")
    streams_num_standby_replicas: int = setting(
        "streams.num.standby.replicas", 0, at_least=0, synonyms=("group.streams.num.standby.replicas",),
        doc="Standby tasks for each task with state; for streams groups (KIP-1071).")
    streams_initial_rebalance_delay_ms: int = setting(
        "streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least=0,
        synonyms=("group.streams.initial.rebalance.delay.ms",),
        doc="How long the group without members waits for more of them after the first; for streams groups.")
    streams_assignment_interval_ms: int = setting(
        "streams.assignment.interval.ms", SECOND_MS, at_least=0, synonyms=("group.streams.assignment.interval.ms",),
        doc="Shortest time between two assignments; for streams groups (KIP-1071).")
    errors_deadletterqueue_topic_name: str = setting(
        "errors.deadletterqueue.topic.name", "",
        doc="The topic that gets what a share group has rejected, or was delivered too often (KIP-1191); empty: none.")
    errors_deadletterqueue_copy_record_enable: bool = setting(
        "errors.deadletterqueue.copy.record.enable", False,
        doc="Copy key and value of a dead letter's record; without it, the headers say where the record is.")

    @property
    def retry_delays_ms(self) -> tuple[int, ...]:
        """`share.retry.delays`."""
        return tuple(checks.delay_ms(each) for each in self.share_retry_delays)

    @property
    def reads_committed(self) -> bool:
        """`share.isolation.level`."""
        return self.share_isolation_level == "read_committed"

    @property
    def reset_age_ms(self) -> int | None:
        """How long before now a share group begins; None if `share_auto_offset_reset` is a word."""
        return checks.reset_age_ms(self.share_auto_offset_reset)


class ClientMetricsConfig(Settings, scope="subscription"):
    """One subscription to the metrics of clients (KIP-714)."""

    metrics: tuple[str, ...] = setting(
        "metrics", (),
        doc="Prefixes of the names of metrics that clients send; `*` is all of them, and none without any.")
    interval_ms: int = setting(
        "interval.ms", 5 * MINUTE_MS, at_least=100, at_most=HOUR_MS,
        doc="How often a client sends its metrics.")
    match: tuple[str, ...] = setting(
        "match", (), validator=checks.CLIENT_MATCH,
        doc="Which clients: `name=pattern` pairs that must all match, for `client_instance_id`, `client_id`, "
            "`client_software_name`, `client_software_version`, `client_source_address` and `client_source_port`. "
            "Without any, all clients.")
# fmt: on


_BOUNDS: Final[Mapping[str, tuple[str | None, str]]] = {
    "consumer.session.timeout.ms": ("group_consumer_min_session_timeout_ms", "group_consumer_max_session_timeout_ms"),
    "consumer.heartbeat.interval.ms": (
        "group_consumer_min_heartbeat_interval_ms",
        "group_consumer_max_heartbeat_interval_ms",
    ),
    "share.session.timeout.ms": ("group_share_min_session_timeout_ms", "group_share_max_session_timeout_ms"),
    "share.heartbeat.interval.ms": ("group_share_min_heartbeat_interval_ms", "group_share_max_heartbeat_interval_ms"),
    "share.record.lock.duration.ms": (
        "group_share_min_record_lock_duration_ms",
        "group_share_max_record_lock_duration_ms",
    ),
    "share.delivery.count.limit": ("group_share_min_delivery_count_limit", "group_share_max_delivery_count_limit"),
    "share.partition.max.record.locks": (
        "group_share_min_partition_max_record_locks",
        "group_share_max_partition_max_record_locks",
    ),
    "streams.session.timeout.ms": ("group_streams_min_session_timeout_ms", "group_streams_max_session_timeout_ms"),
    "streams.heartbeat.interval.ms": (
        "group_streams_min_heartbeat_interval_ms",
        "group_streams_max_heartbeat_interval_ms",
    ),
    "streams.assignment.interval.ms": (
        "group_streams_min_assignment_interval_ms",
        "group_streams_max_assignment_interval_ms",
    ),
    "streams.num.standby.replicas": (None, "group_streams_max_standby_replicas"),
}
"""The broker's settings that bound a group's, by field: the least, which may be none, and the most."""


def group_values(overrides: Mapping[str, str | None], broker: BrokerConfig) -> dict[str, Any]:
    """The typed value of every setting of a group, by field. Raises ConfigError."""
    values = {each.field: broker_value(each, broker) for each in GroupConfig.settings.values()}
    return values | parse_settings(GroupConfig, overrides)


def checked_group(overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
    """A group's settings once its overrides are these. Raises ConfigError."""
    _refuse_unknown(GroupConfig, overrides, "Unknown group config name")
    config = GroupConfig(**group_values(overrides, broker))
    for name in overrides:
        value = getattr(config, GroupConfig.settings[name].field)
        for bound, is_least in zip(_BOUNDS.get(name, ()), (True, False), strict=False):
            if bound is None:
                continue
            limit = getattr(broker, bound)
            if value < limit if is_least else value > limit:
                relation = "greater" if is_least else "less"
                text = f"{name} must be {relation} than or equal to {bound.replace('_', '.')} ({limit})"
                raise ConfigError(text, setting=name)
    for kind in ("consumer", "share", "streams"):
        if getattr(config, f"{kind}_session_timeout_ms") <= getattr(config, f"{kind}_heartbeat_interval_ms"):
            text = f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
            raise ConfigError(text, setting=f"{kind}.session.timeout.ms")
    return config


def effective_group(overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
    """A group's settings as they hold: its overrides within the bounds that the broker has now.

    An override that this version does not know, or that it cannot read, counts as not there.
    """
    known: dict[str, Any] = {}
    for name, text in overrides.items():
        declared = GroupConfig.settings.get(name)
        if declared is None:
            continue
        try:
            value = declared.parse(text)
        except ConfigError:
            continue
        bounds = _BOUNDS.get(name)
        if bounds is not None:
            least, most = bounds
            value = min(value, getattr(broker, most))
            value = value if least is None else max(value, getattr(broker, least))
        known[declared.field] = value
    return GroupConfig(**(group_values({}, broker) | known))


def checked_client_metrics(overrides: Mapping[str, str]) -> ClientMetricsConfig:
    """A subscription once its settings are these. Raises ConfigError."""
    _refuse_unknown(ClientMetricsConfig, overrides, "Unknown client metrics configuration")
    return ClientMetricsConfig(**parse_settings(ClientMetricsConfig, overrides))


def _refuse_unknown(settings: type[Settings], overrides: Mapping[str, str], text: str) -> None:
    for name in overrides:
        if name not in settings.settings:
            raise UnknownSettingError(f"{text}: {with_suggestion(name, settings.settings)}", setting=name)
