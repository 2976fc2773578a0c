"""The last values that clients have sent, by metric and labels, for a page of metrics.

    org.apache.kafka.producer.connection.creation.rate   →   kafka_client_producer_connection_creation_rate

The prefix keeps clients out of the broker's own metrics. Labels say which client it is; attributes of a point follow.
Totals that come as increases are added up here. What a client may add is bounded, and so is the whole: points beyond
are counted and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.broker.telemetry.otlp import Meaning, Point
from tidelog.metrics import Family, Kind, labels_text
from tidelog.wire.primitives import uuid_to_text

SERIES_MAX: Final = 100_000
SERIES_PER_CLIENT_MAX: Final = 2_000
NAMES_MAX: Final = 2_000
CLIENT_LABELS: Final = ("client_instance_id", "client_id", "client_software_name", "client_software_version")
_PREFIX: Final = "kafka_client_"
_KAFKAS: Final = "org.apache.kafka."
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_RESERVED: Final = frozenset({"le", "quantile", *CLIENT_LABELS})
_GROWING: Final = (Meaning.TOTAL, Meaning.INCREASE)

_Values = dict[str, float]
"""By labels."""


class _Metric:
    __slots__ = ("is_total", "of_clients")

    def __init__(self, is_total: bool) -> None:
        self.is_total = is_total
        self.of_clients: dict[bytes, _Values] = {}


class ClientSeries:
    """All series, and how many points were dropped."""

    def __init__(self) -> None:
        self._metrics: dict[str, _Metric] = {}
        self._counts: dict[bytes, int] = {}
        self._total = 0
        self.received = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._total

    def add(self, instance_id: bytes, properties: Mapping[str, str], point: Point) -> None:
        """Take over one value."""
        self.received += 1
        is_total = point.meaning in _GROWING
        name = _metric_name(point.name)
        metric = self._metrics.get(name)
        if metric is None:
            if len(self._metrics) >= NAMES_MAX or not point.name:
                self.dropped += 1
                return
            metric = self._metrics[name] = _Metric(is_total)
        elif metric.is_total is not is_total:
            self.dropped += 1
            return
        values = metric.of_clients.setdefault(instance_id, {})
        labels = _labels(instance_id, properties, point.attributes)
        before = values.get(labels)
        if before is None:
            if self._total >= SERIES_MAX or self._counts.get(instance_id, 0) >= SERIES_PER_CLIENT_MAX:
                self.dropped += 1
                return
            self._total += 1
            self._counts[instance_id] = self._counts.get(instance_id, 0) + 1
        adds = point.meaning in (Meaning.INCREASE, Meaning.CHANGE)
        values[labels] = point.value + (before or 0.0) if adds else point.value

    def forget(self, instance_id: bytes) -> None:
        """A client is gone."""
        for name, metric in list(self._metrics.items()):
            metric.of_clients.pop(instance_id, None)
            if not metric.of_clients:
                del self._metrics[name]
        self._total -= self._counts.pop(instance_id, 0)

    def families(self) -> Iterator[Family]:
        """Everything there is now."""
        for name, metric in sorted(self._metrics.items()):
            suffix = "_total" if metric.is_total else ""
            samples = [
                (suffix, labels, value) for values in metric.of_clients.values() for labels, value in values.items()
            ]
            kind = Kind.COUNTER if metric.is_total else Kind.GAUGE
            yield Family(name.removesuffix(suffix), kind, "Sent by clients.", samples)


def _metric_name(name: str) -> str:
    return _PREFIX + _NOT_IN_NAMES.sub("_", name.removeprefix(_KAFKAS))


def _labels(instance_id: bytes, properties: Mapping[str, str], attributes: tuple[tuple[str, str], ...]) -> str:
    values = {"client_instance_id": uuid_to_text(instance_id)}
    values.update((name, properties.get(name, "")) for name in CLIENT_LABELS[1:])
    for key, value in sorted(attributes):
        name = _NOT_IN_NAMES.sub("_", key)
        if name[0].isdigit() or name.startswith("__"):
            name = f"label_{name}"
        if name not in _RESERVED:
            values.setdefault(name, value)
    return labels_text(tuple(values), tuple(values.values()))
