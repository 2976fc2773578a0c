"""`tidelog.delay.enable` of a topic, switched off and on again while a follower is down.

Records that wait when it is switched off are still delivered, by whichever replica leads then; new ones are visible at
once. Everything random comes from a stream of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tidelog.client import AsyncAdmin, ClientError, TopicPartition
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation
from tidelog.testing.simulation.workload import PARTITIONS, Workload
from tidelog.wire.errors import ApiError

DELAY_ENABLE: Final = "tidelog.delay.enable"

EXPECTED_SWITCHES: Final = (
    "delay switched off with a follower down",
    "delay switched on with a follower down",
    "delayed records moved to a new replica",
)
"""What happens in every run of many seeds."""

_SWITCHED_SHARE: Final = 0.7
_SWITCHED_ON_SHARE: Final = 0.6

Act = Callable[[AsyncAdmin], Coroutine[Any, Any, None]]


class DelaySwitching:
    """When the setting is changed in one seed, and which follower is down then."""

    def __init__(self, cluster: Simulation, workload: Workload, replicas: int) -> None:
        self.is_switched = False
        """Whether the setting was ever to be switched off."""
        self._cluster = cluster
        self._workload = workload
        self._replicas = replicas
        self._random = random.Random(f"delay switching {cluster.seed}")
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_done(self) -> bool:
        return all(task.done() for task in self._tasks)

    def schedule(self, seconds: float) -> None:
        """Draw the changes of the next seconds."""
        chance = self._random
        is_on_again = chance.random() < _SWITCHED_ON_SHARE
        off_at, move_at, on_at = sorted(chance.uniform(0.3, seconds - 0.5) for _ in range(3))
        if chance.random() >= _SWITCHED_SHARE:
            return
        after = self._cluster.world.after
        after(off_at, lambda: self._switch(is_enabled=False))
        if self._replicas < len(self._cluster.brokers):
            after(move_at, lambda: self._run(self._move))
        if is_on_again:
            after(on_at, lambda: self._switch(is_enabled=True))

    def _switch(self, *, is_enabled: bool) -> None:
        follower = self._take_follower()
        self.is_switched = True

        async def alter(admin: AsyncAdmin) -> None:
            resource = ConfigResource(ResourceType.TOPIC, DELAYED_TOPIC)
            change = ConfigChange(DELAY_ENABLE, "true" if is_enabled else "false")
            await admin.incremental_alter_configs({resource: [change]})
            word = "on" if is_enabled else "off"
            self._cluster.world.tell("simulator", f"{DELAY_ENABLE} is {word}")
            if follower is not None and not follower.is_alive:
                self._workload.count(f"delay switched {word} with a follower down")

        self._run(alter)

    def _take_follower(self) -> BrokerProcess | None:
        """Kill a broker that follows a partition of delayed records, for some seconds."""
        followers = [
            broker
            for broker in self._cluster.brokers
            if broker.is_serving and not broker.is_paused
            if any(each.topic == DELAYED_TOPIC and not each.is_leader for each in broker.partitions())
        ]
        if not followers or not self._cluster.may_strike():
            return None
        follower = self._random.choice(followers)
        follower.kill()
        self._cluster.world.after(self._random.uniform(0.5, 3.0), lambda: _start(follower))
        return follower

    async def _move(self, admin: AsyncAdmin) -> None:
        """Give a partition other replicas: they have never seen the setting on."""
        partition = self._random.randrange(PARTITIONS)
        brokers = self._random.sample(range(len(self._cluster.brokers)), self._replicas)
        await admin.alter_partition_reassignments({TopicPartition(DELAYED_TOPIC, partition): brokers})
        self._workload.count("delayed records moved to a new replica")

    def _run(self, act: Act) -> None:
        self._tasks.append(self._cluster.client().run(self._administrate(act)))

    async def _administrate(self, act: Act) -> None:
        settings = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "request.timeout.ms": 4_000,
            "default.api.timeout.ms": 8_000,
            "bootstrap.timeout.ms": 15_000,
        }
        try:
            async with AsyncAdmin(settings) as admin:
                await act(admin)
        except (ClientError, ApiError) as error:
            self._workload.count(f"client error {type(error).__name__}")


def _start(broker: BrokerProcess) -> None:
    if not broker.is_alive:
        broker.start()
