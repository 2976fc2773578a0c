"""Client settings under Kafka's own names, declared once and read from a dict, from keywords or from both.

    load_settings(ProducerSettings, {"bootstrap.servers": "localhost:9092"}, {"linger_ms": 5})

A dict carries Kafka's dotted names, keywords carry the same names with underscores; either form is taken from both. A
value is a Python value or the text that a properties file would hold. Unknown names are refused, with the nearest name
that exists, because a misspelt setting that is silently ignored is found out in production.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from tidelog.client.addresses import parse_bootstrap_servers
from tidelog.client.errors import ClientConfigError
from tidelog.client.security_settings import SecuritySettings
from tidelog.config.declaration import MINUTE_MS, SECOND_MS, Check, Setting, Settings, setting
from tidelog.config.errors import ConfigError
from tidelog.config.kinds import BOOLEAN, DOUBLE, INT, LIST, LONG, SHORT, STRING, Kind
from tidelog.config.names import advice_about

Group = TypeVar("Group", bound=Settings)


def _import_object(path: str) -> Any:
    """`package.module.Name` or `package.module:Name`, as a properties file would name a class."""
    module_name, separator, name = path.strip().rpartition(":" if ":" in path else ".")
    if not separator:
        raise ValueError("Expected package.module.Name or a Python object")
    from importlib import import_module

    try:
        return getattr(import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Cannot be imported: {error}") from error


def make_objects(name: str, given: Iterable[Any], methods: tuple[str, ...]) -> tuple[Any, ...]:
    """What a setting with a list of objects means: objects, classes to make them of, or paths to import either from."""
    made: list[Any] = []
    for each in given:
        try:
            found = _import_object(each) if isinstance(each, str) else each
        except ValueError as error:
            raise ClientConfigError(f"{name} has {each!r}: {error}") from error
        found = found() if isinstance(found, type) else found
        for method in methods:
            if not callable(getattr(found, method, None)):
                raise ClientConfigError(f"{name} has {each!r}, which has no method {method}")
        made.append(found)
    return tuple(made)


OBJECT: Final = Kind("class", 8, _import_object, repr)
"""Of settings whose value is a Python object, or the path to import one from."""

_FUNCTION: Final = Check("a function", lambda value: None if callable(value) else "Value must be a function")


class CommonSettings(SecuritySettings, area="common"):
    """What every client has. Clients inherit this and add their own."""

    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers",
        (),
        importance="high",
        doc="Brokers to connect to first, as host:port; the client finds the others.",
    )
    bootstrap_timeout_ms: int = setting(
        "bootstrap.timeout.ms",
        5 * SECOND_MS,
        at_least=0,
        doc="Fail if no bootstrap server could be reached within this time.",
    )
    client_id: str = setting("client.id", "tidelog", doc="Sent in every request, for the brokers' logs and quotas.")
    client_rack: str = setting("client.rack", "", doc="The rack of this client, to read from a nearby replica.")
    request_timeout_ms: int = setting(
        "request.timeout.ms", 30 * SECOND_MS, at_least=1, doc="How long to wait for a reply before reconnecting."
    )
    retry_backoff_ms: int = setting("retry.backoff.ms", 100, at_least=0, type=LONG, doc="First wait before a retry.")
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms", 1000, at_least=0, type=LONG, doc="Longest wait before a retry."
    )
    reconnect_backoff_ms: int = setting(
        "reconnect.backoff.ms", 50, at_least=0, type=LONG, doc="First wait before connecting again to a broker."
    )
    reconnect_backoff_max_ms: int = setting(
        "reconnect.backoff.max.ms", 1000, at_least=0, type=LONG, doc="Longest wait before connecting again."
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        9 * MINUTE_MS,
        at_least=-1,
        type=LONG,
        doc="Close connections that are idle for this time.",
    )
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        10 * SECOND_MS,
        at_least=1,
        type=LONG,
        doc="First timeout of a connection attempt.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        "socket.connection.setup.timeout.max.ms",
        30 * SECOND_MS,
        at_least=1,
        type=LONG,
        doc="Longest timeout of a connection attempt.",
    )
    send_buffer_bytes: int = setting("send.buffer.bytes", 128 * 1024, at_least=-1, doc="SO_SNDBUF; -1: the system's.")
    receive_buffer_bytes: int = setting(
        "receive.buffer.bytes", 64 * 1024, at_least=-1, doc="SO_RCVBUF; -1: the system's."
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms", 5 * MINUTE_MS, at_least=0, type=LONG, doc="Refresh metadata after this time."
    )
    statistics_interval_ms: int = setting(
        "statistics.interval.ms", 0, at_least=0, type=LONG, doc="Time between calls of statistics.callback; 0: never."
    )
    sasl_oauthbearer_token_callback: Any = setting(
        "sasl.oauthbearer.token.callback",
        None,
        type=OBJECT,
        validator=_FUNCTION,
        doc="A function that returns a bearer token, or the token and the second in which it expires. It is called on "
        "a thread.",
    )
    statistics_callback: Any = setting(
        "statistics.callback",
        None,
        type=OBJECT,
        validator=_FUNCTION,
        doc="A function that is called with the result of metrics().",
    )


def load_settings(
    group: type[Group], properties: Mapping[str, Any] | None = None, keywords: Mapping[str, Any] | None = None
) -> Group:
    """The settings of `group` from both sources; a setting named in both must not differ."""
    return group(**read_values(group, properties, keywords))


def read_values(
    group: type[Settings], properties: Mapping[str, Any] | None, keywords: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What was given, typed and by field name; for callers that must distinguish a given value from a default."""
    values: dict[str, Any] = {}
    if properties is not None and not isinstance(properties, Mapping):
        raise ClientConfigError(f"settings must be a dict of names and values, not {properties!r}")
    for name, value in [*(properties or {}).items(), *(keywords or {}).items()]:
        declared = _find(group, name)
        typed = _typed(declared, value)
        if values.setdefault(declared.field, typed) != typed:
            raise ClientConfigError(f"{declared.name} is given twice: {values[declared.field]!r} and {typed!r}")
    parse_bootstrap_servers(values.get("bootstrap_servers", ()))
    return values


