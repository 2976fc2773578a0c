"""Broker settings checked against each other. Each check is a small function that raises ConfigError or returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.config.broker_config import listener_of, listener_setting
from tidelog.config.declaration import MIB
from tidelog.config.errors import ConfigError

if TYPE_CHECKING:
    from tidelog.config._listeners import Listener
    from tidelog.config.broker_config import BrokerConfig


def check_broker_config(config: BrokerConfig) -> None:
    """Raise ConfigError for the first contradiction."""
    for check in _CHECKS:
        check(config)


def _group_bounds(config: BrokerConfig) -> None:
    for kind, noun in (
        ("consumer", "session_timeout"),
        ("consumer", "heartbeat_interval"),
        ("streams", "session_timeout"),
        ("streams", "heartbeat_interval"),
        ("streams", "assignment_interval"),
    ):
        least = getattr(config, f"group_{kind}_min_{noun}_ms")
        most = getattr(config, f"group_{kind}_max_{noun}_ms")
        name = noun.replace("_", ".")
        _refuse_unless(
            most >= least,
            f"group.{kind}.max.{name}.ms ({most}) must be greater than or equal to group.{kind}.min.{name}.ms "
            f"({least})",
        )


def _streams_groups(config: BrokerConfig) -> None:
    for noun in ("session_timeout", "heartbeat_interval", "assignment_interval"):
        value = getattr(config, f"group_streams_{noun}_ms")
        least = getattr(config, f"group_streams_min_{noun}_ms")
        most = getattr(config, f"group_streams_max_{noun}_ms")
        name = noun.replace("_", ".")
        _refuse_unless(
            least <= value <= most,
            f"group.streams.{name}.ms ({value}) must be from group.streams.min.{name}.ms ({least}) to "
            f"group.streams.max.{name}.ms ({most})",
        )
    heartbeat_ms, session_ms = config.group_streams_heartbeat_interval_ms, config.group_streams_session_timeout_ms
    _refuse_unless(
        heartbeat_ms < session_ms,
        f"group.streams.heartbeat.interval.ms ({heartbeat_ms}) must be less than group.streams.session.timeout.ms "
        f"({session_ms})",
    )
    standby, most = config.group_streams_num_standby_replicas, config.group_streams_max_standby_replicas
    _refuse_unless(
        standby <= most,
        f"group.streams.num.standby.replicas ({standby}) must be less than or equal to "
        f"group.streams.max.standby.replicas ({most})",
    )


def _refuse_unless(condition: bool, text: str) -> None:
    if not condition:
        raise ConfigError(text)


def _broker_id(config: BrokerConfig) -> None:
    if config.process_roles:
        return
    broker_id, largest = config.broker_id, config.reserved_broker_max_id
    if config.broker_id_generation_enable:
        _refuse_unless(
            -1 <= broker_id <= largest,
            f"broker.id={broker_id} must be -1 or from 0 to reserved.broker.max.id={largest}, "
            "because larger ids are generated (broker.id.generation.enable=true)",
        )
    else:
        _refuse_unless(
            broker_id >= 0, f"broker.id={broker_id} must be at least 0 when broker.id.generation.enable=false"
        )


def _quorum(config: BrokerConfig) -> None:
    """What a member of a KRaft cluster needs, and what it cannot have."""
    if not config.process_roles:
        return
    given = config.originals
    _refuse_unless(config.node_id >= 0, "process.roles=broker needs node.id, the number of this broker")
    _refuse_unless(
        bool(config.parsed_bootstrap_controllers),
        "process.roles=broker needs controller.quorum.bootstrap.servers (or controller.quorum.voters)",
    )
    name = config.controller_listener_name
    _refuse_unless(bool(name), "process.roles=broker needs controller.listener.names")
    for other in ("zookeeper.connect", "metadata.socket"):
        _refuse_unless(other not in given, f"process.roles=broker and {other} name two homes of the metadata")
    _refuse_unless(
        config.tidelog_cores == "1", f"tidelog.cores={config.tidelog_cores}: a member of a KRaft cluster has one core"
    )
    _refuse_unless(
        name not in {each.name for each in config.parsed_listeners},
        f"controller.listener.names: {name} is a listener of the controllers, and listeners must not have it",
    )
    protocol = config.security_protocols.get(name, "PLAINTEXT")
    _refuse_unless(
        protocol == "PLAINTEXT",
        f"controller.listener.names: listener {name} has the security protocol {protocol}, and only PLAINTEXT is "
        "supported between a broker and the controllers of a KRaft cluster",
    )


def _log_times(config: BrokerConfig) -> None:
    roll_ms = config.log_roll_ms
    _refuse_unless(roll_ms is None or roll_ms >= 1, f"log.roll.ms={roll_ms} must be at least 1")
    jitter_ms = config.log_roll_jitter_ms
    _refuse_unless(jitter_ms is None or jitter_ms >= 0, f"log.roll.jitter.ms={jitter_ms} must be at least 0")
    retention = (
        ("log.retention.ms", config.log_retention_ms),
        ("log.retention.minutes", config.log_retention_minutes),
        ("log.retention.hours", config.log_retention_hours),
    )
    name, value = next(each for each in retention if each[1] is not None)
    _refuse_unless(value != 0, f"{name}={value} must be unlimited (-1) or, greater than or equal to 1")


def _log_directories(config: BrokerConfig) -> None:
    directories = config.log_dirs
    _refuse_unless(bool(directories), "log.dirs must name at least one directory, or not be set")
    repeated = sorted({each for each in directories if directories.count(each) > 1})
    _refuse_unless(not repeated, f"log.dirs names {', '.join(repeated)} more than once")


def _cleaner(config: BrokerConfig) -> None:
    if not config.log_cleaner_enable:
        return
    threads, buffer = config.log_cleaner_threads, config.log_cleaner_dedupe_buffer_size
    _refuse_unless(
        threads == 0 or buffer // threads > MIB,
        f"log.cleaner.dedupe.buffer.size={buffer} must be more than 1 MiB for each of log.cleaner.threads={threads}",
    )
    lag_min, lag_max = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    _refuse_unless(
        lag_min <= lag_max,
        f"log.cleaner.min.compaction.lag.ms={lag_min} must not exceed log.cleaner.max.compaction.lag.ms={lag_max}",
    )


def _replica_fetching(config: BrokerConfig) -> None:
    wait_ms = config.replica_fetch_wait_max_ms
    _refuse_unless(
        wait_ms <= config.replica_socket_timeout_ms,
        f"replica.fetch.wait.max.ms={wait_ms} must not exceed "
        f"replica.socket.timeout.ms={config.replica_socket_timeout_ms}, or idle fetches time out",
    )
    _refuse_unless(
        wait_ms <= config.replica_lag_time_max_ms,
        f"replica.fetch.wait.max.ms={wait_ms} must not exceed "
        f"replica.lag.time.max.ms={config.replica_lag_time_max_ms}, or idle followers fall out of sync",
    )


def _offset_commits(config: BrokerConfig) -> None:
    acks, replicas = config.offsets_commit_required_acks, config.offsets_topic_replication_factor
    _refuse_unless(
        -1 <= acks <= replicas,
        f"offsets.commit.required.acks={acks} must be from -1 to offsets.topic.replication.factor={replicas}",
    )


def _connections(config: BrokerConfig) -> None:
    queued, largest = config.queued_max_request_bytes, config.socket_request_max_bytes
    _refuse_unless(
        queued <= 0 or queued >= largest,
        f"queued.max.request.bytes={queued} must be at least socket.request.max.bytes={largest}, or no limit (-1)",
    )
    overrides = config.connections_per_ip_overrides
    _refuse_unless(
        config.max_connections_per_ip > 0 or bool(overrides),
        "max.connections.per.ip=0 needs exceptions in max.connections.per.ip.overrides, or no client could connect",
    )
    delay_ms, idle_ms = config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms
    _refuse_unless(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} must be less than connections.max.idle.ms={idle_ms}, "
        "or the reply to a failed authentication is never sent",
    )


def _listeners(config: BrokerConfig) -> None:
    listeners, advertised = config.parsed_listeners, config.parsed_advertised_listeners
    _refuse_unless(bool(listeners), "listeners must name at least one listener")
    _check_ports(listeners)
    names = [each.name for each in listeners]
    source = "listeners" if config.advertised_listeners is None else "advertised.listeners"
    _refuse_unless(bool(advertised), "advertised.listeners must name at least one listener, or not be set")
    for each in advertised:
        _refuse_unless(
            each.name in names,
            f"advertised.listeners: {each} has a name that listeners={config.listeners} does not have",
        )
        _refuse_unless(
            each.host not in ("0.0.0.0", "::"),  # noqa: S104 - refused, not used
            f"{source}: clients cannot connect to {each}; advertised.listeners must have an address they can reach",
        )


def _check_ports(listeners: tuple[Listener, ...]) -> None:
    """Two listeners may share a port only as one IPv4 and one IPv6 address."""
    for position, one in enumerate(listeners):
        for other in listeners[position + 1 :]:
            is_dual_stack = (":" in one.host) != (":" in other.host) and bool(one.host and other.host)
            _refuse_unless(
                one.port != other.port or one.port == 0 or is_dual_stack,
                f"listeners: {one} and {other} have the same port",
            )


def _metrics_listeners(config: BrokerConfig) -> None:
    ports = [each.port for each in (*config.parsed_listeners, *config.parsed_metrics_listeners) if each.port]
    for each in config.parsed_metrics_listeners:
        _refuse_unless(
            ports.count(each.port) <= 1,
            f"metrics.listeners: port {each.port} of {config.metrics_listeners} is used by another listener",
        )


def _inter_broker_listener(config: BrokerConfig) -> None:
    names = [each.name for each in config.parsed_advertised_listeners]
    if config.inter_broker_listener_name is not None:
        _refuse_unless(
            "security.inter.broker.protocol" not in config.originals,
            f"inter.broker.listener.name={config.inter_broker_listener_name} and "
            f"security.inter.broker.protocol={config.security_inter_broker_protocol}: only one of them may be set",
        )
    name = config.inter_broker_name
    source = (
        "security.inter.broker.protocol" if config.inter_broker_listener_name is None else "inter.broker.listener.name"
    )
    _refuse_unless(
        name in names, f"{source}: {name} is not among the advertised listeners, which are {', '.join(names)}"
    )


def _control_plane_listener(config: BrokerConfig) -> None:
    if config.control_plane_listener_name is None:
        return
    name = config.control_plane_name
    names = [each.name for each in config.parsed_advertised_listeners]
    _refuse_unless(
        name in names,
        f"control.plane.listener.name: {name} is not among the advertised listeners, which are {', '.join(names)}",
    )
    _refuse_unless(
        name != config.inter_broker_name,
        f"control.plane.listener.name={name} must differ from the listener between brokers, "
        f"{config.inter_broker_name} (inter.broker.listener.name)",
    )


def _sasl(config: BrokerConfig) -> None:
    _refuse_unless(
        config.sasl_jaas_config is None,
        "sasl.jaas.config: a broker has one for each listener and mechanism; set "
        "listener.name.<listener>.<mechanism>.sasl.jaas.config, both in lower case",
    )
    for name in config.originals:
        for setting in ("sasl.server.callback.handler.class", "sasl.login.callback.handler.class"):
            if name.endswith(setting):
                _refuse_unless(
                    name.removesuffix(setting).count(".") == 4,
                    f"{name}: set listener.name.<listener>.<mechanism>.{setting}, both in lower case",
                )


def _prefixes(config: BrokerConfig) -> None:
    """What is meant for a listener, or for one of its mechanisms, must reach it."""
    names = [each.name for each in config.parsed_listeners]
    for name in config.originals:
        declared = listener_setting(name)
        if declared is None or listener_of(name).upper() not in names:
            continue
        right = name.removesuffix(declared.name).lower() + declared.name
        if name != right:
            raise ConfigError(f"{name}: listeners and mechanisms stand there in lower case, {right}", setting=name)


_CHECKS: Final[tuple[Callable[[BrokerConfig], None], ...]] = (
    _broker_id,
    _quorum,
    _log_times,
    _log_directories,
    _cleaner,
    _replica_fetching,
    _offset_commits,
    _group_bounds,
    _streams_groups,
    _connections,
    _listeners,
    _prefixes,
    _metrics_listeners,
    _inter_broker_listener,
    _sasl,
    _control_plane_listener,
)
