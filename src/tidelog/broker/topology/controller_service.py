"""This broker's controller at work: one task processes its events, its session is watched, requests are answered.

Every broker of a cluster has one; whether it is the active one is decided in the tree. Requests come in as coroutines
and become events; events carry their outcome back.

An event that the tree did not answer is processed again here, after a pause: the session may go on, so that no watch
says when the tree is back. The retries of the store end with their call, and could not replace this: an event looks at
the tree again and decides by what the controller knows by then, and it is dropped once the session has ended or this
broker stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, TypeVar

from tidelog.broker.surroundings import Surroundings
from tidelog.broker.topology.control_channel import ControlChannels
from tidelog.config import BrokerConfig
from tidelog.controller import events
from tidelog.controller.controller import Controller
from tidelog.controller.environment import ControllerSettings
from tidelog.controller.events import ElectionTrigger, ElectionType, Event, EventQueue, Reply, Targets
from tidelog.controller.request_batch import Pause
from tidelog.metadata.store import SessionState, Store
from tidelog.metadata.store_queue import StoreQueue, call_on_loop
from tidelog.metadata.tree import ProducerIdBlock, ReplicaAssignment
from tidelog.metrics import Distribution
from tidelog.timing import ScheduledTask, Scheduler
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_REPEAT_SECONDS: Final = 0.1
"""How long an event that the tree did not answer waits until it is processed again."""


class ControllerService:
    """The controller of one broker, from its start to its stop."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata: StoreQueue,
        control_channels: ControlChannels,
        surroundings: Surroundings,
        scheduler: Scheduler,
        pause: Pause,
        register: Callable[[], Awaitable[object]],
    ) -> None:
        """`register` registers this broker again after its session has ended."""
        self._control_channels = control_channels
        self._scheduler = scheduler
        self._balance: ScheduledTask | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._queue = EventQueue(self._wake.set)
        self._repeated: dict[Event, asyncio.TimerHandle] = {}
        self.event_times: defaultdict[type[Event], Distribution] = defaultdict(Distribution)
        """How long events of each type took, in microseconds."""
        self.controller = Controller(
            broker_id,
            settings_of(config),
            metadata,
            control_channels,
            self._queue,
            pause=pause,
            wall_ms=surroundings.clock.wall_ms,
            random_bytes=surroundings.random.randbytes,
            schedule_balance=self._schedule_balance,
            register=register,
        )

    # --- start and stop ---

    def start(self, store: Store) -> None:
        """Take part in elections from now on; this broker is registered. `store` is the one behind the queue."""
        loop = asyncio.get_running_loop()
        session_id = store.session_id

        def on_session(state: SessionState) -> None:
            nonlocal session_id
            if state is SessionState.EXPIRED:
                call_on_loop(loop, self._expire, events.Expire())
            elif state is SessionState.CONNECTED:
                event: Event = events.ControllerChange()  # the connection was down: is it still the same?
                if store.session_id != session_id:
                    session_id = store.session_id
                    event = events.RegisterBrokerAndReelect()
                call_on_loop(loop, self._queue.put, event)

        store.add_session_listener(on_session)
        self._queue.put(events.Startup())
        self._task = loop.create_task(self._run())

    async def stop(self) -> None:
        """Resign as controller, if this broker is it, and process nothing more."""
        if self._task is None:
            return
        self._queue.clear_and_put(events.Shutdown())
        await self._task
        self._task = None
        self._forget_repeated()
        if self._balance is not None:
            self._balance.cancel()
        self._control_channels.close()
        await self._control_channels.wait_closed()

    async def _run(self) -> None:
        while True:
            event = self._queue.pop()
            if event is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            began = monotonic()
            unfinished = await self.controller.process(event)
            if unfinished is not None:
                self._repeat(unfinished)
            self.event_times[type(event)].record(int((monotonic() - began) * 1e6))
            if isinstance(event, events.Shutdown):
                return

    def _expire(self, event: events.Expire) -> None:
        # The new session repeats what the last one has left undone.
        self._forget_repeated()
        self._queue.clear_and_put(event)

    def _repeat(self, event: Event) -> None:
        def put() -> None:
            del self._repeated[event]
            self._queue.put(event)

        if event not in self._repeated:
            self._repeated[event] = asyncio.get_running_loop().call_later(_REPEAT_SECONDS, put)

    def _forget_repeated(self) -> None:
        for handle in self._repeated.values():
            handle.cancel()
        self._repeated.clear()

    def _schedule_balance(self, delay_seconds: int) -> None:
        if self._balance is not None:
            self._balance.cancel()
        self._balance = self._scheduler.schedule(
            "auto-leader-rebalance",
            lambda: self._queue.put(events.AutoPreferredReplicaLeaderElection()),
            delay_seconds * 1000,
        )

    # --- settings ---

    def update_config(self, config: BrokerConfig) -> None:
        """Settings of the broker were changed while it runs."""
        self.controller.update_settings(settings_of(config))

    def enable_unclean_elections(self, topic: str) -> None:
        """A topic allows unclean elections from now on."""
        self._queue.put(events.UncleanLeaderElectionEnable(topic))

    # --- requests ---

    @property
    def is_active(self) -> bool:
        return self.controller.is_active

    async def shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leaders away from a broker that is about to stop; the partitions that it still leads."""
        return await self._ask(lambda reply: events.ControlledShutdown(broker_id, broker_epoch, reply))

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        return await self._ask(lambda reply: events.AlterPartition(request, version, reply))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        return await self._ask(lambda reply: events.AllocateProducerIds(broker_id, broker_epoch, reply))

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...], election_type: ElectionType
    ) -> Mapping[TopicPartition, int | ApiError]:
        """The new leader of each partition, or why there is none."""
        return await self._ask(
            lambda reply: events.ReplicaLeaderElection(partitions, election_type, ElectionTrigger.ADMIN, reply)
        )

    async def alter_reassignments(self, targets: Targets) -> Mapping[TopicPartition, ApiError | None]:
        return await self._ask(lambda reply: events.ApiReassignment(targets, reply))

    async def list_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        return await self._ask(lambda reply: events.ListReassignments(partitions, reply))

    async def _ask(self, make_event: Callable[[Reply[T | ApiError]], Event]) -> T:
        """Process an event and return its outcome; an outcome that is an ApiError is raised."""
        outcome: asyncio.Future[T | ApiError] = asyncio.get_running_loop().create_future()

        def on_outcome(value: T | ApiError) -> None:
            if not outcome.done():
                outcome.set_result(value)

        self._queue.put(make_event(Reply(on_outcome)))
        value = await outcome
        if isinstance(value, ApiError):
            raise value
        return value


def settings_of(config: BrokerConfig) -> ControllerSettings:
    """The settings that a controller follows."""
    return ControllerSettings(
        inter_broker_listener=config.inter_broker_name,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
        leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
        delete_topic_enable=config.delete_topic_enable,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
    )
