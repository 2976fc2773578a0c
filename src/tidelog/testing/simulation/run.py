"""One seed from beginning to end: clients, faults, then peace, and the question whether every promise held.

`run_seed` returns a `Report`. The schedule of a seed that fails can be shortened with `shorten`: faults are left out
one by one, and stay out where the seed fails without them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from time import process_time
from typing import Final

from tidelog.client import AsyncAdmin, ClientError, NewTopic
from tidelog.testing.simulation import coordinator_state
from tidelog.testing.simulation.cleaning import COMPACTED_TOPIC, COMPACTING_BROKER, soon_settled
from tidelog.testing.simulation.delay_switching import DELAY_ENABLE, DelaySwitching
from tidelog.testing.simulation.delayed_load import DelayedLoad
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC
from tidelog.testing.simulation.faults import Fault, begin, draw_schedule
from tidelog.testing.simulation.history import History
from tidelog.testing.simulation.machine import SimulatedClock
from tidelog.testing.simulation.simulation import Simulation, SimulationFailed
from tidelog.testing.simulation.swarm import Swarm, draw_swarm
from tidelog.testing.simulation.workload import PARTITIONS, TOPIC, TRANSACTIONS_TOPIC, Workload, read_everything

FAULT_SECONDS: Final = 8.0
FAULTS_PER_SEED: Final = 6
_HEALTHY_SECONDS_MAX: Final = 120.0
_REST_SECONDS_MAX: Final = 60.0
_DELAYED_SECONDS_MAX: Final = 300.0
_CREATION_ATTEMPTS: Final = 50
_STORY_LINES: Final = 60


@dataclass
class Report:
    """What one seed showed."""

    seed: int
    anomalies: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """Those that happened."""
    counts: Counter[str] = field(default_factory=Counter)
    """What clients and brokers did."""
    schedule: Sequence[Fault] = ()
    has_delayed: bool = False
    """Whether there were delayed records in any case."""
    story: list[str] = field(default_factory=list)
    virtual_seconds: float = 0.0
    processor_seconds: float = 0.0
    events: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.anomalies)


def warm_up() -> None:
    """Prepare a process for many seeds: what is loaded now is exempted from the garbage collection after each."""
    with _quiet(), Simulation(0, brokers=2):
        pass
    gc.collect()
    gc.freeze()


def run_seed(
    seed: int, brokers: int = 3, schedule: Sequence[Fault] | None = None, *, has_delayed: bool = False
) -> Report:
    """Run one seed, with delayed records in any case if `has_delayed`.

    A schedule of one's own is for trying a failing seed with fewer faults.
    """
    if schedule is None:
        schedule = draw_schedule(seed, FAULT_SECONDS, FAULTS_PER_SEED)
    report = Report(seed, schedule=schedule, has_delayed=has_delayed)
    began = process_time()
    swarm = draw_swarm(seed, brokers)
    if has_delayed:
        swarm = replace(swarm, has_delayed=True)
    settings = swarm.settings
    with ExitStack() as undo:
        failed_requests = undo.enter_context(_quiet())
        if swarm.has_delayed:
            undo.enter_context(soon_settled())
            settings = {**settings, **(COMPACTING_BROKER if swarm.is_compacted else {})}
        cluster = undo.enter_context(Simulation(seed, brokers, settings))
        try:
            _live(cluster, report, swarm)
        except SimulationFailed as failure:
            report.anomalies.append(str(failure).partition("\n")[0])
        report.anomalies += cluster.invariants.violations
        report.anomalies += failed_requests.found
        report.counts.update({step.value: number for step, number in cluster.invariants.steps.items()})
        report.story = cluster.world.story(_STORY_LINES)
        report.virtual_seconds = cluster.world.now
        report.events = cluster.world.events_run
    report.processor_seconds = process_time() - began
    return report


def _live(cluster: Simulation, report: Report, swarm: Swarm) -> None:
    history = History()
    chance = random.Random(f"workload {cluster.seed}")
    for broker, skew_ms in zip(cluster.brokers, swarm.skews_ms, strict=True):
        broker.clock.skew_ms = skew_ms
    workload = Workload(history, cluster.bootstrap_servers, chance, swarm)
    topics = (TOPIC, TRANSACTIONS_TOPIC, *((DELAYED_TOPIC,) if swarm.has_delayed else ()))
    cluster.run(cluster.client().run(_create_topics(cluster.bootstrap_servers, swarm, topics)))
    workload.start(cluster.client)
    delayed = DelayedLoad(
        workload,
        random.Random(f"delayed load {cluster.seed}"),
        SimulatedClock(cluster.world).wall_ms,
        is_compacted=swarm.is_compacted,
    )
    switching = DelaySwitching(cluster, workload, swarm.replicas)
    if swarm.has_delayed:
        for life in delayed.lives():
            workload.add(life, cluster.client())
        switching.schedule(FAULT_SECONDS)
    began = cluster.world.now

    def on_fired(name: str) -> None:
        report.faults[name] += 1

    for fault in report.schedule:
        cluster.world.at(began + fault.at, lambda fault=fault: begin(cluster, fault, on_fired))  # type: ignore[misc]
    cluster.world.run_for(FAULT_SECONDS)
    cluster.world.tell("simulator", "all faults are over")
    cluster.make_peace()
    cluster.wait_for(cluster.ailments, "every broker serves and every replica is in sync", _HEALTHY_SECONDS_MAX)
    workload.stop()
    cluster.wait_until(
        lambda: workload.is_done and switching.is_done, "every client comes to its end", _HEALTHY_SECONDS_MAX
    )
    _come_to_rest(cluster)
    if swarm.has_delayed:
        _deliver_the_rest(cluster, delayed)
    cluster.run(cluster.client().run(read_everything(cluster.bootstrap_servers, history, topics)))
    cluster.invariants.check_at_rest(from_start=True)
    report.counts.update(workload.counts)
    report.anomalies += workload.errors() + workload.violations + history.anomalies() + cluster.defects()
    report.anomalies += delayed.anomalies(cluster, is_switched=switching.is_switched)


def _come_to_rest(cluster: Simulation) -> None:
    """Transactions that were left open time out, those that are decided get their markers, and all is replicated.

    A record with acks=1 may be acknowledged and not yet replicated. Read before that, the end would lack it.
    """

    def unfinished() -> Iterator[str]:
        for broker in cluster.brokers:
            for transaction in coordinator_state.unfinished_transactions(broker):
                yield f"{transaction.transactional_id} is {transaction.state.value} on {broker.name}"
            for partition in filter(attrgetter("is_leader"), broker.partitions()):
                log = partition.log
                if log.last_stable_offset < log.high_watermark:
                    yield f"{partition.topic}-{partition.index} has an open transaction on {broker.name}"
                if log.high_watermark < log.log_end_offset:
                    yield f"{partition.topic}-{partition.index} has records that {broker.name} alone has"

    cluster.wait_for(unfinished, "every transaction is complete and every record replicated", _REST_SECONDS_MAX)


def _deliver_the_rest(cluster: Simulation, delayed: DelayedLoad) -> None:
    """Clocks are right again. A leader whose clock was ahead may have received records that are due only later."""
    for broker in cluster.brokers:
        broker.clock.skew_ms = 0

    def undelivered() -> Iterator[str]:
        return delayed.undelivered(cluster.brokers)

    cluster.wait_for(undelivered, "every delayed record that is due is delivered", _DELAYED_SECONDS_MAX)
    _come_to_rest(cluster)


async def _create_topics(servers: str, swarm: Swarm, topics: Sequence[str]) -> None:
    new = [NewTopic(name, PARTITIONS, swarm.replicas, configs=_topic_settings(name, swarm)) for name in topics]
    async with AsyncAdmin({"bootstrap.servers": servers}) as admin:
        for _ in range(_CREATION_ATTEMPTS):
            with suppress(ClientError):  # a broker serves before the others have heard of it: there are too few
                await admin.create_topics(new)
                return
            await asyncio.sleep(0.1)
        await admin.create_topics(new)


def _topic_settings(name: str, swarm: Swarm) -> dict[str, str]:
    settings = {"min.insync.replicas": str(min(2, swarm.replicas))}
    if name == DELAYED_TOPIC:
        settings |= {DELAY_ENABLE: "true", **(COMPACTED_TOPIC if swarm.is_compacted else {})}
    return settings


def shorten(report: Report, brokers: int = 3) -> Report:
    """The same seed with as few faults as it takes to fail."""
    shortest = report
    for fault in list(report.schedule):
        rest = [each for each in shortest.schedule if each is not fault]
        tried = run_seed(report.seed, brokers, rest, has_delayed=report.has_delayed)
        if tried.failed:
            shortest = tried
    return shortest


class _FailedRequests(logging.Handler):
    """Keeps what brokers log of requests that ended with an exception: clients only see UNKNOWN_SERVER_ERROR."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        defect = f"defect: {record.getMessage()}: {cause!r}"
        if defect not in self.found:
            self.found.append(defect)


@contextmanager
def _quiet() -> Iterator[_FailedRequests]:
    """Brokers and clients have much to say about faults; only requests that fail by a defect matter."""
    everything, requests = logging.getLogger("tidelog"), logging.getLogger("tidelog.broker.dispatcher")
    levels = everything.level, requests.level, requests.propagate
    failed = _FailedRequests()
    everything.setLevel(logging.CRITICAL + 1)
    requests.setLevel(logging.ERROR)
    requests.propagate = False
    requests.addHandler(failed)
    try:
        yield failed
    finally:
        requests.removeHandler(failed)
        everything.setLevel(levels[0])
        requests.setLevel(levels[1])
        requests.propagate = levels[2]
