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
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Operation, Result
from tidelog.metadata.tree import decode_partition_state
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.testing.simulation.invariants import Invariants, Step
from tidelog.testing.simulation.machine import Machine, SimulatedClock
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.processes import BROKER_PORT, BrokerProcess, Process, collect
from tidelog.testing.simulation.world import World

T = TypeVar("T")

OnStep = Callable[[BrokerProcess], bool]

_SETTINGS: Final = {
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "800",
    "log.retention.check.interval.ms": "700",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    # Less time between two faults, and fewer requests that bring nothing.
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "controlled.shutdown.retry.backoff.ms": "500",
}
_START_SECONDS_MAX: Final = 60.0
_COMPARE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1
_MEMORY: Final = "/dev/shm"  # noqa: S108 - a directory of its own is made there
"""A file system in memory, where there is one: thousands of small files are made and removed."""


class SimulationFailed(AssertionError):  # noqa: N818 - what happened
    """Something did not come true in the virtual time that it had."""


class _WatchedTree(MemoryTree):
    """The metadata tree, with a look at every write."""

    on_written: Callable[[MemoryTree, Sequence[Operation]], None] | None = None

    def transact(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        results = super().transact(operations, session_id)
        if self.on_written is not None:
            self.on_written(self, operations)
        return results


class Simulation:
    """Brokers and clients in a world of their own. A context manager: leaving it buries everything."""

    def __init__(self, seed: int, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = Network(self.world)
        self.machine = Machine(self.world)
        self.tree = _WatchedTree(SimulatedClock(self.world).wall_ms, self._deliver)
        self.brokers: list[BrokerProcess] = []
        self.clients: list[Process] = []
        self.invariants = Invariants(self.brokers)
        self._broker_count = brokers
        replicas = {"default.replication.factor": str(min(3, brokers))}
        self._settings = {**_SETTINGS, **replicas, **(settings or {})}
        self.watch_seconds_max = 0.005
        """How late a watch may come."""
        self.is_at_peace = False
        """Whether all faults are over."""
        self.burst: Callable[[str, int], None] = lambda _topic, _partition: None
        """Writes some records with acks=1 to a partition at once; the clients set it."""
        self.replace_client: Callable[[Process, float], None] = lambda _client, _seconds: None
        """Kills a client, and starts another one in its place some seconds later; the clients set it."""
        self._armed: list[tuple[Step, OnStep]] = []
        self._powerless: BrokerProcess | None = None
        self._last_delivery: dict[MemoryStore, float] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with self._undo:  # also where the start fails
            self._start()
            self._undo = self._undo.pop_all()
        return self

    def _start(self) -> None:
        directory = tempfile.mkdtemp(prefix="tidelog-simulation-", dir=_MEMORY if os.path.isdir(_MEMORY) else None)
        self._undo.callback(shutil.rmtree, directory, ignore_errors=True)
        self._undo.enter_context(_collection_at_the_end())
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
        self.tree.on_written = self.invariants.tree.check
        self._undo.enter_context(self.invariants.watching())
        self.world.after_event = self._after_event
        self.world.after(_COMPARE_SECONDS, self._check_at_rest)
        for broker in self.brokers:
            broker.start()
        self.wait_until(lambda: all(each.is_serving for each in self.brokers), "every broker serves")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._undo.close()

    def _bury(self) -> None:
        for process in (*self.clients, *self.brokers):
            process.bury()
        collect()

    def _after_event(self, name: str) -> None:
        self.invariants.check(name)
        if self._armed and self.invariants.just_seen:
            self._strike(name, self.invariants.just_seen)

    def _check_at_rest(self) -> None:
        self.invariants.check_at_rest()
        self.world.after(_COMPARE_SECONDS, self._check_at_rest)

    # --- steps ---

    def arm(self, step: Step, on_step: OnStep) -> None:
        """Call `on_step` with the broker that takes this step next, until it returns True or peace is made."""
        self._armed.append((step, on_step))

    def _strike(self, name: str, steps: list[Step]) -> None:
        broker = next(each for each in self.brokers if each.name == name)
        for armed in list(self._armed):
            step, on_step = armed
            if step in steps and broker.is_serving and on_step(broker):
                self._armed.remove(armed)

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
        self.is_at_peace = True
        self._armed.clear()
        self.network.heal_all()
        self.watch_seconds_max = 0.005
        for broker in self.brokers:
            broker.answers_lost = 0.0
            if broker.disk is not None:
                broker.disk.is_full = broker.disk.is_failing = False
                broker.disk.slow_seconds = 0.0
            broker.reach_tree()
            if broker.is_alive and broker.is_paused:
                broker.resume()
            broker.keep_running()
        for client in self.clients:
            if client.is_paused:
                client.resume()

    @property
    def replica_lag_seconds(self) -> float:
        """How long a follower may lag and stay in sync."""
        return int(self._settings["replica.lag.time.max.ms"]) / 1000

    @property
    def syncs_every_record(self) -> bool:
        """Whether records are synced before they are acknowledged."""
        return self._settings.get("log.flush.interval.messages") == "1"

    def is_healthy(self) -> bool:
        """Every broker serves, and every partition has a leader and all its replicas in sync."""
        return next(self.ailments(), None) is None

    def ailments(self) -> Iterator[str]:
        """What is not well, as each broker sees it."""
        for broker in self.brokers:
            if not broker.is_serving:
                yield f"{broker.name} does not serve"
        for broker in self.brokers:
            if broker.is_serving:
                for topic in broker.image.topics():
                    for partition in topic.partitions:
                        if partition.leader_id < 0 or len(partition.isr) != len(partition.replicas):
                            yield f"{broker.name} has {topic.name} {partition}"

    def can_lose(self, broker: BrokerProcess) -> bool:
        """Whether a host may lose power: all is well elsewhere, and every partition of it is in sync there.

        By its image, and by the tree, which may have lost the other replicas a moment ago.
        """
        others = [each for each in self.brokers if each is not broker]
        well = {each.broker_id for each in others if each.is_well}
        if self._powerless is not None or len(well) < len(others) or not well or self._are_brokers_cut():
            return False
        return all(
            well.intersection(partition.isr) and well.intersection(self._isr_in_tree(topic.name, partition.index))
            for topic in broker.image.topics()
            for partition in topic.partitions
            if broker.broker_id in partition.replicas
        )

    def _isr_in_tree(self, topic: str, index: int) -> Sequence[int]:
        try:
            data = self.tree.node(paths.partition_state(topic, index)).data
        except NoNodeError:  # the topic is deleted
            return ()
        return decode_partition_state(topic, index, data).isr

    def _are_brokers_cut(self) -> bool:
        names = {each.name for each in self.brokers}
        return any(source in names and target in names for source, target in self.network.cuts())

    def lose_power(self, broker: BrokerProcess) -> None:
        """One host loses power. Until it has caught up, nothing may happen to other brokers: see `may_strike`."""
        self._powerless = broker
        broker.lose_power()

    def may_strike(self) -> bool:
        """Whether a broker may be taken out of the in-sync replicas or lose its leadership.

        Not while one that lost power has yet to fetch what its disk did not keep: it counts as in sync until its
        session expires. Records that only such a disk had as the last in-sync replica are lost in Kafka, too.
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
            raise self._failure(what, seconds_max)

    def wait_for(self, obstacles: Callable[[], Iterator[str]], what: str, seconds_max: float) -> None:
        """Let time pass until nothing stands in the way. Looks now and then, as it takes long to look everywhere."""
        ends_at = self.world.now + seconds_max
        while (obstacle := next(obstacles(), None)) is not None:
            if self.world.now >= ends_at:
                raise self._failure(f"{what}: {obstacle}", seconds_max)
            self.world.run_for(_LOOK_SECONDS)

    def _failure(self, what: str, seconds: float) -> SimulationFailed:
        story = "\n".join(self.world.story(40))
        return SimulationFailed(f"seed {self.seed}: not within {seconds:g} s: {what}\n{story}")

    def _deliver(self, store: MemoryStore, notify: Any) -> None:
        """Watches reach a broker a little later, in order for each of them; a dead broker's reach nothing."""
        when = self.world.now + self.world.between(0.0001, self.watch_seconds_max)
        when = max(self._last_delivery.get(store, 0.0), when)
        self._last_delivery[store] = when
        self.world.at(when, lambda: notify() if any(each.store is store for each in self.brokers) else None)


@contextmanager
def _collection_at_the_end() -> Iterator[None]:
    """No garbage collection while the simulation runs: few objects of it are garbage before its end."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
