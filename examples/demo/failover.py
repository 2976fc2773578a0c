"""`tidelog demo failover`: a leader is killed under load; what producers saw, and a proof that nothing was lost."""

import importlib.util
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.cli.progress import progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.testing.cluster import Cluster
from tidelog.wire.errors import ApiError, ErrorCode

TOPIC: Final = "failover-demo"
BROKERS: Final = 3
PARTITIONS: Final = 6
_TIMEOUT_S: Final = 120.0
_BUCKET_S: Final = 0.5
_BAR_WIDTH: Final = 40
_BAR_FROM_MS: Final = 0.1
_KILL_AT: Final = 1 / 3
_RESTART_AT: Final = 2 / 3

_SUMMARY: Final = """
Proof
  {sent} records were sent with acks=all, {acknowledged} acknowledged; {read} were read back, each of these once.
  Broker {broker} led {led} of {partitions} partitions; it was killed after {killed:.1f} s and back after {back:.1f} s.
  A record took {p50} (p50), {p99} (p99); the longest wait was {longest}.
"""


class Acknowledgement(NamedTuple):
    """One record: when it was sent, in seconds from the start, and how long its acknowledgement took."""

    sent_s: float
    latency_s: float


class Fault(NamedTuple):
    """The broker that was killed, how many partitions it led, and when it went and came back."""

    broker: int
    led: int
    killed_s: float
    back_s: float


class Bucket(NamedTuple):
    """The records that were sent within one step of the timeline."""

    start_s: float
    records: int
    p50_ms: float
    longest_ms: float


def run(seconds: float, rate: int, picture: str | None, *, is_json: bool) -> None:
    """Start the cluster and the load, kill, restart, read back, report. Raises CommandError if anything is lost."""
    if picture is not None and importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--picture needs matplotlib: pip install 'tidelog[demo]'")
    with Cluster(BROKERS) as cluster:
        _say(f"{BROKERS} brokers ready at {cluster.bootstrap_servers}")
        _create_topic(cluster)
        load = _Load(cluster.bootstrap_servers, seconds, rate)
        load.start()
        fault = _kill_and_restart(cluster, load, seconds)
        load.join(seconds + _TIMEOUT_S)
        load.check()
        counts = _read_back(cluster.bootstrap_servers, len(load.acknowledged))
    _report(load, fault, counts, picture, is_json=is_json)


def _create_topic(cluster: Cluster) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        while True:
            try:
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])
                return
            except ApiError as error:
                # The broker that was asked does not know of all the others yet.
                if error.code != ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


