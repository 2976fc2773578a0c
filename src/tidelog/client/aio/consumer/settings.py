"""The settings of a consumer, under Kafka's names and with Kafka's defaults."""

from collections.abc import Mapping
from typing import Any, Final

from tidelog.client.aio.consumer.assignors import choose_protocol, make_assignors
from tidelog.client.aio.consumer.offset_reset import parse_offset_reset
from tidelog.client.aio.settings import OBJECT, CommonSettings, read_values
from tidelog.client.errors import ClientConfigError
from tidelog.config.declaration import MIB, MINUTE_MS, SECOND_MS, setting
from tidelog.config.kinds import BOOLEAN


class ConsumerSettings(CommonSettings):
    """The settings of a consumer."""

    group_id: str | None = setting(
        "group.id", None, importance="high", doc="The consumer group to join and to commit offsets for."
    )
    group_instance_id: str | None = setting(
        "group.instance.id",
        None,
        doc="Makes a static member: a restart within the session timeout moves no partitions.",
    )
    group_protocol: str = setting(
        "group.protocol",
        "classic",
        one_of=("classic", "consumer"),
        doc="classic: a member assigns partitions; consumer: the broker assigns them, without pauses (KIP-848).",
    )
    group_remote_assignor: str | None = setting(
        "group.remote.assignor", None, doc="The broker's assignor (uniform, range) with group.protocol=consumer."
    )
    partition_assignment_strategy: tuple[Any, ...] = setting(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        doc="Assignors in order of preference: range, roundrobin, sticky, cooperative-sticky, or objects of your own.",
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        45 * SECOND_MS,
        at_least=1,
        doc="The broker removes a member that sends no heartbeat for this time.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        3 * SECOND_MS,
        at_least=1,
        doc="Time between heartbeats; about a third of session.timeout.ms.",
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        5 * MINUTE_MS,
        at_least=1,
        doc="A member that does not poll for this time leaves its group.",
    )
    max_poll_records: int = setting("max.poll.records", 500, at_least=1, doc="Most records that one poll returns.")
    enable_auto_commit: bool | None = setting(
        "enable.auto.commit",
        None,
        type=BOOLEAN,
        doc="Let poll commit the records of earlier polls; on by default with a group.id.",
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms", 5 * SECOND_MS, at_least=0, doc="Time between automatic commits."
    )
    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "latest",
        doc="Where to begin without a committed offset: earliest, latest, none, by_duration:PnDTnHnMnS.",
    )
    isolation_level: str = setting(
        "isolation.level",
        "read_uncommitted",
        one_of=("read_uncommitted", "read_committed"),
        doc="Whether records of open and aborted transactions are returned.",
    )
    fetch_min_bytes: int = setting("fetch.min.bytes", 1, at_least=0, doc="Bytes that a fetch waits for.")
    fetch_max_bytes: int = setting("fetch.max.bytes", 50 * MIB, at_least=0, doc="Most bytes that one fetch returns.")
    fetch_max_wait_ms: int = setting("fetch.max.wait.ms", 500, at_least=0, doc="The longest a fetch waits for bytes.")
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes", MIB, at_least=0, doc="Most bytes that one fetch returns for one partition."
    )
    check_crcs: bool = setting("check.crcs", True, doc="Whether the checksum of every batch is checked.")
    key_deserializer: Any = setting("key.deserializer", None, type=OBJECT, doc="Decodes keys.")
    value_deserializer: Any = setting(
        "value.deserializer",
        None,
        type=OBJECT,
        doc="Decodes values: a function of the bytes, or an object with deserialize(topic, data).",
    )
    interceptor_classes: tuple[Any, ...] = setting(
        "interceptor.classes", (), doc="Objects with on_consume, on_commit and close, called in this order."
    )
    exclude_internal_topics: bool = setting(
        "exclude.internal.topics", True, doc="Whether patterns ignore internal topics such as __consumer_offsets."
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics", True, doc="Whether subscribing may create a topic, if brokers allow it."
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms", MINUTE_MS, at_least=0, doc="Timeout of calls without a timeout argument."
    )

    @property
    def commits_automatically(self) -> bool:
        """`enable.auto.commit`, which is on unless there is no group to commit for."""
        return self.group_id is not None if self.enable_auto_commit is None else self.enable_auto_commit

    @property
    def reads_committed(self) -> bool:
        """Whether aborted records are left out."""
        return self.isolation_level == "read_committed"


_OF_CLASSIC: Final = {
    "partition_assignment_strategy": "partition.assignment.strategy",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_interval_ms": "heartbeat.interval.ms",
}
"""What members decide under the classic protocol, and the broker under the newer one."""


def _check_protocol(settings: ConsumerSettings, given: Mapping[str, Any]) -> None:
    """Refuse settings that the chosen group protocol would ignore."""
    if settings.group_protocol == "classic":
        if settings.group_remote_assignor is not None:
            raise ClientConfigError("group.remote.assignor needs group.protocol=consumer")
        return
    for field, name in _OF_CLASSIC.items():
        if field in given:
            raise ClientConfigError(f"{name} has no effect with group.protocol=consumer: the broker decides it")


def load_consumer_settings(properties: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ConsumerSettings:
    """The settings, checked one by one and against each other."""
    given = read_values(ConsumerSettings, properties, keywords)
    settings = ConsumerSettings(**given)
    _check_protocol(settings, given)
    parse_offset_reset(settings.auto_offset_reset)
    choose_protocol(make_assignors(settings.partition_assignment_strategy))
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ClientConfigError(
            f"heartbeat.interval.ms={settings.heartbeat_interval_ms} must be lower than "
            f"session.timeout.ms={settings.session_timeout_ms}"
        )
    if settings.group_id is None and settings.enable_auto_commit:
        raise ClientConfigError("enable.auto.commit=true needs a group.id to commit for")
    if settings.group_id == "":
        raise ClientConfigError("group.id='' is empty; omit it to read without a group")
    if settings.group_instance_id == "":
        raise ClientConfigError("group.instance.id='' is empty; omit it for a dynamic member")
    return settings