def _find(group: type[Settings], name: str) -> Setting:
    if not isinstance(name, str):
        raise ClientConfigError(f"{name!r} is not a setting name")
    declared = group.settings.get(name) or group.settings.get(name.replace("_", "."))
    if declared is not None:
        return declared
    advice = advice_about(name.replace("_", "."), group.settings, "{!r}")
    raise ClientConfigError(f"{name!r} is not a setting of this client{advice and f'; {advice}'}")


def _typed(declared: Setting, value: Any) -> Any:
    """The value of a setting, from text or as it is, checked either way."""
    try:
        if declared.kind is LIST:
            value = _listed(declared, value)
        elif isinstance(value, str):
            return declared.parse(value)
        elif value is None and declared.default is None:
            return None
        elif not _fits(declared.kind, value):
            raise ClientConfigError(f"{declared.name}={value!r} is not of type {declared.kind.name}")
        declared.validate(value)
    except ConfigError as error:
        raise ClientConfigError(str(error)) from error
    return value


def _listed(declared: Setting, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        parsed: tuple[Any, ...] = LIST.parse(value)
        return parsed
    if not isinstance(value, Iterable):
        raise ClientConfigError(f"{declared.name}={value!r} is not a list")
    return tuple(value)


def _fits(kind: Kind, value: Any) -> bool:
    check = _CHECKS.get(kind)
    return check is None or check(value)


def _is_integer_of(bits: int) -> Callable[[Any], bool]:
    bound = 1 << (bits - 1)
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound


_CHECKS: Final[Mapping[Kind, Callable[[Any], bool]]] = {
    BOOLEAN: lambda value: isinstance(value, bool),
    STRING: lambda _: False,
    SHORT: _is_integer_of(16),
    INT: _is_integer_of(32),
    LONG: _is_integer_of(64),
    DOUBLE: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
