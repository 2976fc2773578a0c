"""The metrics of clients on a registry's pages, beside those of the program that uses them.

What a page shows is what `metrics()` returns when it is made: nothing is counted twice, and nothing is done in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol
from weakref import WeakKeyDictionary, ref

from tidelog.client.errors import ClientError
from tidelog.client.metrics import AnyMetrics, BrokerMetrics, ConsumerMetrics, ProducerMetrics
from tidelog.metrics import Family, Kind, Registry, labels_text
from tidelog.metrics.families import Sample

_names: WeakKeyDictionary[Registry, dict[str, int]] = WeakKeyDictionary()
"""How many clients of one id each registry has."""

_OF_BROKERS: Final[tuple[tuple[str, Kind, str, Callable[[BrokerMetrics], float]], ...]] = (
    ("connections", Kind.GAUGE, "Open connections.", lambda each: each.connections_open),
    ("connections_made", Kind.COUNTER, "Connections that were made.", lambda each: each.connections_made),
    ("connections_failed", Kind.COUNTER, "Attempts to connect that failed.", lambda each: each.connections_failed),
    ("connections_lost", Kind.COUNTER, "Connections that ended by an error.", lambda each: each.connections_lost),
    ("requests", Kind.COUNTER, "Requests.", lambda each: each.requests),
    ("requests_in_flight", Kind.GAUGE, "Requests without a reply.", lambda each: each.requests_in_flight),
    ("sent_bytes", Kind.COUNTER, "Bytes sent.", lambda each: each.bytes_sent),
    ("received_bytes", Kind.COUNTER, "Bytes received.", lambda each: each.bytes_received),
)
_OF_PRODUCER: Final = {
    "records_stored": (Kind.COUNTER, "Records that brokers have stored."),
    "bytes_stored": (Kind.COUNTER, "Bytes of their batches."),
    "batches_stored": (Kind.COUNTER, "Those batches."),
    "batches_retried": (Kind.COUNTER, "Batches that were sent again."),
    "records_failed": (Kind.COUNTER, "Records that could not be stored."),
    "batches_waiting": (Kind.GAUGE, "Batches that are not sent yet, or sent again."),
}
_OF_CONSUMER: Final = {
    "records_returned": (Kind.COUNTER, "Records that polls have returned."),
    "bytes_fetched": (Kind.COUNTER, "Bytes that were fetched."),
    "position": (Kind.GAUGE, "Offset of the next record."),
    "lag": (Kind.GAUGE, "Records between the position and the end of the partition."),
    "fetches_waiting": (Kind.GAUGE, "Fetches that no poll has returned yet."),
}


class MeasuredClient(Protocol):
    """A producer, a consumer or an admin."""

    def metrics(self) -> AnyMetrics: ...


def export_metrics(client: MeasuredClient, registry: Registry) -> None:
    """Show the metrics of a client on the pages of `registry` until it is closed.

    Pages of asyncio clients must be made on their event loop, those of the others on any thread. A second client of the
    same `client.id` is shown as `<id>-2`.
    """
    known = ref(client)
    name: str | None = None

    def collect() -> Iterable[Family]:
        nonlocal name
        found = known()
        try:
            figures = None if found is None else found.metrics()
        except ClientError:
            figures = None
        if figures is None:
            registry.remove_collector(collect)
            return ()
        name = name or _name_of(figures.client_id, registry)
        return _families(figures, name)

    registry.add_collector(collect)


def _name_of(client_id: str, registry: Registry) -> str:
    names = _names.setdefault(registry, {})
    names[client_id] = number = names.get(client_id, 0) + 1
    return client_id if number == 1 else f"{client_id}-{number}"


def _families(figures: AnyMetrics, name: str) -> Iterator[Family]:
    yield from _brokers(figures, name)
    if isinstance(figures, ProducerMetrics):
        yield from _partitions("tidelog_producer", _OF_PRODUCER, figures, name)
        for suffix, documentation, value in (
            ("batches_incomplete", "Batches that wait or are under way.", figures.batches_incomplete),
            ("buffer_used_bytes", "Memory of records that are not stored yet.", figures.buffer_bytes_used),
            ("buffer_total_bytes", "Memory that they may use: buffer.memory.", figures.buffer_bytes_total),
            ("sends_waiting", "Calls of send that wait for memory.", figures.sends_waiting),
        ):
            labels = labels_text(("client_id",), (name,))
            yield Family(f"tidelog_producer_{suffix}", Kind.GAUGE, documentation, [("", labels, value)])
    elif isinstance(figures, ConsumerMetrics):
        yield from _partitions("tidelog_consumer", _OF_CONSUMER, figures, name)


def _brokers(figures: AnyMetrics, name: str) -> Iterator[Family]:
    brokers = list(figures.brokers.values())
    for suffix, kind, documentation, read in _OF_BROKERS:
        end = "_total" if kind is Kind.COUNTER else ""
        samples = [
            (end, labels_text(("client_id", "node"), (name, str(broker.node_id))), read(broker)) for broker in brokers
        ]
        yield Family(f"tidelog_client_{suffix}", kind, documentation, samples)
    times: list[Sample] = []
    for broker in brokers:
        for api, replies in broker.by_api.items():
            labels = labels_text(("client_id", "node", "api"), (name, str(broker.node_id), api))
            times.append(("_count", labels, replies.replies))
            times.append(("_sum", labels, replies.replies * replies.latency_s_mean))
    yield Family("tidelog_client_request_seconds", Kind.SUMMARY, "Time until a request was answered.", times)


def _partitions(
    prefix: str, fields: dict[str, tuple[Kind, str]], figures: ProducerMetrics | ConsumerMetrics, name: str
) -> Iterator[Family]:
    partitions = [
        (labels_text(("client_id", "topic", "partition"), (name, key.topic, str(key.partition))), each)
        for key, each in figures.partitions.items()
    ]
    for field, (kind, documentation) in fields.items():
        end = "_total" if kind is Kind.COUNTER else ""
        samples = [(end, labels, value) for labels, each in partitions if (value := getattr(each, field)) is not None]
        yield Family(f"{prefix}_{field}", kind, documentation, samples)
