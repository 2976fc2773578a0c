"""One seed from beginning to end: clients, faults, then peace, and the question whether every promise held.

`run_seed` returns a `Report`, also of a seed that ends with an exception. The schedule of a seed that fails can be
shortened with `shorten`: faults and clients are left out one by one, and stay out where it fails without them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from time import process_time
from typing import Final

from tidelog.broker import server
from tidelog.client import AsyncAdmin, ClientError, NewTopic
from tidelog.metadata.store import Store
from tidelog.testing.simulation import coordinator_state, tree_rules
from tidelog.testing.simulation.accounts import ACCOUNTS_SETTINGS, ACCOUNTS_TOPIC, Accounts
from tidelog.testing.simulation.cleaning import (
    COMPACTED_TOPIC,
    COMPACTING_BROKER,
    COMPACTING_COORDINATORS,
    soon_settled,
)
from tidelog.testing.simulation.delay_switching import DELAY_ENABLE, DelaySwitching
from tidelog.testing.simulation.delayed_load import DelayedLoad
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC
from tidelog.testing.simulation.faults import Fault, begin, draw_schedule
from tidelog.testing.simulation.ghosts import Ghosts
from tidelog.testing.simulation.history import History
from tidelog.testing.simulation.machine import SimulatedClock
from tidelog.testing.simulation.replacing import replaced
from tidelog.testing.simulation.share_load import (
    LETTERS_SETTINGS,
    LETTERS_TOPIC,
    SHARED_TOPIC,
    SHARING_BROKER,
    ShareLoad,
)
from tidelog.testing.simulation.simulation import Simulation, SimulationFailed
from tidelog.testing.simulation.swarm import Swarm, draw_swarm
from tidelog.testing.simulation.workload import (
    GROUPS,
    PARTITIONS,
    TOPIC,
    TRANSACTIONS_TOPIC,
    TRIMMED_SETTINGS,
    TRIMMED_TOPIC,
    Workload,
    read_everything,
)

FAULT_SECONDS: Final = 8.0
FAULTS_PER_SEED: Final = 8
_HEALTHY_SECONDS_MAX: Final = 120.0
_REST_SECONDS_MAX: Final = 60.0
_DELAYED_SECONDS_MAX: Final = 300.0
_CREATION_ATTEMPTS: Final = 50
_STORY_LINES: Final = 60
_SETTINGS_OF: Final = {
    ACCOUNTS_TOPIC: ACCOUNTS_SETTINGS,
    TRIMMED_TOPIC: TRIMMED_SETTINGS,
    LETTERS_TOPIC: LETTERS_SETTINGS,
}


_OLDER_EVERY: Final = 3
"""Every third seed without share groups has a cluster in which no feature was raised, and so the older protocol of
transactions."""


@dataclass
class Report:
    """What one seed showed."""

    seed: int
    anomalies: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """Those that happened."""
    counts: Counter[str] = field(default_factory=Counter)
    """What clients and brokers did."""
    states: Counter[str] = field(default_factory=Counter)
    """The states of the protocol that were reached: see `coverage`."""
    schedule: Sequence[Fault] = ()
    has_delayed: bool = False
    """Whether there were delayed records in any case."""
    has_shares: bool = False
    """Whether there was a share group."""
    features: Sequence[str] = ()
    """What can be left out of the seed."""
    without: frozenset[str] = frozenset()
    """What was left out of it."""
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
    seed: int,
    brokers: int = 3,
    schedule: Sequence[Fault] | None = None,
    *,
    has_delayed: bool = False,
    has_shares: bool = False,
    without: Collection[str] = (),
) -> Report:
    """Run one seed, with delayed records in any case if `has_delayed`, and with a share group if `has_shares`.

    A schedule of one's own, and features that are left out, are for trying a failing seed with less in it.
    """
    began = process_time()
    swarm = draw_swarm(seed, brokers)
    if has_shares:
        swarm = replace(swarm, has_shares=True)
    swarm = swarm.without(without)
    if schedule is None:
        schedule = draw_schedule(seed, FAULT_SECONDS, FAULTS_PER_SEED)
    report = Report(
        seed,
        schedule=schedule,
        has_delayed=has_delayed,
        has_shares=has_shares,
        features=swarm.features,
        without=frozenset(without),
    )
    if has_delayed:
        swarm = replace(swarm, has_delayed=True)
    with _quiet() as failed_requests:
        try:
            _simulate(report, swarm, brokers)
        except SimulationFailed as failure:
            report.anomalies.append(str(failure).partition("\n")[0])
        except Exception as error:  # noqa: BLE001 - a defect that this seed has found
            report.anomalies.append(f"exception: {error!r}")
            report.story += "".join(traceback.format_exception(error)).splitlines()
        report.anomalies += failed_requests.found
    report.processor_seconds = process_time() - began
    return report


def _simulate(report: Report, swarm: Swarm, brokers: int) -> None:
    settings = swarm.settings
    with ExitStack() as undo:
        if report.seed % _OLDER_EVERY == _OLDER_EVERY - 1 and not swarm.has_shares:
            undo.enter_context(replaced(server, "finalise_all", _finalise_nothing))
        if swarm.has_delayed:
            undo.enter_context(soon_settled())
        if swarm.is_cleaned or (swarm.has_delayed and swarm.is_compacted):
            settings = {**settings, **COMPACTING_BROKER}
        if swarm.is_cleaned:
            settings = {**settings, **COMPACTING_COORDINATORS}
        if swarm.has_shares:
            replicas = str(min(3, brokers))
            settings = {**settings, **SHARING_BROKER, "share.coordinator.state.topic.replication.factor": replicas}
        cluster = undo.enter_context(Simulation(report.seed, brokers, settings))
        try:
            _live(cluster, report, swarm)
        finally:
            report.anomalies += cluster.invariants.violations
            report.counts.update({step.value: number for step, number in cluster.invariants.steps.items()})
            report.counts.update({f"brokers refuse: {name}": n for name, n in cluster.invariants.refusals.items()})
            report.states.update(cluster.invariants.states)
            report.story = cluster.world.story(_STORY_LINES)
            report.virtual_seconds = cluster.world.now
            report.events = cluster.world.events_run


def _finalise_nothing(_store: Store) -> None:
    """A new cluster begins like one whose brokers were upgraded: with the older protocol of transactions."""


def _live(cluster: Simulation, report: Report, swarm: Swarm) -> None:
    history = History()
    chance = random.Random(f"workload {cluster.seed}")
    for broker, skew_ms in zip(cluster.brokers, swarm.skews_ms, strict=True):
        broker.clock.skew_ms = skew_ms
    workload = Workload(history, cluster.bootstrap_servers, chance, swarm)
    topics, aside = _topics_of(swarm)
    cluster.run(cluster.client().run(_create_topics(cluster.bootstrap_servers, swarm, (*topics, *aside))))
    cluster.burst = lambda topic, partition: workload.burst(topic, partition, cluster.client())
    cluster.replace_client = workload.replace
    workload.start(cluster.client)
    accounts = Accounts(workload, cluster.seed)
    if swarm.is_cleaned:
        workload.add(accounts.life, cluster.client())
    delayed = DelayedLoad(
        workload,
        random.Random(f"delayed load {cluster.seed}"),
        SimulatedClock(cluster.world).wall_ms,
        is_compacted=swarm.is_compacted,
    )
    shares = _begin_to_share(cluster, workload) if swarm.has_shares else None
    switching = DelaySwitching(cluster, workload, swarm.replicas)
    if swarm.has_delayed:
        for life in delayed.lives():
            workload.add(life, cluster.client())
        switching.schedule(FAULT_SECONDS)
    ghosts = Ghosts(cluster)
    if swarm.is_haunted:
        ghosts.start()
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
    _share_the_rest(cluster, shares)
    cluster.run(cluster.client().run(read_everything(cluster.bootstrap_servers, history, topics)))
    for kind in sorted(swarm.clients & GROUPS.keys()):
        cluster.run(cluster.client().run(workload.drain(kind)))
    if "read-process-write" in swarm.clients:
        report.anomalies += cluster.run(cluster.client().run(workload.unprocessed()))
    if swarm.is_cleaned:
        report.anomalies += cluster.run(cluster.client().run(accounts.anomalies(cluster.bootstrap_servers)))
    cluster.invariants.check_at_rest(from_start=True)
    report.counts.update(workload.counts)
    report.counts.update(ghosts.sent)
    report.anomalies += workload.errors() + workload.violations + history.anomalies() + cluster.defects()
    report.anomalies += delayed.anomalies(cluster, is_switched=switching.is_switched)
    if shares is not None:
        report.anomalies += shares.anomalies(history.final)
        report.counts.update(shares.history.counts)


def _topics_of(swarm: Swarm) -> tuple[Sequence[str], Sequence[str]]:
    """Those that are read whole at the end, and the others."""
    topics = (
        *(TOPIC, TRANSACTIONS_TOPIC),
        *((DELAYED_TOPIC,) if swarm.has_delayed else ()),
        *((SHARED_TOPIC,) if swarm.has_shares else ()),
    )
    aside = (
        *((ACCOUNTS_TOPIC,) if swarm.is_cleaned else ()),
        *((TRIMMED_TOPIC,) if "trimmed topic" in swarm.clients else ()),
        *((LETTERS_TOPIC,) if swarm.has_shares else ()),
    )
    return topics, aside


def _begin_to_share(cluster: Simulation, workload: Workload) -> ShareLoad:
    shares = ShareLoad(cluster, workload, random.Random(f"share group {cluster.seed}"))
    cluster.run(cluster.client().run(shares.set_up()))
    for life in shares.lives():
        workload.add(life, cluster.client())
    return shares


def _share_the_rest(cluster: Simulation, shares: ShareLoad | None) -> None:
    """The group comes to the end of its topic."""
    if shares is not None:
        cluster.run(cluster.client().run(shares.drain()))
        _come_to_rest(cluster)


def _come_to_rest(cluster: Simulation) -> None:
    """Transactions that were left open time out, those that are decided get their markers, and all is replicated.

    Topics that are to be deleted are gone, and partitions that are on the move arrive.

    A record with acks=1 may be acknowledged and not yet replicated. Read before that, the end would lack it.
    """

    def unfinished() -> Iterator[str]:
        yield from tree_rules.unfinished(cluster.tree)
        for broker in cluster.brokers:
            for transaction in coordinator_state.unfinished_transactions(broker):
                yield f"{transaction.transactional_id} is {transaction.state.value} on {broker.name}"
            for partition in filter(attrgetter("is_leader"), broker.partitions()):
                log = partition.log
                if log.last_stable_offset < log.high_watermark:
                    yield f"{partition.topic}-{partition.index} has an open transaction on {broker.name}"
                if log.high_watermark < log.log_end_offset:
                    yield f"{partition.topic}-{partition.index} has records that {broker.name} alone has"

    cluster.wait_for(unfinished, "nothing is left half-done", _REST_SECONDS_MAX)


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
    return settings | _SETTINGS_OF.get(name, {})


def shorten(report: Report, brokers: int = 3) -> Report:
    """The same seed with as few faults, clients and features as it takes to fail."""
    shortest = report

    def tries(schedule: Sequence[Fault], without: Collection[str]) -> None:
        nonlocal shortest
        tried = run_seed(
            report.seed,
            brokers,
            schedule,
            has_delayed=report.has_delayed,
            has_shares=report.has_shares,
            without=without,
        )
        if tried.failed:
            shortest = tried

    for fault in list(report.schedule):
        tries([each for each in shortest.schedule if each is not fault], shortest.without)
    for feature in report.features:
        tries(shortest.schedule, shortest.without | {feature})
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
    everything, requests = logging.getLogger("tidelog"), logging.getLogger("tidelog.broker.serving.dispatcher")
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
