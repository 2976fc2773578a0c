"""Broker settings: streams groups (KIP-1071)."""

from __future__ import annotations

from tidelog.config.declaration import INT_MAX, MINUTE_MS, SECOND_MS, Settings, setting


# fmt: off
class StreamsGroupSettings(Settings, area="Streams groups"):
    """Groups of Kafka Streams whose tasks the broker assigns."""

    group_streams_session_timeout_ms: int = setting(
        "group.streams.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Remove a member of a streams group that sends no heartbeat for this long.")
    group_streams_min_session_timeout_ms: int = setting(
        "group.streams.min.session.timeout.ms", 45 * SECOND_MS, at_least=1,
        doc="Shortest `streams.session.timeout.ms` that a group may have for itself.")
    group_streams_max_session_timeout_ms: int = setting(
        "group.streams.max.session.timeout.ms", MINUTE_MS, at_least=1,
        doc="Longest `streams.session.timeout.ms` that a group may have for itself.")
    group_streams_heartbeat_interval_ms: int = setting(
        "group.streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Heartbeat interval of members of streams groups.")
    group_streams_min_heartbeat_interval_ms: int = setting(
        "group.streams.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least=1,
        doc="Shortest `streams.heartbeat.interval.ms` that a group may have for itself.")
    group_streams_max_heartbeat_interval_ms: int = setting(
        "group.streams.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least=1,
        doc="Longest `streams.heartbeat.interval.ms` that a group may have for itself.")
    group_streams_max_size: int = setting(
        "group.streams.max.size", INT_MAX, at_least=1, doc="Most members in one streams group.")
    group_streams_num_standby_replicas: int = setting(
        "group.streams.num.standby.replicas", 0, at_least=0,
        doc="Standby tasks for each task with state: copies of its state with other processes.")
    group_streams_max_standby_replicas: int = setting(
        "group.streams.max.standby.replicas", 2, at_least=0,
        doc="Most `streams.num.standby.replicas` that a group may have for itself.")
    group_streams_initial_rebalance_delay_ms: int = setting(
        "group.streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least=0,
        doc="How long a streams group without members waits for more of them after the first.")
    group_streams_assignment_interval_ms: int = setting(
        "group.streams.assignment.interval.ms", SECOND_MS, at_least=0,
        doc="Shortest time between two assignments of a streams group.")
    group_streams_min_assignment_interval_ms: int = setting(
        "group.streams.min.assignment.interval.ms", 0, at_least=0,
        doc="Shortest `streams.assignment.interval.ms` that a group may have for itself.")
    group_streams_max_assignment_interval_ms: int = setting(
        "group.streams.max.assignment.interval.ms", 15 * SECOND_MS, at_least=0,
        doc="Longest `streams.assignment.interval.ms` that a group may have for itself.")
# fmt: on
