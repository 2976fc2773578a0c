"""Listeners as text and as values: `NAME://host:port` lists and the map from listener name to security protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.config._listener_settings import SECURITY_PROTOCOLS
from tidelog.config.errors import ConfigError
from tidelog.config.kinds import parse_items

_HOST_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-%._:")
_IPV6_CHARACTERS: Final = frozenset("0123456789abcdefABCDEF:.")


class Listener(NamedTuple):
    """One address a broker listens on or advertises."""

    name: str
    host: str
    """Empty means every interface. IPv6 addresses are without their brackets."""
    port: int
    """0 means any free port."""
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…` as a dictionary. Raises ConfigError."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for item in parse_items(text):
        name, separator, protocol = (part.strip().upper() for part in item.partition(":"))
        if not separator or not name:
            raise ConfigError(f"{setting}: {item!r} is not of the form NAME:PROTOCOL", setting=setting)
        if protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError(
                f"{setting}: listener {name} has unknown security protocol {protocol!r}; known are {known}",
                setting=setting,
            )
        if name in protocols:
            raise ConfigError(f"{setting}: listener {name} is named twice in {text!r}", setting=setting)
        protocols[name] = protocol
    return protocols


def parse_listeners(text: str, protocols: Mapping[str, str], *, setting: str) -> tuple[Listener, ...]:
    """A comma-separated list of `NAME://host:port`. Raises ConfigError, which names `setting`."""
    listeners = tuple([_parse_one(item, protocols, setting) for item in parse_items(text)])
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{setting}: listener names must be unique, {name} is named twice in {text!r}")
    return listeners


def parse_address(text: str, setting: str) -> tuple[str, int]:
    """`host:port` as a pair. Raises ConfigError, which names `setting`."""
    found = _parse_one(f"ANY://{text}", {"ANY": "PLAINTEXT"}, setting)
    if not found.host or not found.port:
        raise ConfigError(f"{setting}: {text!r} is not of the form host:port", setting=setting)
    return found.host, found.port


def parse_voters(voters: Iterable[str]) -> dict[int, tuple[str, int]]:
    """Controllers by their ids, each given as `id@host:port`. Raises ConfigError."""
    setting = "controller.quorum.voters"
    found: dict[int, tuple[str, int]] = {}
    for voter in voters:
        digits, at, address = voter.partition("@")
        if not at or not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
            raise ConfigError(f"{setting}: {voter!r} is not of the form id@host:port", setting=setting)
        if int(digits) in found:
            raise ConfigError(f"{setting}: controller {digits} is named twice", setting=setting)
        found[int(digits)] = parse_address(address, setting)
    return found


def parse_metrics_listeners(text: str) -> tuple[Listener, ...]:
    """A comma-separated list of `http://host:port`. Raises ConfigError."""
    setting = "metrics.listeners"
    for item in parse_items(text):
        if not item.lower().startswith("http://"):
            raise ConfigError(f"{setting}: {item!r} is not of the form http://host:port", setting=setting)
    return tuple([_parse_one(item.rstrip("/"), {"HTTP": "PLAINTEXT"}, setting) for item in parse_items(text)])


def _parse_one(item: str, protocols: Mapping[str, str], setting: str) -> Listener:
    name, separator, address = item.partition("://")
    host, colon, digits = address.rpartition(":")
    if not separator or not name or not colon:
        raise ConfigError(f"{setting}: {item!r} is not of the form NAME://host:port", setting=setting)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host and not _IPV6_CHARACTERS.issuperset(host):
        raise ConfigError(f"{setting}: {host!r} in {item!r} is not a host", setting=setting)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) <= 65535):
        raise ConfigError(f"{setting}: {digits!r} in {item!r} is not a port from 0 to 65535", setting=setting)
    if not _HOST_CHARACTERS.issuperset(host):
        raise ConfigError(f"{setting}: {host!r} in {item!r} is not a host", setting=setting)
    name = name.strip().upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{setting}: listener {name} of {item!r} has no security protocol in listener.security.protocol.map",
            setting=setting,
        )
    return Listener(name, host, int(digits), protocol)
