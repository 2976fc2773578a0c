"""The reference page of all settings, written from their declarations. `docs/configuration.md` is its output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.declaration import INT_MAX, LONG_MAX, Setting, Settings
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.entities import ClientMetricsConfig, GroupConfig
from tidelog.config.kinds import PASSWORD
from tidelog.config.log_config import LogConfig

_SCOPES: Final = {"read-only": "restart", "per-broker": "per broker", "cluster-wide": "cluster", "topic": "topic"}

_GROUPS: Final = """
## Groups

Set for one group with `tidelog config alter --group NAME`, or AlterConfigs for the resource type GROUP. The bounds are
the broker's `group.consumer.min.…` and `group.consumer.max.…`.

"""
_SUBSCRIPTIONS: Final = """
## Subscriptions to the metrics of clients

Set with `tidelog config alter --client-metrics NAME`, or AlterConfigs for the resource type CLIENT_METRICS (KIP-714).
Brokers with `metrics.listeners` ask clients for metrics and show them; without a subscription no client sends any.

"""

_INTRODUCTION: Final = """\
# Configuration

<!-- Written by tidelog.config.reference from the declarations of the settings. Do not edit. -->

Names, types and defaults are those of Apache Kafka 3.9, except that `listeners`, `log.dirs` and
`group.coordinator.rebalance.protocols` have defaults of their own, as has `group.initial.rebalance.delay.ms` where a
broker is alone (no `zookeeper.connect`, no `metadata.socket`, no `process.roles`). Give them in a file in the form of
server.properties (`tidelog serve --config FILE`) or one by one (`tidelog serve --set name=value`). An unknown name, a
malformed value or a contradiction stops the start with a message that names it.

Tidelog does not have every feature of Kafka. A setting marked **No effect** is accepted, so that a file written for
Kafka loads unchanged, and one warning at start names it. The same holds for settings of Kafka that are not listed
(the tuning of a KRaft quorum, tiered storage, the JVM): [from-kafka.md](from-kafka.md) has all of them, and why. A
setting marked **Only the default is accepted** stops the start when it has any other value, because ignoring it would
be unsafe; so does a setting of KRaft without `process.roles=broker`. AlterConfigs and IncrementalAlterConfigs follow
the same rules but for one: as in Kafka, a broker or all brokers may be given names that no setting has. They are stored
and described without their values, have no effect, and a warning names them.

"Changed" says how a setting is changed: at a **restart**, or while the broker runs **per broker** or for the whole
**cluster** (`tidelog config alter`, AlterConfigs). A topic uses its own setting first, then the broker's dynamic one,
the cluster's dynamic one, the file, the default. `max.connections`, `max.connection.creation.rate`,
`connections.max.reauth.ms` and the settings of TLS and SASL may be given for one listener alone:
`listener.name.<name>.<setting>`, with the name in lower case.
"""


def reference_markdown() -> str:
    """The whole page."""
    topics = "\n## Topics\n\nSet when a topic is created or while it exists.\n\n"
    parts = [_INTRODUCTION, topics, _own_table(LogConfig)]
    for area, settings in _areas().items():
        parts.append(f"\n## {area}\n\n{_table(settings, _topic_names())}")
    parts.append(
        "\n## Throttling of replication\n\nOnly dynamic, never in a file.\n\n"
        + _table(DynamicOnlySettings.settings.values(), {})
    )
    parts += [_GROUPS, _own_table(GroupConfig), _SUBSCRIPTIONS, _own_table(ClientMetricsConfig)]
    return "".join(parts)


def _areas() -> dict[str, list[Setting]]:
    areas: dict[str, list[Setting]] = {}
    for declared in BrokerConfig.settings.values():
        areas.setdefault(declared.area, []).append(declared)
    return areas


def _topic_names() -> dict[str, str]:
    """Topic setting by the broker setting that gives its default."""
    return {synonym.name: declared.name for declared in LogConfig.settings.values() for synonym in declared.synonyms}


def _own_table(settings: type[Settings]) -> str:
    """Settings of what has its own: topics, groups, subscriptions."""
    lines = [
        "| Setting | Type | Default | Valid | Default from | Meaning |\n|---|---|---|---|---|---|\n",
    ]
    for declared in sorted(settings.settings.values(), key=lambda each: each.name):
        origin = ", ".join(f"`{synonym.name}`" for synonym in declared.synonyms)
        cells = (
            f"`{declared.name}`",
            declared.kind.name,
            _default(declared),
            declared.valid_values(),
            origin,
            declared.described(),
        )
        lines.append(_row(cells))
    return "".join(lines)


def _table(settings: Iterable[Setting], topic_names: Mapping[str, str]) -> str:
    lines = ["| Setting | Type | Default | Valid | Changed | Topic's own | Meaning |\n|---|---|---|---|---|---|---|\n"]
    for declared in sorted(settings, key=lambda each: each.name):
        topic = topic_names.get(declared.name)
        cells = (
            f"`{declared.name}`",
            declared.kind.name,
            _default(declared),
            declared.valid_values(),
            _SCOPES[declared.dynamic],
            f"`{topic}`" if topic else "",
            declared.described(),
        )
        lines.append(_row(cells))
    return "".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(declared: Setting) -> str:
    if declared.default is None or declared.kind is PASSWORD:
        return ""
    text = declared.format(declared.default)
    if not text:
        return "empty"
    explained = _explained(declared)
    shown = f"`{text}` ({explained})" if explained else f"`{text}`"
    if declared.default_alone is not declared.default:
        shown += f"; alone `{declared.format(declared.default_alone)}`"
    return shown


def _explained(declared: Setting) -> str:
    """A large number in units that people read."""
    value, name = declared.default, declared.name
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    if value in (INT_MAX, LONG_MAX):
        return "no limit"
    if name.endswith(".ms"):
        return _in_units(value, ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")))
    if name.endswith((".bytes", ".buffer.size", ".receive.size")):
        return _in_units(value, ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")))
    return ""


def _in_units(value: int, units: tuple[tuple[int, str], ...]) -> str:
    for size, unit in units:
        if value >= size and value % size == 0:
            return f"{value // size} {unit}"
    return ""


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference_markdown())