class _Load(threading.Thread):
    """A producer in a thread of its own, which sends numbered records at a steady rate and notes each answer."""

    def __init__(self, servers: str, seconds: float, rate: int) -> None:
        super().__init__(name="demo-producer", daemon=True)
        self._servers = servers
        self._rate = rate
        self.records = max(1, int(seconds * rate))
        self.acknowledged: dict[int, Acknowledgement] = {}
        self.refused: list[Exception] = []
        self._failure: Exception | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the first record."""
        return time.monotonic() - self._began

    def run(self) -> None:
        try:
            self._produce()
        except Exception as failure:  # noqa: BLE001 - raised again by whoever waits for the thread
            self._failure = failure

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self._servers, "acks": "all", "delivery.timeout.ms": int(_TIMEOUT_S * 1000)}
        with Producer(settings) as producer, progress("sending", self.records) as watcher:
            producer.send(TOPIC, b"", partition=0).result(_TIMEOUT_S)  # connections and metadata are there from now on
            self._began = time.monotonic()
            sent = 0
            while sent < self.records:
                due = min(self.records, int(self.seconds * self._rate) + 1)
                for number in range(sent, due):
                    note = partial(self._note, number, self.seconds)
                    producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=note)
                watcher.advance(due - sent)
                sent = due
                time.sleep(1 / self._rate)
            producer.flush(_TIMEOUT_S)

    def _note(self, number: int, sent_s: float, _metadata: object, error: Exception | None) -> None:
        if error is None:
            self.acknowledged[number] = Acknowledgement(sent_s, self.seconds - sent_s)
        else:
            self.refused.append(error)

    def check(self) -> None:
        """Raise unless every record was answered."""
        if self._failure is not None:
            raise self._failure
        if self.is_alive():
            raise CommandError(f"{len(self.acknowledged):,} of {self.records:,} records were acknowledged in time")
        if self.refused:
            raise CommandError(f"{len(self.refused):,} of {self.records:,} records were refused: {self.refused[0]}")


def _kill_and_restart(cluster: Cluster, load: _Load, seconds: float) -> Fault:
    """Kill the leader of the first partition when a third of the time is over, and start it at two thirds."""
    _wait_until(load, seconds * _KILL_AT)
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        leaders = [partition.leader_id for partition in admin.describe_topics([TOPIC])[TOPIC].partitions]
    broker, led = leaders[0], leaders.count(leaders[0])
    killed_s = load.seconds
    cluster.kill(broker)
    _say(f"broker {broker} killed after {killed_s:.1f} s")
    _wait_until(load, seconds * _RESTART_AT)
    cluster.restart(broker)
    back_s = load.seconds
    _say(f"broker {broker} back after {back_s:.1f} s")
    return Fault(broker, led, killed_s, back_s)


def _wait_until(load: _Load, seconds: float) -> None:
    while load.is_alive() and load.seconds < seconds:
        time.sleep(0.01)


def _read_back(servers: str, expected: int) -> Counter[int]:
    """How often each number is in the topic."""
    counts: Counter[int] = Counter()
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    with (
        Consumer({"bootstrap.servers": servers, "enable.auto.commit": False}) as consumer,
        progress("reading back", expected) as watcher,
    ):
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            polled = [record for record in consumer.poll(0.5) if record.value]
            counts.update(int(record.value or b"") for record in polled)
            watcher.advance(len(polled))
    return counts


# --- what is shown ---


def timeline(acknowledgements: Sequence[Acknowledgement]) -> list[Bucket]:
    """The latencies in steps of half a second, by the time at which records were sent."""
    by_step: dict[int, list[float]] = {}
    for each in acknowledgements:
        by_step.setdefault(int(each.sent_s / _BUCKET_S), []).append(each.latency_s * 1000)
    return [
        Bucket(step * _BUCKET_S, len(found), _percentile(found, 50), max(found))
        for step, found in sorted(by_step.items())
    ]


def _percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def draw_timeline(buckets: Sequence[Bucket], fault: Fault) -> str:
    """A bar for each step, as long as the logarithm of its longest latency."""
    top = math.log(max(10 * _BAR_FROM_MS, *(bucket.longest_ms for bucket in buckets)) / _BAR_FROM_MS)
    lines = ["sent after   longest wait for an acknowledgement"]
    for bucket in buckets:
        length = math.log(max(bucket.longest_ms, _BAR_FROM_MS) / _BAR_FROM_MS) / top
        marks = [
            text
            for text, at in ((f"broker {fault.broker} killed", fault.killed_s), ("back", fault.back_s))
            if bucket.start_s <= at < bucket.start_s + _BUCKET_S
        ]
        bar = "█" * max(1, round(length * _BAR_WIDTH))
        text = f"{bucket.start_s:8.1f} s   {bar:{_BAR_WIDTH}} {_duration(bucket.longest_ms):>8}  {'  '.join(marks)}"
        lines.append(text.rstrip())
    return "\n".join(lines)


def draw_picture(path: str, acknowledgements: Sequence[Acknowledgement], fault: Fault) -> None:
    """A PNG with a point for each record."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(10, 5), layout="constrained")
    times = [each.sent_s for each in acknowledgements]
    panel.scatter(times, [each.latency_s * 1000 for each in acknowledgements], s=4, color="#2a78b8", linewidth=0)
    panel.axvspan(fault.killed_s, fault.back_s, color="#888888", alpha=0.18, linewidth=0)
    panel.text(fault.killed_s, 1.01, f"broker {fault.broker} is down", transform=panel.get_xaxis_transform())
    panel.set_yscale("log")
    panel.set_xlabel("sent after, seconds")
    panel.set_ylabel("acknowledged after, ms")
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _duration(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.1f} ms"


def _report(load: _Load, fault: Fault, counts: Counter[int], picture: str | None, *, is_json: bool) -> None:
    acknowledgements = list(load.acknowledged.values())
    lost = [number for number in load.acknowledged if not counts[number]]
    duplicates = sum(count - 1 for count in counts.values())
    latencies = [each.latency_s * 1000 for each in acknowledgements]
    p50, p99, longest = _percentile(latencies, 50), _percentile(latencies, 99), max(latencies)
    buckets = timeline(acknowledgements)
    if picture is not None:
        draw_picture(picture, acknowledgements, fault)
    if is_json:
        document: dict[str, Any] = {
            "sent": load.records,
            "acknowledged": len(acknowledgements),
            "read": sum(counts.values()),
            "lost": len(lost),
            "duplicates": duplicates,
            "fault": fault._asdict(),
            "latency_ms": {"p50": p50, "p99": p99, "longest": longest},
            "timeline": [bucket._asdict() for bucket in buckets],
            "picture": picture,
        }
        print_json(document)
    if lost:
        raise CommandError(f"{len(lost):,} acknowledged records are lost; the first is {min(lost)}")
    if duplicates:
        raise CommandError(f"{duplicates:,} records are there more than once")
    if is_json:
        return
    print_line(draw_timeline(buckets, fault))
    print_line(
        _SUMMARY.format(
            sent=f"{load.records:,}",
            acknowledged=f"{len(acknowledgements):,}",
            read=f"{sum(counts.values()):,}",
            broker=fault.broker,
            led=fault.led,
            partitions=PARTITIONS,
            killed=fault.killed_s,
            back=fault.back_s,
            p50=_duration(p50),
            p99=_duration(p99),
            longest=_duration(longest),
        ).rstrip()
    )
    if picture is not None:
        print_line(f"  Every record is drawn in {picture}.")


def _say(text: str) -> None:
    sys.stderr.write(f"tidelog: {text}\n")
