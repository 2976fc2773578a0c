"""A cluster around controllers under test: a tree in memory, and brokers that answer as real ones would.

Brokers are models: they record requests, answer at once when the test lets them, and keep the leader epochs
that they know, so that a test can ask what every broker believes. Nothing runs by itself: `Cluster.settle` processes
events and answers until nothing is left.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tidelog.controller.context import LiveBroker
from tidelog.controller.controller import Controller
from tidelog.controller.environment import ControllerSettings
from tidelog.controller.events import (
    AlterPartition,
    Event,
    EventQueue,
    Expire,
    RegisterBrokerAndReelect,
    Reply,
    Startup,
)
from tidelog.controller.partitions import Leadership
from tidelog.metadata import paths
from tidelog.metadata.registration import prepare_tree, register_broker
from tidelog.metadata.store import Watcher
from tidelog.metadata.tree import (
    BrokerRegistration,
    Endpoint,
    ReplicaAssignment,
    TopicAssignment,
    decode_partition_state,
    decode_topic,
    encode_config,
    encode_topic,
)
from tidelog.metadata.walk import create_or_set
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from tidelog.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.update_metadata import FULL, UpdateMetadataRequest, UpdateMetadataResponse
from tidelog.wire.partitions import TopicPartition
from tidelog.wire.schema import Message

T = TypeVar("T")

STEPS_MAX = 5_000
"""More than any test needs: controllers that go on for ever must not hold up the tests."""

OnResponse = Callable[[Message], object]


class Crash(BaseException):
    """The controller's process ended here; nothing in it may catch this."""


@dataclass
class CrashPlan:
    """Crash the controller at its `countdown`-th write to the tree or request to a broker; never if negative."""

    countdown: int = -1
    reached: int = 0

    def reach(self) -> None:
        self.reached += 1
        if 0 <= self.countdown <= self.reached:
            raise Crash


def run(work: Awaitable[T]) -> T:
    """A controller waits for nothing but its store, which answers at once here."""
    assert isinstance(work, Coroutine)
    try:
        work.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    raise AssertionError("the controller waits for something")


class DirectStore:
    """Runs functions of the store at once, and counts writes for the crash plan."""

    def __init__(self, store: MemoryStore, plan: CrashPlan) -> None:
        self.store = store
        self._plan = plan
        self._multi = store.multi

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    def on_loop(self, watcher: Watcher) -> Watcher:
        return watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def multi(self, operations: Any) -> Any:
        self._plan.reach()
        return self._multi(operations)

    def submit_all(self, operations: Any, fence: Any = None) -> Any:
        """One operation at a time, so that a crash may come between any two."""
        outcomes = []
        for operation in operations:
            self._plan.reach()
            outcomes += self.store.submit_all([operation], fence)
        return outcomes


