"""The page that maps Kafka's tools, settings and MBeans to Tidelog's. `docs/from-kafka.md` is its output."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidelog.cli.from_kafka._mbeans import OTHERS, mbeans
from tidelog.cli.from_kafka._tools import TOOLS
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.declaration import Setting
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.kafka_only import IGNORED
from tidelog.config.log_config import LogConfig


class Entry(NamedTuple):
    """One thing of Kafka's, and what there is here. Names of Kafka's are code; `here` and `note` are Markdown."""

    kafka: str
    here: str
    note: str = ""


class Section(NamedTuple):
    """A table of the page."""

    title: str
    introduction: str
    entries: Callable[[], list[Entry]]


OTHER_DEFAULTS: Final = {
    "listeners": "a broker that is just tried out serves this machine only",
    "log.dirs": "data is kept where the broker was started, not in a directory that a restart of the machine empties",
    "log.dir": "the default is that of `log.dirs`",
    "group.coordinator.rebalance.protocols": "the protocols of KIP-848 and KIP-1071 are served, as from Kafka 4.2 on",
    "group.initial.rebalance.delay.ms": "a broker alone does not wait; in a cluster as in Kafka",
}
"""Settings whose default is not Kafka's, and why."""

_INTRODUCTION: Final = """\
# From Kafka to Tidelog

<!-- Written by tidelog.cli.from_kafka from declarations. Do not edit: `make docs` writes it. -->

What takes the place of each command line tool, each setting and each MBean of Apache Kafka 3.9, and what has no effect
here and why. `tidelog from-kafka NAME` looks a name up on the command line. To move data and clusters, see
[moving-from-kafka.md](moving-from-kafka.md) and [operations.md](operations.md#moving-from-kafka-and-back).
"""


def page() -> str:
    """The whole page."""
    return "".join([_INTRODUCTION, *map(_markdown, SECTIONS)])


def look_up(words: Iterable[str]) -> list[Entry]:
    """The entries whose names, of Kafka's or of ours, have one of these words in them, whatever their case."""
    wanted = [word.lower() for word in words]
    return [
        entry
        for section in SECTIONS
        for entry in section.entries()
        if any(word in f"{entry.kafka} {entry.here}".lower() for word in wanted)
    ]


def _tools() -> list[Entry]:
    return [
        Entry(f"{tool} {use.options}".strip(), f"`{use.command}`" if use.command else "-", use.note)
        for tool, uses in TOOLS.items()
        for use in uses
    ]


def _settings(group: Iterable[Setting]) -> list[Entry]:
    return [_setting(each) for each in sorted(group, key=lambda each: each.name) if not each.doc.endswith(_NOT_KAFKAS)]


_NOT_KAFKAS: Final = "Not in Kafka."


def _setting(declared: Setting) -> Entry:
    if declared.ignored is not None:
        return Entry(declared.name, "no effect", declared.ignored)
    if declared.refused is not None:
        return Entry(declared.name, "only the default is accepted", declared.refused)
    if declared.name in OTHER_DEFAULTS:
        return Entry(declared.name, "another default", OTHER_DEFAULTS[declared.name])
    return Entry(declared.name, "the same")


def _broker_settings() -> list[Entry]:
    entries = _settings([*BrokerConfig.settings.values(), *DynamicOnlySettings.settings.values()])
    entries += [Entry(name, "no effect", why) for name, why in IGNORED.items()]
    return sorted(entries)


def _topic_settings() -> list[Entry]:
    return _settings(LogConfig.settings.values())


def _metrics() -> list[Entry]:
    entries = [Entry(each.name, f"`{each.metric}`" if each.metric else "-", each.why) for each in mbeans()]
    return entries + [Entry(pattern, "-", what) for pattern, what in OTHERS.items()]


SECTIONS: Final = (
    Section(
        "Command line tools",
        "Kafka's own tools work with Tidelog's brokers, and these commands with Kafka's brokers.",
        _tools,
    ),
    Section(
        "Settings of brokers",
        "Names, types and meanings are Kafka's: [configuration.md](configuration.md) has values and defaults.\n"
        "Settings of plug-ins (`rsm.config.…`, `rlmm.config.…`) have no effect; an unknown name stops the start.\n"
        "A setting without effect that is not at its default is named in a warning at the start.",
        _broker_settings,
    ),
    Section("Settings of topics", "", _topic_settings),
    Section(
        "MBeans",
        "There is no JMX: a broker with `metrics.listeners` serves its metrics over HTTP, under the names that the\n"
        "usual configuration of the JMX exporter gives to Kafka's. A rate is a counter here, and Prometheus' `rate()`\n"
        "of it; a time is a summary, with `_count`. [monitoring.md](monitoring.md) says what they mean.",
        _metrics,
    ),
)


def _markdown(section: Section) -> str:
    lines = [f"\n## {section.title}\n\n", f"{section.introduction}\n\n" if section.introduction else ""]
    lines.append("| Kafka | Tidelog | |\n|---|---|---|\n")
    for kafka, here, note in section.entries():
        lines.append("| " + " | ".join(each.replace("|", "\\|") for each in (f"`{kafka}`", here, note)) + " |\n")
    return "".join(lines)
