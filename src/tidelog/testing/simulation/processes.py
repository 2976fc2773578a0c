"""Brokers and clients as simulated processes: started, stopped, killed, paused, and started again on the same disk."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from tidelog.broker.server import Server
from tidelog.broker.serving.node import Node
from tidelog.broker.surroundings import Surroundings
from tidelog.broker.topology.member import ClusterMember
from tidelog.config import BrokerConfig, load_broker_config
from tidelog.controller.context import ControllerContext
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.store import Check, NodeData, Operation, Outcome, Result, Stat, Store, Watcher
from tidelog.metadata.submission import submit_each
from tidelog.network.limits import UNLIMITED, NetworkLimits
from tidelog.network.listener import Listener
from tidelog.replication.partition import Partition
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.testing.simulation.cleaning import SimulatedWorker
from tidelog.testing.simulation.loop import NoAnswerError, SimulatedLoop
from tidelog.testing.simulation.machine import Disk, Machine, SimulatedClock
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.world import Event, World

T = TypeVar("T")

BROKER_PORT: Final = 9092
SESSION_SECONDS: Final = 2.0
"""How long the metadata tree waits for a client that is silent before it ends the session."""
_RESTART_SECONDS: Final = 0.5


class Process:
    """A name, a host of the same name, and an event loop while it lives."""

    def __init__(self, world: World, network: Network, machine: Machine, name: str, disk: Disk | None = None) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.disk = disk
        self.clock = SimulatedClock(world)
        self.loop: SimulatedLoop | None = None
        self.is_paused = False
        self._past_loops: list[SimulatedLoop] = []
        machine.add(name, disk, self.clock)

    @property
    def is_alive(self) -> bool:
        return self.loop is not None

    def begin(self) -> SimulatedLoop:
        """A new life: an empty loop."""
        assert self.loop is None, f"{self.name} runs already"
        self.loop = SimulatedLoop(self.world, self.name, self.network)  # type: ignore[abstract] # the rest is never used
        self._past_loops.append(self.loop)
        if self.disk is not None:
            self.disk.stall = self.loop.stall
        self.network.place(self.loop, self.name)
        self.network.power_on(self.name)
        self.is_paused = False
        return self.loop

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in this process."""
        assert self.loop is not None, f"{self.name} does not run"
        return self.loop.create_task(work)

    def kill(self) -> None:
        """kill -9: the system closes its sockets, the page cache keeps what was written."""
        self.world.tell(self.name, "is killed")
        loop = self._end()
        self.network.process_ends(loop)

    def lose_power(self) -> None:
        """The host is off: its peers learn nothing, and what was not synced may be gone."""
        self.world.tell(self.name, "loses power")
        self._end()
        self.network.power_off(self.name)
        if self.disk is not None:
            self.disk.lose_power()

    def _end(self) -> SimulatedLoop:
        assert self.loop is not None, f"{self.name} does not run"
        loop, self.loop = self.loop, None
        loop.stop_for_good()
        return loop

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.loop is not None, f"{self.name} does not run"
        self.world.tell(self.name, "is paused")
        self.is_paused = True
        self.loop.pause()

    def resume(self) -> None:
        """SIGCONT."""
        assert self.loop is not None, f"{self.name} does not run"
        self.world.tell(self.name, "goes on")
        self.is_paused = False
        self.loop.resume()

    def failures(self) -> list[dict[str, Any]]:
        """What no code of this process has handled, in all its lives."""
        return [failure for loop in self._past_loops for failure in loop.failures]

    def bury(self) -> None:
        """The simulation is over: let go of everything."""
        for loop in self._past_loops:
            loop.bury()
        self._past_loops.clear()
        self.loop = None


