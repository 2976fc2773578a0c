"""A whole cluster in one thread, from one seed.

    with Simulation(seed=7, brokers=3) as cluster:
        client = cluster.client()
        cluster.run(client.run(produce_something(cluster.bootstrap_servers)))
        cluster.broker(1).kill()
        ...

Brokers are real: `tidelog.broker.server.Server` with its logs on disk. Their network, their metadata tree, their clocks
and their disks are simulated, and so nothing ever waits: an hour of a cluster's life takes seconds.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.testing.simulation.invariants import Invariants
from tidelog.testing.simulation.machine import Machine, SimulatedClock
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.processes import BROKER_PORT, BrokerProcess, Process, collect
from tidelog.testing.simulation.world import World

T = TypeVar("T")

_SETTINGS: Final = {
    "log.cleaner.enable": "false",  # its worker is a real process
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "100",
    # Less time between two faults, and fewer requests that bring nothing.
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "controlled.shutdown.retry.backoff.ms": "500",
}
_START_SECONDS_MAX: Final = 60.0
_COMPARE_SECONDS: Final = 5.0


class SimulationFailed(AssertionError):  # noqa: N818 - what happened
    """Something did not come true in the virtual time that it had."""


class Simulation:
    """Brokers and clients in a world of their own. A context manager: leaving it buries everything."""

    def __init__(self, seed: int, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = Network(self.world)
        self.machine = Machine(self.world)
        self.tree = MemoryTree(SimulatedClock(self.world).wall_ms, self._deliver)
        self.brokers: list[BrokerProcess] = []
        self.clients: list[Process] = []
        self.invariants = Invariants(self.brokers)
        self._broker_count = brokers
        replicas = {"default.replication.factor": str(min(3, brokers))}
        self._settings = {**_SETTINGS, **replicas, **(settings or {})}
        self.watch_seconds_max = 0.005
        """How late a watch may come."""
        self._powerless: BrokerProcess | None = None
        self._last_delivery: dict[MemoryStore, float] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        directory = tempfile.mkdtemp(prefix="tidelog-simulation-")
        self._undo.callback(shutil.rmtree, directory, ignore_errors=True)
        self._undo.callback(self._bury)
        self._undo.enter_context(self.machine.calls())
        for broker_id in range(self._broker_count):
            place = f"{directory}/{broker_id}"
            broker = BrokerProcess(
                self.world,
                self.network,
                self.machine,
                self.tree,
                broker_id,
                place,
                self._settings,
                is_clustered=self._broker_count > 1,
            )
            self.brokers.append(broker)
        self.invariants = Invariants(self.brokers)
        self.world.after_event = self.invariants.check
        self.world.after(_COMPARE_SECONDS, self._compare_logs)
        for broker in self.brokers:
            broker.start()
        self.wait_until(lambda: all(each.is_serving for each in self.brokers), "every broker serves")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._undo.close()

    def _bury(self) -> None:
        for process in (*self.clients, *self.brokers):
            process.bury()
        collect()

    def _compare_logs(self) -> None:
        self.invariants.compare_logs()
        self.world.after(_COMPARE_SECONDS, self._compare_logs)

    # --- the cast ---

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{each.name}:{BROKER_PORT}" for each in self.brokers)

    def client(self) -> Process:
        """A host for clients."""
        process = Process(self.world, self.network, self.machine, f"client-{len(self.clients)}")
        process.begin()
        self.clients.append(process)
        return process

    # --- health ---

    def make_peace(self) -> None:
        """End all faults: heal, resume, repair, restart."""
        self.network.heal_all()
        self.network.latency.spike_probability = 0.0
        self.watch_seconds_max = 0.005
        for broker in self.brokers:
            if broker.disk is not None:
                broker.disk.is_full = broker.disk.is_failing = False
            broker.reach_tree()
            if broker.is_alive and broker.is_paused:
                broker.resume()
            broker.keep_running()

    def is_healthy(self) -> bool:
        """Every broker serves, and every partition has a leader and all its replicas in sync."""
        return not self.ailments()

    def ailments(self) -> list[str]:
        """What is not well, as each broker sees it."""
        found = [f"{broker.name} does not serve" for broker in self.brokers if not broker.is_serving]
        for broker in self.brokers:
            if broker.is_serving:
                found += [
                    f"{broker.name} has {topic.name} {partition}"
                    for topic in broker.image.topics()
                    for partition in topic.partitions
                    if partition.leader_id < 0 or set(partition.isr) != set(partition.replicas)
                ]
        return found

    def can_lose(self, broker: BrokerProcess) -> bool:
        """Whether every partition that `broker` has is in sync on another broker that is well."""
        if self._powerless is not None or any(each.disk is not None and each.disk.is_troubled for each in self.brokers):
            return False
        others = [each for each in self.brokers if each is not broker]
        well = {each.broker_id for each in others if each.is_serving and not each.is_paused}
        if len(well) < len(others) or not well:
            return False
        return all(
            well.intersection(partition.isr)
            for topic in broker.image.topics()
            for partition in topic.partitions
            if broker.broker_id in partition.replicas
        )

    def lose_power(self, broker: BrokerProcess) -> None:
        """One host loses power. Until it has caught up, no other broker may be taken down: see `may_take_down`."""
        self._powerless = broker
        broker.lose_power()

    def may_take_down(self) -> bool:
        """Whether another broker may go: not while one that lost power has yet to fetch what its disk did not keep.

        Records that only such a disk and a stopped broker had are lost in Kafka, too, if the former starts first.
        """
        broker = self._powerless
        if broker is None:
            return True
        if broker.is_serving and self.is_healthy():
            self._powerless = None
            return True
        return False

    def defects(self) -> list[str]:
        """Exceptions that no code has handled."""
        return [
            f"defect: {process.name}: {failure.get('message')}: {failure.get('exception')!r}"
            for process in (*self.brokers, *self.clients)
            for failure in process.failures()
        ]

    # --- time ---

    def run(self, task: asyncio.Task[T], seconds_max: float = 300.0) -> T:
        """Let events happen until a task is done; returns what it returns."""
        self.wait_until(task.done, f"{task.get_coro()} ends", seconds_max)
        return task.result()

    def wait_until(self, holds: Any, what: str, seconds_max: float = _START_SECONDS_MAX) -> None:
        if not self.world.run_until(holds, seconds_max):
            story = "\n".join(self.world.story(40))
            raise SimulationFailed(f"seed {self.seed}: not within {seconds_max:g} s: {what}\n{story}")

    def _deliver(self, store: MemoryStore, notify: Any) -> None:
        """Watches reach a broker a little later, in order for each of them; a dead broker's reach nothing."""
        when = self.world.now + self.world.between(0.0001, self.watch_seconds_max)
        when = max(self._last_delivery.get(store, 0.0), when)
        self._last_delivery[store] = when
        self.world.at(when, lambda: notify() if any(each.store is store for each in self.brokers) else None)
