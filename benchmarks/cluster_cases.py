"""What is measured on three brokers: replicated produces, a restart, failovers, the start, the memory.

Every topic has three replicas and every produce asks for acks=all, with `min.insync.replicas` of two.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks import frames, load
from benchmarks.admin import Admin, AdminError, open_socket
from benchmarks.cases import (
    RECORD_BYTES,
    SLICE_BYTES,
    SMALL_RECORD,
    Better,
    Case,
    Figure,
    Figures,
    below,
    times_kafka,
)
from benchmarks.clusters import BROKERS, BrokerCluster
from benchmarks.control_plane import control_plane
from benchmarks.following import FollowingProducer, PacedProducers
from benchmarks.lab import DELETION_SECONDS_MAX, Bench, reply_size
from benchmarks.more_brokers import SIZES, more_brokers

MB = 1e6
BATCH_BYTES: Final = 100 << 10
PRODUCERS: Final = 50
PRODUCER_PARTITIONS: Final = 6
RESTART_SECONDS: Final = 10.0
RESTART_INTERVAL_SECONDS: Final = 0.02
FIRST_RECORD_SECONDS_MAX: Final = 120.0

_serials = itertools.count()


def cluster_of(bench: Bench) -> BrokerCluster:
    assert isinstance(bench.broker, BrokerCluster), "cluster cases run on clusters"
    return bench.broker


@dataclass(frozen=True, slots=True)
class ReplicatedTopic:
    """A topic with three replicas and the leader of each partition when it was made."""

    name: str
    cluster: BrokerCluster
    leaders: tuple[int, ...]

    @contextmanager
    def connections(self, count: int) -> Iterator[list[socket.socket]]:
        """Connections to the leaders of the partitions, in turn."""
        with contextlib.ExitStack() as stack:
            addresses = [self.cluster.members[leader].address for leader in self.leaders]
            chosen = itertools.islice(itertools.cycle(addresses), count)
            yield [stack.enter_context(open_socket(address)) for address in chosen]

    def require_records(self, expected: int, *, at_most: int | None = None) -> None:
        """Fail unless each acknowledged record is committed. Records that were sent again may be there twice."""
        found = self.cluster.wait_for(self._end_offsets, "end offsets")
        if not expected <= found <= (expected if at_most is None else at_most):
            raise RuntimeError(f"{self.name} holds {found} records, but {expected} were acknowledged")

    def _end_offsets(self) -> int:
        """The sum of the high watermarks, as the leaders of now know them."""
        total = 0
        with self.cluster.admin() as admin:
            leaders = admin.describe(self.name).leaders
        for partition, leader in enumerate(leaders):
            with self.cluster.admin(leader) as admin:
                total += admin.offsets(self.name, [partition])[partition]
        return total


@contextmanager
def replicated_topic(cluster: BrokerCluster, partitions: int = 1) -> Iterator[ReplicatedTopic]:
    """A topic of this case alone, in sync when it is yielded, deleted with its files afterwards."""
    name = f"bench-{next(_serials)}"
    with cluster.admin() as admin:
        admin.create(name, partitions, replicas=BROKERS)
        leaders = admin.describe(name).leaders
    for broker_id in cluster.members:
        with cluster.admin(broker_id) as admin:
            admin.wait_until_led(name)
    cluster.wait_for(lambda: cluster.in_sync(name), f"{name} in sync")
    yield ReplicatedTopic(name, cluster, leaders)
    with cluster.admin() as admin:
        admin.delete(name)
    deadline = time.monotonic() + DELETION_SECONDS_MAX
    while any(cluster.directory.glob(f"*/data/{name}-*")) and time.monotonic() < deadline:
        time.sleep(0.05)


# --- replicated produces ---


def single_records(bench: Bench) -> Figures:
    """One record a request, the next only after all replicas have it."""
    with replicated_topic(cluster_of(bench)) as topic, topic.connections(1) as (sock,):
        frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]))
        reply_bytes = reply_size(sock, frame)
        sample, sent = bench.measure(lambda seconds: load.one_at_a_time(sock, [frame], reply_bytes, seconds))
        topic.require_records(sent + 1)
    return {"rate": sample.requests_per_second, "p50": sample.latency_us(50), "p99": sample.latency_us(99)}


def pipelined_records(bench: Bench) -> Figures:
    """One record a request, 16 requests on their way."""
    with replicated_topic(cluster_of(bench)) as topic, topic.connections(1) as (sock,):
        frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]))
        reply_bytes = reply_size(sock, frame)
        sample, sent = bench.measure(lambda seconds: load.in_flight(sock, frame, reply_bytes, 16, seconds))
        topic.require_records(sent + 1)
    return {"rate": sample.requests_per_second}


def batches(bench: Bench) -> Figures:
    """100 KB batches of 1 KB records, one at a time; counts the bytes that were produced, not those of all replicas."""
    records = frames.batch_of_bytes(BATCH_BYTES, RECORD_BYTES)
    with replicated_topic(cluster_of(bench)) as topic, topic.connections(1) as (sock,):
        frame = frames.produce(topic.name, 0, records)
        reply_bytes = reply_size(sock, frame)
        slice_requests = SLICE_BYTES // BATCH_BYTES // BROKERS

        def loop(seconds: float) -> load.Sample:
            bench.claim_memory(SLICE_BYTES)
            return load.one_at_a_time(sock, [frame], reply_bytes, seconds, slice_requests)

        sample, sent = bench.measure(loop, is_divisible=False)
        topic.require_records((sent + 1) * (BATCH_BYTES // RECORD_BYTES))
    return {"throughput": sample.requests * len(records) / sample.seconds / MB}


def producers(bench: Bench) -> Figures:
    """50 producers, each with one record on its way, over partitions that all three brokers lead."""
    with (
        replicated_topic(cluster_of(bench), PRODUCER_PARTITIONS) as topic,
        topic.connections(PRODUCERS) as socks,
    ):
        records = frames.batch([SMALL_RECORD])
        by_partition = [frames.produce(topic.name, index, records) for index in range(PRODUCER_PARTITIONS)]
        requests = [by_partition[number % PRODUCER_PARTITIONS] for number in range(PRODUCERS)]
        reply_bytes = reply_size(socks[0], by_partition[0])
        sample, sent = bench.measure(lambda seconds: load.many_connections(socks, requests, reply_bytes, seconds))
        topic.require_records(sent + 1)
    return {"rate": sample.requests_per_second}


# --- faults ---


def restart(bench: Bench) -> Figures:
    """What producers to three partitions see while one broker is stopped in order and started again."""
    cluster = cluster_of(bench)
    with replicated_topic(cluster, BROKERS) as topic:
        sending = [FollowingProducer(cluster, topic.name, index, SMALL_RECORD) for index in range(BROKERS)]
        with PacedProducers(sending, RESTART_INTERVAL_SECONDS) as paced:
            time.sleep(1.0)
            began = time.monotonic()
            stopped = topic.leaders[0]
            cluster.members[stopped].stop()
            cluster.restart(stopped)
            cluster.wait_for(lambda: cluster.in_sync(topic.name), f"{topic.name} in sync")
            back = time.monotonic() - began
            time.sleep(max(RESTART_SECONDS - back, 1.0))
        latencies = sorted(paced.latencies())
        topic.require_records(sum(each.acknowledged for each in sending), at_most=2 * len(latencies))
    return {
        "p99": latencies[int(len(latencies) * 0.99)] * 1000,
        "max": latencies[-1] * 1000,
        "back": back,
    }


def failover(bench: Bench) -> Figures:
    """A leader is killed: until the first acknowledged write to its partition."""
    cluster = cluster_of(bench)
    with replicated_topic(cluster) as topic:
        producer = FollowingProducer(cluster, topic.name, 0, SMALL_RECORD)
        producer.send()
        killed = topic.leaders[0]
        began = time.perf_counter()
        session = cluster.kill_member(killed)
        producer.send()
        acknowledged = time.perf_counter()
        producer.close()
        beyond = acknowledged - session.wait()
        topic.require_records(2, at_most=3)
        cluster.restart(killed)
        cluster.wait_for(lambda: cluster.in_sync(topic.name), f"{topic.name} in sync")
    return {"beyond": beyond, "seconds": acknowledged - began}


def controller_failover(partitions: int) -> Callable[[Bench], Figures]:
    """The controller is killed: until every partition it led has another leader and a new topic is created."""

    def run(bench: Bench) -> Figures:
        count = partitions // 10 if bench.is_quick else partitions
        with bench.fresh_broker() as cluster:
            assert isinstance(cluster, BrokerCluster), "cluster cases run on clusters"
            cluster.start()
            before = time.perf_counter()
            with cluster.admin() as admin:
                admin.create("wide", count, replicas=BROKERS)
            created = time.perf_counter() - before
            cluster.wait_for(lambda: cluster.in_sync("wide"), "wide in sync")
            killed = cluster.controller()
            session = cluster.kill_member(killed)
            _create_topic_somewhere(cluster, "after")
            cluster.wait_for(lambda: _is_led_without(cluster, "wide", killed), "leaders of wide")
            beyond = time.perf_counter() - session.wait()
        return {"beyond": beyond, "created": created}

    return run


def _create_topic_somewhere(cluster: BrokerCluster, name: str) -> None:
    """Ask the brokers that are left in turn, until one of them has become the controller and creates the topic."""

    def is_created() -> bool:
        for member in cluster.running().values():
            with contextlib.suppress(AdminError), Admin.connect(member.address) as admin:
                admin.create(name, replicas=2)
                return True
        return False

    cluster.wait_for(is_created, f"topic {name}")


def _is_led_without(cluster: BrokerCluster, topic: str, broker_id: int) -> bool:
    """Whether all running brokers know a leader other than `broker_id` for every partition."""
    for member in cluster.running().values():
        with Admin.connect(member.address) as admin:
            description = admin.describe(topic)
        if not description.is_led or broker_id in description.leaders:
            return False
    return True


# --- the whole cluster ---


def start(bench: Bench) -> Figures:
    """Three empty directories: until the first record is acknowledged; and what the brokers take a second later."""
    with bench.fresh_broker() as cluster:
        assert isinstance(cluster, BrokerCluster), "cluster cases run on clusters"
        began = time.perf_counter()
        cluster.spawn()
        _first_record(cluster)
        seconds = time.perf_counter() - began
        time.sleep(1.0)
        return {"seconds": seconds, "idle": cluster.usage().resident_bytes / MB}


def _first_record(cluster: BrokerCluster) -> None:
    """Try, as an impatient producer does, until one record is acknowledged by all replicas of an auto-created topic."""
    producer = FollowingProducer(cluster, "first", 0, SMALL_RECORD)
    address = cluster.members[1].address
    deadline = time.monotonic() + FIRST_RECORD_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            with Admin.connect(address) as admin:
                admin.wait_until_led("first", auto_create=True)
            producer.send()
            return
        except (OSError, AdminError):
            cluster.members[1].child.check_alive()
            time.sleep(0.001)
        finally:
            producer.close()
    raise RuntimeError(f"{cluster.name} acknowledged nothing within {FIRST_RECORD_SECONDS_MAX:.0f} s")


def memory(bench: Bench) -> Figures:
    """The brokers that have carried all the loads before this case."""
    samples = []
    for _ in range(3):
        samples.append(cluster_of(bench).usage().resident_bytes / MB)
        time.sleep(0.3)
    return {"loaded": statistics.median(samples)}


def _rate(title: str) -> Figure:
    return Figure("rate", title, "requests/s", Better.HIGHER, times_kafka(1))


def _controller_case(partitions: int, rounds_max: int = 99) -> Case:
    title = f"controller killed, {partitions:,} partitions: session over to all led, a topic created"
    created = f"{partitions:,} partitions with three replicas: create"
    return Case(
        f"controller-{partitions}",
        controller_failover(partitions),
        (
            Figure("beyond", title, "s", Better.LOWER, times_kafka(1)),
            Figure("created", created, "s", Better.LOWER, times_kafka(1)),
        ),
        rounds_max=rounds_max,
    )


CLUSTER_CASES: Final = {
    case.name: case
    for case in (
        Case(
            "start",
            start,
            (
                Figure("seconds", "start of three brokers to first acknowledged record", "s", Better.LOWER, below(2)),
                Figure("idle", "memory of three brokers, idle", "MB", Better.LOWER, times_kafka(1)),
            ),
        ),
        Case(
            "single",
            single_records,
            (
                _rate("single 100 B record, one at a time"),
                Figure("p50", "produce latency, p50", "µs", Better.LOWER, times_kafka(1)),
                Figure("p99", "produce latency, p99", "µs", Better.LOWER, times_kafka(1)),
            ),
        ),
        Case("pipelined", pipelined_records, (_rate("single 100 B record, 16 in flight"),)),
        Case(
            "batch-100k",
            batches,
            (Figure("throughput", "100 KB batches", "MB/s", Better.HIGHER, times_kafka(1)),),
        ),
        Case("producers-50", producers, (_rate("50 producers, one in flight each, 6 partitions"),)),
        Case(
            "memory",
            memory,
            (Figure("loaded", "memory of three brokers, after load", "MB", Better.LOWER, times_kafka(1)),),
        ),
        Case(
            "restart",
            restart,
            (
                Figure("p99", "a broker restarts: latency, p99", "ms", Better.LOWER, times_kafka(1)),
                Figure("max", "a broker restarts: latency, longest", "ms", Better.LOWER, times_kafka(1)),
                Figure("back", "a broker restarts: all replicas in sync again", "s", Better.LOWER, times_kafka(1)),
            ),
        ),
        Case(
            "failover",
            failover,
            (
                Figure("beyond", "leader killed: session over to first acknowledgement", "s", Better.LOWER, below(1)),
                Figure("seconds", "leader killed: all in all, session timeout included", "s", Better.LOWER),
            ),
        ),
        Case(
            "brokers",
            more_brokers,
            (
                *(
                    Figure(f"rate_{size}", f"unreplicated, 16 in flight a broker; brokers: {size}", "requests/s")
                    for size in SIZES
                ),
                Figure("two", "two brokers over one", "×"),
                Figure("three", "three brokers over one", "×"),
            ),
            is_tidelog_only=True,
        ),
        Case(
            "control",
            control_plane,
            (
                Figure("idle", "a request of the controller, idle broker, p99", "ms", Better.LOWER),
                Figure("median", "a request of the controller, 200 connections busy, p50", "ms", Better.LOWER),
                Figure("p99", "a request of the controller, 200 connections busy, p99", "ms", Better.LOWER, below(5)),
                Figure("rate", "these connections meanwhile, 16 KB each", "requests/s"),
            ),
            is_tidelog_only=True,
        ),
        _controller_case(1_000),
        _controller_case(10_000, rounds_max=1),
    )
}