class BrokerProcess(Process):
    """A broker, with its disk and its session with the metadata tree."""

    def __init__(
        self,
        world: World,
        network: Network,
        machine: Machine,
        tree: MemoryTree,
        broker_id: int,
        directory: str,
        properties: Mapping[str, str],
        *,
        is_clustered: bool,
    ) -> None:
        super().__init__(world, network, machine, f"broker-{broker_id}", Disk(world, directory))
        self.broker_id = broker_id
        self.server: Server | None = None
        self.store: MemoryStore | None = None
        self.is_serving = False
        self.has_lost_power = False
        """Whether it ever did."""
        self._is_cut_off = False
        self.answers_lost = 0.0
        """The share of calls to the metadata tree that are carried out and not answered in time."""
        self.restarts_after_stop = False
        self._restart: Event | None = None
        self._tree = tree
        self._is_clustered = is_clustered
        self._properties = {
            **properties,
            "broker.id": str(broker_id),
            "log.dirs": directory,
            "listeners": f"PLAINTEXT://{self.name}:{BROKER_PORT}",
        }

    def start(self) -> None:
        """Start the broker, which takes some virtual time. Should it fail, the process is gone again."""
        self.world.tell(self.name, "starts")
        loop = self.begin()
        self.is_serving = False
        self.server = Server(load_broker_config(self._properties), self._surroundings(loop))
        self.run(self._serve(self.server, loop))

    async def _serve(self, server: Server, loop: SimulatedLoop) -> None:
        try:
            await server.start()
        except Exception as error:  # noqa: BLE001 - told; the process starts again
            self.world.tell(self.name, f"does not start: {error}")
            self._leave(loop)
            self._restart_soon()
            return
        self.is_serving = True
        self.world.tell(self.name, "serves")
        await server.wait_for_failure()
        self.world.tell(self.name, "stops, as no log directory is left")
        self._leave(loop)
        self._restart_soon()

    def _restart_soon(self) -> None:
        """As a supervisor does with a process that ended."""
        if self._restart is None:
            self._restart = self.world.after(_RESTART_SECONDS, self._start_again)

    def _start_again(self) -> None:
        self._restart = None
        if not self.is_alive and not self.network.is_down(self.name):
            self.start()

    @property
    def is_well(self) -> bool:
        """Whether it serves, runs, reaches the metadata tree and can write."""
        is_writing = self.disk is not None and not self.disk.is_troubled
        return self.is_serving and not self.is_paused and not self._is_cut_off and is_writing

    @property
    def node(self) -> Node:
        """The parts of the broker."""
        assert self.server is not None, f"{self.name} does not run"
        return self.server.node

    @property
    def image(self) -> ClusterImage:
        """What the broker knows of the cluster."""
        return self.node.image

    def partitions(self) -> Iterator[Partition]:
        """The replicas that it has."""
        assert self.server is not None, f"{self.name} does not run"
        return self.server.node.replica_manager.partitions()

    def find_partition(self, topic: str, index: int) -> Partition | None:
        assert self.server is not None, f"{self.name} does not run"
        return self.server.node.replica_manager.find(topic, index)

    def active_controller_epoch(self) -> int | None:
        """The epoch in which this broker acts as the controller; None if it does not."""
        assert self.server is not None, f"{self.name} does not run"
        topology = self.server.node.topology
        if not isinstance(topology, ClusterMember) or not topology.is_controller:
            return None
        return topology.controller.controller.epoch

    def controller_context(self) -> ControllerContext:
        """What this broker knows of the cluster as its controller."""
        assert self.server is not None, f"{self.name} does not run"
        topology = self.server.node.topology
        assert isinstance(topology, ClusterMember), f"{self.name} is no member of a cluster"
        return topology.controller.controller.context

    def keep_running(self) -> None:
        """Start it, unless it runs."""
        self.restarts_after_stop = True
        self.network.power_on(self.name)
        if not self.is_alive:
            self._restart_soon()

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown, which takes some virtual time."""
        assert self.loop is not None, f"{self.name} does not run"
        assert self.server is not None, f"{self.name} does not run"
        self.world.tell(self.name, "shuts down")
        self.is_serving = False
        self.run(self._stop(self.server, self.loop))

    async def _stop(self, server: Server, loop: SimulatedLoop) -> None:
        await server.stop()
        self.world.tell(self.name, "has shut down")
        self._leave(loop)
        if self.restarts_after_stop:
            self.restarts_after_stop = False
            self._restart_soon()

    def lose_power(self) -> None:
        self.has_lost_power = True
        super().lose_power()

    def _leave(self, loop: SimulatedLoop) -> None:
        if self.loop is loop:
            self._end()
            self.network.process_ends(loop)

    def _end(self) -> SimulatedLoop:
        self.is_serving = False
        if self.server is not None:
            self.server.abandon()
        store, self.store = self.store, None
        if store is not None:
            # The tree learns of it by silence. Closing a session calls no listener of the dead process.
            self.world.after(self._session_seconds(), store.close)
        return super()._end()

    def bury(self) -> None:
        if self.loop is not None and self.server is not None:
            self.server.abandon()
        super().bury()

    # --- its session with the metadata tree ---

    def pause(self) -> None:
        super().pause()
        store = self.store
        self.world.after(self._session_seconds(), lambda: self._expire_if(store, lambda: self.is_paused))

    def resume(self) -> None:
        super().resume()
        if self.store is not None and not self._is_cut_off:
            self.store.resume()

    def cut_off_tree(self) -> None:
        """The metadata tree cannot be reached; the session expires if that lasts."""
        store = self.store
        if store is not None and not self._is_cut_off:
            self.world.tell(self.name, "is cut off from the metadata tree")
            self._is_cut_off = True
            store.suspend()
            self.world.after(self._session_seconds(), lambda: self._expire_if(store, lambda: self._is_cut_off))

    def reach_tree(self) -> None:
        if self._is_cut_off:
            self.world.tell(self.name, "reaches the metadata tree again")
            self._is_cut_off = False
            if self.store is not None and not self.is_paused:
                self.store.resume()

    def expire_session(self) -> None:
        """The tree ends the session, although the broker is well."""
        if self.store is not None:
            self.world.tell(self.name, "has its session expired")
            self.store.expire()

    def _expire_if(self, store: MemoryStore | None, still_holds: Callable[[], bool]) -> None:
        if store is not None and store is self.store and still_holds():
            self.world.tell(self.name, "is silent for too long: its session expires")
            store.suspend()
            store.expire()

    def _loses_answer(self) -> bool:
        return self.is_serving and self.answers_lost > 0 and self.world.random.random() < self.answers_lost

    def _session_seconds(self) -> float:
        return SESSION_SECONDS * self.world.between(1.0, 1.5)

    def _surroundings(self, loop: SimulatedLoop) -> Surroundings:
        world, network = self.world, self.network

        def listen(_host: str, port: int, _limits: NetworkLimits) -> Listener:
            return network.listen(loop, port)

        def open_store(_config: BrokerConfig, _directories: Sequence[str]) -> Store:
            self._is_cut_off = False
            self.store = _Session(self._tree, self._loses_answer)
            return self.store

        return Surroundings(
            clock=self.clock,
            processor_seconds=_steps(world),
            random=world.random,
            listen=listen,
            socket_descriptors_max=lambda: UNLIMITED,
            open_store=open_store,
            new_cleaner_worker=lambda: SimulatedWorker(loop),
            is_clustered=self._is_clustered,
        )


class _Session(MemoryStore):
    """A session of a broker with the metadata tree, some of whose answers are lost."""

    def __init__(self, tree: MemoryTree, loses_answer: Callable[[], bool]) -> None:
        super().__init__(tree)
        self._loses_answer = loses_answer

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        return self._answer(super().get_many(paths, watch))

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        return self._answer(super().exists(path, watch))

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return self._answer(super().children(path, watch))

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        return self._answer(super().multi(operations))

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        return self._answer(submit_each(super().multi, operations, fence))

    def _answer(self, result: T) -> T:
        if self._loses_answer():
            raise NoAnswerError(f"session {self.session_id} has no answer")
        return result


def _steps(world: World) -> Callable[[], float]:
    """Seconds that pass with every look at them, so that long work is cut into slices here, too."""
    seconds = world.now

    def look() -> float:
        nonlocal seconds
        seconds += 0.0002
        return seconds

    return look


def collect() -> None:
    """Close the files of processes that are buried: they are in cycles. What their remains say is of no interest."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook
