"""Where a broker's settings differ from those of the other brokers. Pure."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tidelog.client.aio.admin.types import ConfigEntry

OF_ONE_BROKER: Final = frozenset(
    {
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "broker.id",
        "broker.rack",
        "host.name",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "metrics.listeners",
        "node.id",
        "port",
    }
)
"""Settings that are each broker's own in every cluster: ids, places and addresses."""

Settings = Mapping[str, ConfigEntry]


class Difference(NamedTuple):
    """A setting whose value is not that of all others."""

    name: str
    value: str
    others: Mapping[str, Collection[int]]
    """The values of the other brokers, and who has each."""


def differences(settings: Mapping[int, Settings], broker: int) -> list[Difference]:
    """The settings of a broker that are not those of all others. What is secret or each broker's own is left out."""
    found = []
    others = {each: theirs for each, theirs in settings.items() if each != broker}
    for name, entry in sorted(settings[broker].items()):
        if entry.is_sensitive or name in OF_ONE_BROKER:
            continue
        values: dict[str, list[int]] = {}
        for each, theirs in sorted(others.items()):
            # A broker of another version may not have the setting at all.
            values.setdefault(_said(theirs.get(name)), []).append(each)
        if any(value != _said(entry) for value in values):
            found.append(Difference(name, _said(entry), values))
    return found


def _said(entry: ConfigEntry | None) -> str:
    if entry is None:
        return "no such setting"
    return entry.value if entry.value is not None else ""
