"""The usual configuration of the JMX exporter for Kafka (kafka-2_0_0.yml), as facts: which attributes of which MBeans
become which metrics. The first rule that matches an attribute names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple


class Exported(NamedTuple):
    """A metric as the exporter shows it."""

    name: str
    label_names: frozenset[str]


class Rule(NamedTuple):
    """Attributes that match `pattern` are shown as `name`, with these labels beside those that the pattern names."""

    pattern: str
    name: str
    labels: tuple[str, ...] = ()


_TYPE_AND_NAME: Final = r"kafka\.(\w+)<type=(.+), name=(.+)"
_PAIR: Final = r", (.+)=(.*)"

RULES: Final = (
    # Partitions and brokers that a follower fetches.
    Rule(
        r"kafka\.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        "kafka_server_{0}_{1}",
        ("clientId", "topic", "partition"),
    ),
    Rule(
        r"kafka\.server<type=(.+), name=(.+), clientId=(.+), brokerHost=(.+), brokerPort=(.+)><>Value",
        "kafka_server_{0}_{1}",
        ("clientId", "broker"),
    ),
    Rule(r"kafka\.coordinator\.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_{0}_{1}_{2}"),
    # Meters, with up to two labels, are counters.
    Rule(rf"{_TYPE_AND_NAME}PerSec\w*{_PAIR}{_PAIR}><>Count", "kafka_{0}_{1}_{2}_total", ("3", "5")),
    Rule(rf"{_TYPE_AND_NAME}PerSec\w*{_PAIR}><>Count", "kafka_{0}_{1}_{2}_total", ("3",)),
    Rule(rf"{_TYPE_AND_NAME}PerSec\w*><>Count", "kafka_{0}_{1}_{2}_total"),
    # Quotas.
    Rule(
        r"kafka\.server<type=(.+), user=(.+), client-id=(.+)><>([a-z-]+)",
        "kafka_server_quota_{3}",
        ("resource", "user", "clientId"),
    ),
    Rule(r"kafka\.server<type=(.+), user=(.+)><>([a-z-]+)", "kafka_server_quota_{2}", ("resource", "user")),
    Rule(r"kafka\.server<type=(.+), client-id=(.+)><>([a-z-]+)", "kafka_server_quota_{2}", ("resource", "clientId")),
    # Gauges.
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}{_PAIR}><>Value", "kafka_{0}_{1}_{2}", ("3", "5")),
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}><>Value", "kafka_{0}_{1}_{2}", ("3",)),
    Rule(rf"{_TYPE_AND_NAME}><>Value", "kafka_{0}_{1}_{2}"),
    # Histograms and timers are shown as summaries.
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}{_PAIR}><>Count", "kafka_{0}_{1}_{2}_count", ("3", "5")),
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}{_PAIR}><>(\d+)thPercentile", "kafka_{0}_{1}_{2}", ("3", "5", "quantile")),
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}><>Count", "kafka_{0}_{1}_{2}_count", ("3",)),
    Rule(rf"{_TYPE_AND_NAME}{_PAIR}><>(\d+)thPercentile", "kafka_{0}_{1}_{2}", ("3", "quantile")),
    Rule(rf"{_TYPE_AND_NAME}><>Count", "kafka_{0}_{1}_{2}_count"),
    Rule(rf"{_TYPE_AND_NAME}><>(\d+)thPercentile", "kafka_{0}_{1}_{2}", ("quantile",)),
    # Shares of time, as an average since the start.
    Rule(rf"{_TYPE_AND_NAME}Percent\w*><>MeanRate", "kafka_{0}_{1}_{2}_percent"),
    Rule(rf"{_TYPE_AND_NAME}Percent\w*><>Value", "kafka_{0}_{1}_{2}_percent"),
    Rule(rf"{_TYPE_AND_NAME}Percent\w*{_PAIR}><>Value", "kafka_{0}_{1}_{2}_percent", ("3",)),
)

_COMPILED: Final = [(re.compile(rule.pattern), rule) for rule in RULES]


def exported(attribute: str) -> Exported | None:
    """How an attribute of an MBean is shown; None if no rule is for it, so that it is not shown at all."""
    for pattern, rule in _COMPILED:
        match = pattern.match(attribute)
        if match is not None:
            groups = match.groups()
            labels = frozenset(
                re.sub(r"\W", "_", groups[int(label)] if label.isdigit() else label) for label in rule.labels
            )
            return Exported(re.sub(r"[^a-z0-9_:]", "_", rule.name.format(*groups).lower()), labels)
    return None


def all_exported(attributes: Iterable[str]) -> set[Exported]:
    """Everything that is shown of these attributes."""
    return {found for attribute in attributes if (found := exported(attribute)) is not None}