@dataclass
class BrokerModel:
    """What a broker knows from the controller's requests."""

    broker_id: int
    epoch: int
    store: MemoryStore
    is_stopped: bool = False
    """A broker that is down answers nothing."""
    failed: set[TopicPartition] = field(default_factory=set)
    """Partitions in a log directory that failed."""
    states: dict[TopicPartition, LeaderAndIsrPartitionState] = field(default_factory=dict)
    logs: set[TopicPartition] = field(default_factory=set)
    controller_epoch: int = 0
    metadata: dict[TopicPartition, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)
    """Leader, leader epoch and ISR as in Metadata responses."""
    received: list[Message] = field(default_factory=list)

    def answer(self, request: Message) -> Message:
        self.received.append(request)
        if isinstance(request, LeaderAndIsrRequest):
            return self._become(request)
        if isinstance(request, StopReplicaRequest):
            return self._stop(request)
        assert isinstance(request, UpdateMetadataRequest)
        return self._update(request)

    def _is_stale(self, request: Any) -> bool:
        if request.controller_epoch < self.controller_epoch or request.broker_epoch != self.epoch:
            return True
        self.controller_epoch = request.controller_epoch
        return False

    def _become(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if self._is_stale(request):
            return LeaderAndIsrResponse(error_code=11)
        response = LeaderAndIsrResponse()
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = 56 if partition in self.failed else 0
                before = self.states.get(partition)
                if code == 0 and (before is None or state.leader_epoch >= before.leader_epoch):
                    self.states[partition] = state
                    self.logs.add(partition)
                errors.append(LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code))
            response.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return response

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        if self._is_stale(request):
            return StopReplicaResponse(error_code=11)
        response = StopReplicaResponse()
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = 56 if partition in self.failed and state.delete_partition else 0
                if code == 0:
                    self.states.pop(partition, None)
                    if state.delete_partition:
                        self.logs.discard(partition)
                response.partition_errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                )
        return response

    def _update(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        if self._is_stale(request):
            return UpdateMetadataResponse(error_code=11)
        if request.type == FULL:
            self.metadata.clear()
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == -2:
                    self.metadata.pop(partition, None)
                else:
                    self.metadata[partition] = (state.leader, state.leader_epoch, tuple(state.isr))
        return UpdateMetadataResponse()


class FakeControlPlane:
    """Queues to broker models. Requests wait until the cluster delivers them."""

    def __init__(self, cluster: Cluster, plan: CrashPlan) -> None:
        self._cluster = cluster
        self._plan = plan
        self.epochs: dict[int, int] = {}
        self.queue: deque[tuple[int, int, Message, OnResponse]] = deque()
        self.sent: list[tuple[int, Message]] = []

    def add_broker(self, broker: LiveBroker) -> None:
        self.epochs[broker.broker_id] = broker.epoch

    def remove_broker(self, broker_id: int) -> None:
        self.epochs.pop(broker_id, None)

    def send(self, broker_id: int, request: Message, on_response: OnResponse) -> None:
        self._plan.reach()
        if broker_id not in self.epochs:
            return  # the controller has just learned that the broker is gone
        self.sent.append((broker_id, request))
        self.queue.append((broker_id, self.epochs[broker_id], request, on_response))

    def close(self) -> None:
        self.epochs.clear()
        self.queue.clear()

    def deliver(self) -> bool:
        """Let the next request that can be answered be answered."""
        for _ in range(len(self.queue)):
            broker_id, epoch, request, on_response = self.queue.popleft()
            broker = self._cluster.brokers.get(broker_id)
            if self.epochs.get(broker_id) != epoch:
                continue  # dropped: the broker is gone
            if broker is None or broker.is_stopped or broker.epoch != epoch:
                self.queue.append((broker_id, epoch, request, on_response))
                continue
            on_response(broker.answer(request))
            return True
        return False


async def no_pause() -> None:
    return


@dataclass
class Candidate:
    """A broker's controller with what it works with."""

    controller: Controller
    events: EventQueue
    plane: FakeControlPlane
    store: DirectStore
    plan: CrashPlan
    balances: list[int] = field(default_factory=list)
    is_crashed: bool = False

    def step(self) -> bool:
        """Process one event, or deliver one request."""
        if self.is_crashed:
            return False
        try:
            event = self.events.pop()
            if event is None:
                return self.plane.deliver()
            run(self.controller.process(event))
        except Crash:
            self.is_crashed = True
            self.plane.close()
            self.store.store.close()
        return True


class Cluster:
    """A tree, brokers, and controllers that compete for it."""

    def __init__(self, *broker_ids: int, settings: ControllerSettings | None = None) -> None:
        self.tree = MemoryTree(wall_ms=lambda: 1_700_000_000_000)
        self.admin = self.tree.connect()
        prepare_tree(self.admin)
        self.settings = settings or ControllerSettings()
        self.brokers: dict[int, BrokerModel] = {}
        self.candidates: list[Candidate] = []
        self._ids = itertools.count(1)
        for broker_id in broker_ids:
            self.start_broker(broker_id)

    # --- brokers ---

    def start_broker(self, broker_id: int, rack: str | None = None) -> BrokerModel:
        store = self.tree.connect()
        endpoints = (Endpoint("PLAINTEXT", f"host{broker_id}", 9092),)
        epoch = register_broker(store, BrokerRegistration(broker_id, endpoints, rack))
        before = self.brokers.get(broker_id)
        broker = BrokerModel(broker_id, epoch, store)
        if before is not None:
            broker.logs = before.logs
            broker.failed = before.failed
        self.brokers[broker_id] = broker
        return broker

    def expire_session(self, broker_id: int) -> None:
        """A broker is not registered until `renew_session`; its process goes on, and remembers everything."""
        self.brokers[broker_id].store.close()
        self.settle()

    def renew_session(self, broker_id: int) -> None:
        before = self.brokers[broker_id]
        self.start_broker(broker_id).metadata = before.metadata
        self.settle()

    def stop_broker(self, broker_id: int) -> None:
        self.brokers[broker_id].is_stopped = True
        self.brokers[broker_id].store.close()

    # --- controllers ---

    def add_controller(self, broker_id: int, plan: CrashPlan | None = None) -> Candidate:
        """A controller of a broker, which takes part in elections from now on."""
        plan = plan or CrashPlan()
        events = EventQueue()
        plane = FakeControlPlane(self, plan)
        store = DirectStore(self.tree.connect(), plan)
        balances: list[int] = []
        controller = Controller(
            broker_id,
            self.settings,
            cast(Any, store),
            plane,
            events,
            pause=no_pause,
            wall_ms=lambda: 1_700_000_000_000,
            random_bytes=lambda count: bytes([next(self._ids)] * count),
            schedule_balance=balances.append,
            register=no_pause,
        )
        candidate = Candidate(controller, events, plane, store, plan, balances)
        self.candidates.append(candidate)
        events.put(Startup())
        return candidate

    @property
    def active(self) -> Controller:
        (active,) = [each.controller for each in self.candidates if each.controller.is_active and not each.is_crashed]
        return active

    def settle(self) -> None:
        """Process everything until nothing is left to do."""
        for _ in range(STEPS_MAX):
            steps = [candidate.step() for candidate in self.candidates]
            if not any(steps):
                return
        raise AssertionError(f"the cluster does not come to rest within {STEPS_MAX} steps")

    def ask(self, make_event: Callable[[Reply[Any]], Event]) -> Any:
        """Hand a request to the active controller, settle, and return its outcome; None if the controller crashed."""
        outcomes: list[Any] = []
        asked = self.active
        asked.events.put(make_event(Reply(outcomes.append)))
        self.settle()
        if not outcomes and any(each.controller is asked and each.is_crashed for each in self.candidates):
            return None
        assert len(outcomes) == 1, f"{len(outcomes)} outcomes"
        return outcomes[0]

    # --- what a client of the tree does ---

    def create_topic(self, name: str, *replicas: tuple[int, ...], config: dict[str, str] | None = None) -> None:
        assignment = TopicAssignment(bytes([next(self._ids)] * 16), tuple(map(ReplicaAssignment, replicas)))
        self.admin.multi([create_or_set(self.admin, paths.config("topics", name), encode_config(config or {}))])
        self.admin.create(paths.topic(name), encode_topic(assignment))
        self.settle()

    def delete_topic(self, name: str) -> None:
        self.admin.create(paths.topic_deletion(name))
        self.settle()

    def topic(self, name: str) -> TopicAssignment:
        return decode_topic(name, self.admin.get(paths.topic(name))[0])

    def assignment(self, name: str, index: int = 0) -> ReplicaAssignment:
        return self.topic(name).partitions[index]

    def leadership(self, name: str, index: int = 0) -> Leadership:
        data, stat = self.admin.get(paths.partition_state(name, index))
        return Leadership.of(decode_partition_state(name, index, data), stat.version)

    def led(self, name: str, index: int = 0) -> tuple[int, tuple[int, ...]]:
        leadership = self.leadership(name, index)
        return leadership.leader, leadership.isr

    # --- what a leader does ---

    def alter_isr(
        self, name: str, isr: tuple[int, ...], index: int = 0, *, version: int = 3, **changes: Any
    ) -> AlterPartitionResponse:
        """The leader of a partition asks for another ISR, with what it knows from the tree."""
        leadership = self.leadership(name, index)
        leader = self.brokers[changes.pop("broker_id", leadership.leader)]
        data = PartitionData(
            partition_index=index,
            leader_epoch=changes.pop("leader_epoch", leadership.leader_epoch),
            new_isr=list(isr),
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=self.brokers[each].epoch) for each in isr],
            leader_recovery_state=changes.pop("recovery_state", 0),
            partition_epoch=changes.pop("partition_epoch", leadership.partition_epoch),
        )
        topic_id = self.topic(name).topic_id
        assert topic_id is not None
        request = AlterPartitionRequest(
            broker_id=leader.broker_id,
            broker_epoch=changes.pop("broker_epoch", leader.epoch),
            topics=[TopicData(topic_name=name, topic_id=changes.pop("topic_id", topic_id), partitions=[data])],
        )
        assert not changes
        response: AlterPartitionResponse = self.ask(lambda reply: AlterPartition(request, version, reply))
        return response

    def snapshot(self) -> dict[str, bytes]:
        """The nodes below `/brokers/topics`, `/admin` and `/config`, by path."""
        return {
            path: node.data
            for path, node in sorted(self.tree.nodes.items())
            if path.startswith(("/brokers/topics", "/admin", "/config"))
        }


def expire(candidate: Candidate) -> None:
    """The session of a candidate ends; its store has a new one at once, as a remote store would."""
    candidate.store.store.expire()
    candidate.events.clear_and_put(Expire())
    candidate.events.put(RegisterBrokerAndReelect())
