"""The `kafka.*` options: settings of a Kafka consumer, as far as they mean something here.

As in Kafka's clients, unknown settings are logged and ignored. Settings that are unsafe to ignore are rejected: unknown
ones of encryption and authentication, and settings that the official connector rejects.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidelog.spark.delegation import TokenSource, take_token_source
from tidelog.spark.options import OptionError, Options, security_settings

_REFUSED: Final = {
    "auto.offset.reset": "use 'startingOffsets'; Spark keeps the offsets itself",
    "key.deserializer": "keys are binary columns; cast them after reading",
    "value.deserializer": "values are binary columns; cast them after reading",
    "enable.auto.commit": "Spark keeps the offsets; use 'commitGroupId' for tools that show the lag of groups",
    "interceptor.classes": "interceptors are not supported",
}

PARTITION_FETCH_BYTES: Final = 4 * 1024 * 1024
"""More than Kafka's 1 MiB: a task reads one partition at a time, and large answers cost less for each record."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The connection settings. Small, because every task gets it; also the key of cached connections."""

    bootstrap_servers: str
    client_id: str = "tidelog-spark"
    read_committed: bool = False
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_bytes: int = PARTITION_FETCH_BYTES
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    check_crcs: bool = True
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings of TLS and SASL, under Kafka's names; they hold secrets."""
    token_source: TokenSource | None = None
    """Where tasks get a delegation token from, to log in with instead of these secrets."""

    def for_tasks(self) -> "ClientSettings":
        """The settings to pickle into tasks: without secrets, if a token comes with each batch."""
        return self if self.token_source is None else replace(self, security=(), token_source=None)

    def task_security(self) -> tuple[tuple[str, str], ...]:
        """What the tasks of the next batch log in with, if it is not in their settings. Call it on the driver."""
        return () if self.token_source is None else self.token_source.security()

    def with_security(self, security: tuple[tuple[str, str], ...]) -> "ClientSettings":
        """In a task: the settings with what came with the batch."""
        return replace(self, security=security) if security else self


def read_client_settings(options: Options, group_prefix: str) -> tuple[ClientSettings, tuple[str, ...]]:
    """The settings, and warnings about settings without effect. Raises OptionError."""
    servers = options.bootstrap_servers()
    given = options.kafka_settings(_REFUSED)
    token_source = take_token_source(given, servers)
    security = security_settings(given)
    values, notes = _typed(given)
    if values.get("group_id"):
        notes.append(
            f"option 'kafka.group.id' is {values['group_id']!r}: a query joins no group; the name is used as client id"
        )
    defaults = ClientSettings(servers)
    fetch_bytes = min(
        values.get("max_partition_fetch_bytes", defaults.fetch_bytes),
        values.get("fetch_max_bytes", defaults.fetch_bytes),
    )
    settings = ClientSettings(
        servers,
        values.get("client_id") or values.get("group_id") or group_prefix,
        values.get("isolation_level") == "read_committed",
        values.get("fetch_min_bytes", defaults.fetch_min_bytes),
        values.get("fetch_max_wait_ms", defaults.fetch_max_wait_ms),
        max(fetch_bytes, 1),
        values.get("request_timeout_ms", defaults.request_timeout_ms),
        values.get("default_api_timeout_ms", defaults.api_timeout_ms),
        values.get("check_crcs", defaults.check_crcs),
        tuple(sorted(security.items())),
        token_source,
    )
    return settings, tuple(notes)


def _typed(given: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values of the settings that a consumer has, by field name, and a note on each of the others."""
    from tidelog.client.aio.consumer.settings import ConsumerSettings
    from tidelog.client.aio.settings import read_values
    from tidelog.client.errors import ClientConfigError

    known = {name: value for name, value in given.items() if name in ConsumerSettings.settings}
    notes = [
        f"option 'kafka.{name}' is not a consumer setting and has no effect" for name in given if name not in known
    ]
    try:
        return read_values(ConsumerSettings, known, {}), notes
    except ClientConfigError as error:
        raise OptionError(f"a 'kafka.' option cannot be used: {error}") from error
