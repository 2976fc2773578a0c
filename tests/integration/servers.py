"""Brokers of one cluster in this process, on one loop, on a tree in memory; one of them is elected controller."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

from tests.integration.hand_controller import LockedStore
from tidelog.broker.server import Server
from tidelog.broker.surroundings import Surroundings
from tidelog.broker.topology.member import ClusterMember
from tidelog.config import load_broker_config
from tidelog.controller.controller import Controller
from tidelog.metadata.image import PartitionImage
from tidelog.testing._settings import broker_properties
from tidelog.testing.memory_store import MemoryStore, MemoryTree

QUICK = {
    "replica.fetch.backoff.ms": 50,
    "replica.lag.time.max.ms": 2000,
    "controlled.shutdown.retry.backoff.ms": 100,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
}


def member_of(server: Server) -> ClusterMember:
    """A broker's part in its cluster."""
    topology = server.node.topology
    assert isinstance(topology, ClusterMember), "this broker is alone"
    return topology


class Servers:
    """A cluster. Brokers that are stopped keep their directories and may be started again."""

    def __init__(self, directory: Path, **config: object) -> None:
        self._directory = directory
        self._config = config
        self._lock = threading.RLock()
        self.tree = MemoryTree()
        self.running: dict[int, Server] = {}
        self._sessions: dict[int, MemoryStore] = {}

    async def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            settings = {"broker.id": broker_id, **QUICK, **self._config}
            properties = broker_properties(settings, str(self._directory / f"broker-{broker_id}"), None)
            properties["log.dirs"] += f",{self._directory / f'broker-{broker_id}-second'}"
            session = self._sessions[broker_id] = self.tree.connect()
            surroundings = dataclasses.replace(
                Surroundings.of_this_machine(),
                open_store=lambda *_, session=session: LockedStore(session, self._lock),  # type: ignore[misc]
                is_clustered=True,
            )
            server = Server(load_broker_config(properties), surroundings)
            await server.start()
            self.running[broker_id] = server
        for broker_id in broker_ids:
            # Until the controller has sent the metadata, a broker knows no other.
            await until(lambda each=broker_id: len(self.running[each].node.image.brokers()) >= len(self.running))  # type: ignore[misc]

    async def stop(self, *broker_ids: int) -> None:
        for broker_id in broker_ids or sorted(self.running):
            await self.running.pop(broker_id).stop()

    def expire(self, broker_id: int) -> None:
        """End a broker's session with the tree; the broker itself runs on."""
        with self._lock:
            self._sessions[broker_id].expire()

    def suspend(self, broker_id: int) -> None:
        """Cut a broker off from the tree, until `resume`."""
        with self._lock:
            self._sessions[broker_id].suspend()

    def resume(self, broker_id: int) -> None:
        with self._lock:
            self._sessions[broker_id].resume()

    @property
    def controller(self) -> Controller:
        controllers = [member_of(server).controller.controller for server in self.running.values()]
        (active,) = [controller for controller in controllers if controller.is_active]
        return active

    def addresses(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in (server.address for server in self.running.values()))

    def shown(self, topic: str, index: int = 0) -> dict[int, PartitionImage | None]:
        """A partition as each broker shows it to clients."""
        return {each: server.node.image.partition(topic, index) for each, server in self.running.items()}

    def is_led(self, topic: str, isr: set[int], index: int = 0) -> bool:
        """Whether every broker shows this ISR, with a leader from it."""
        return all(
            shown is not None and set(shown.isr) == isr and shown.leader_id in isr
            for shown in self.shown(topic, index).values()
        )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
