"""Requests, and what they bring in and take out by topic: `kafka.network` and Kafka's `BrokerTopicMetrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog.broker.metrics._shapes import Timer, counters
from tidelog.broker.requests.request_meter import ApiMetrics
from tidelog.metrics import Distribution, Family, Kind, labels_text
from tidelog.metrics.families import Sample
from tidelog.replication.traffic import Conversions, TopicCounts
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.requests.request_meter import RequestMeter
    from tidelog.broker.serving.node import Node

_TIMES: Final[tuple[tuple[str, Callable[[ApiMetrics], Distribution], str, float], ...]] = (
    ("totaltimems", lambda api: api.total, "Time from the arrival of a request until its reply left.", 0.001),
    ("requestqueuetimems", lambda api: api.queue, "Time until the handler was called.", 0.001),
    ("localtimems", lambda api: api.local, "Time in which this broker worked on the request.", 0.001),
    ("remotetimems", lambda api: api.remote, "Time in which the request waited for others.", 0.001),
    (
        "responsesendtimems",
        lambda api: api.send,
        "Time from when the reply was there until it was handed to the system.",
        0.001,
    ),
    ("throttletimems", lambda api: api.throttle, "Time that clients had to wait because of a quota.", 0.001),
    ("requestbytes", lambda api: api.request_bytes, "Size of requests.", 1),
)
_CONVERSIONS: Final[tuple[tuple[str, Callable[[Conversions], Distribution], str, float], ...]] = (
    (
        "messageconversionstimems",
        lambda each: each.times,
        "Time that the conversion of a partition's records took.",
        0.001,
    ),
    ("temporarymemorybytes", lambda each: each.bytes, "Memory of a partition's converted records.", 1),
)
_NAME: Final = "kafka_network_requestmetrics"

_BY_TOPIC: Final[tuple[tuple[str, Callable[[TopicCounts], int], str], ...]] = (
    ("messagesin", lambda counts: counts.messages_in, "Records appended by this broker as leader."),
    ("bytesin", lambda counts: counts.bytes_in, "Bytes appended by this broker as leader."),
    ("bytesout", lambda counts: counts.bytes_out, "Bytes sent to consumers."),
    ("bytesrejected", lambda counts: counts.bytes_rejected, "Bytes of batches larger than max.message.bytes."),
    ("totalproducerequests", lambda counts: counts.total_produce_requests, "Partitions of Produce requests."),
    ("totalfetchrequests", lambda counts: counts.total_fetch_requests, "Partitions of Fetch requests."),
    ("failedproducerequests", lambda counts: counts.failed_produce_requests, "Partitions that refused records."),
    ("failedfetchrequests", lambda counts: counts.failed_fetch_requests, "Partitions that could not be read."),
    ("fetchmessageconversions", lambda counts: counts.fetch_conversions, "Records converted for old clients."),
    (
        "producemessageconversions",
        lambda counts: counts.produce_conversions,
        "Records converted from an old format or to the codec of their topic.",
    ),
)
_TOPICS: Final = "kafka_server_brokertopicmetrics"


class RequestFamilies:
    """The figures of every API that was used."""

    def __init__(self, node: Node, meter: RequestMeter) -> None:
        self._node = node
        self._meter = meter
        self._timers: dict[tuple[str, str], Timer] = {}
        traffic = node.replica_manager.traffic
        assert traffic is not None, "a broker with metrics counts"
        self._conversions = [
            (suffix, documentation, [(api, Timer(read(each), unit)) for api, each in traffic.conversions.items()])
            for suffix, read, documentation, unit in _CONVERSIONS
        ]

    def families(self) -> Iterator[Family]:
        apis = sorted(self._meter.apis(), key=lambda api: api.name)
        yield counters(
            f"{_NAME}_requests",
            "Requests that came.",
            (
                (labels_text(("request", "version"), (api.name, str(version))), count)
                for api in apis
                for version, count in enumerate(api.counts)
                if count
            ),
        )
        for suffix, read, documentation, unit in _TIMES:
            name = f"{_NAME}_{suffix}"
            yield Family(name, Kind.GAUGE, documentation, self._times(apis, suffix, read, unit))
            counts = [("", labels_text(("request",), (api.name,)), api.count) for api in apis]
            yield Family(f"{name}_count", Kind.COUNT, f"{documentation} How many.", counts)
        for suffix, documentation, timers in self._conversions:
            name = f"{_NAME}_{suffix}"
            labelled = [(labels_text(("request",), (api,)), timer) for api, timer in timers]
            samples = [sample for labels, timer in labelled for sample in timer.samples(labels)]
            yield Family(name, Kind.GAUGE, documentation, samples)
            counts = [("", labels, timer.count) for labels, timer in labelled]
            yield Family(f"{name}_count", Kind.COUNT, f"{documentation} How many.", counts)
        yield counters(
            f"{_NAME}_errors", "Errors in replies, by partition where partitions have their own.", self._errors(apis)
        )

    def _times(
        self, apis: Iterable[ApiMetrics], suffix: str, read: Callable[[ApiMetrics], Distribution], unit: float
    ) -> Iterator[Sample]:
        for api in apis:
            key = suffix, api.name
            timer = self._timers.get(key)
            if timer is None:
                timer = self._timers[key] = Timer(read(api), unit)
            yield from timer.samples(labels_text(("request",), (api.name,)))

    def _errors(self, apis: Iterable[ApiMetrics]) -> Iterator[tuple[str, float]]:
        traffic = self._node.replica_manager.traffic
        errors = {} if traffic is None else dict(traffic.errors)
        failed: Counter[str] = Counter()
        for (api_name, code), count in errors.items():
            failed[api_name] += count
            yield labels_text(("request", "error"), (api_name, _error_name(code))), count
        for api in apis:
            # A request with two partitions may have two errors.
            yield labels_text(("request", "error"), (api.name, "NONE")), max(api.count - failed[api.name], 0)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class TopicFamilies:
    """What goes in and out: of all topics, and by topic."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def families(self) -> Iterator[Family]:
        traffic = self._node.replica_manager.traffic
        assert traffic is not None, "a broker with metrics counts"
        total = traffic.total()
        for suffix, read, documentation in _BY_TOPIC:
            yield counters(f"{_TOPICS}_{suffix}", documentation, self._counts(read, total))
        fetched, reassigned = self._node.topology.bytes_fetched()
        for suffix, documentation, value in (
            ("replicationbytesin", "Bytes fetched from leaders.", fetched),
            ("replicationbytesout", "Bytes sent to followers.", traffic.replication_bytes_out),
            ("reassignmentbytesin", "Bytes fetched for partitions that a reassignment adds.", reassigned),
            (
                "reassignmentbytesout",
                "Bytes sent to replicas that a reassignment adds.",
                traffic.reassignment_bytes_out,
            ),
        ):
            yield counters(f"{_TOPICS}_{suffix}", documentation, [("", value)])
        crc = traffic.errors.get(("Produce", ErrorCode.CORRUPT_MESSAGE), 0)
        yield counters(f"{_TOPICS}_invalidmessagecrcrecords", "Batches that were corrupt.", [("", crc)])

    def _counts(self, read: Callable[[TopicCounts], int], total: TopicCounts) -> Iterator[tuple[str, float]]:
        traffic = self._node.replica_manager.traffic
        assert traffic is not None, "a broker with metrics counts"
        yield "", read(total)
        for topic, counts in traffic.topics():
            yield labels_text(("topic",), (topic,)), read(counts)
