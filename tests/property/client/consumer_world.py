"""A consumer's engine between an application that polls without end and a cluster that a test plays.

Every request stays open until the test answers it, in any order; connections come up when the test says so; metadata
changes when it says so. Time stands still but for `pause`. Nothing else moves the engine.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.unit.client.consumer.clusters import metadata_with
from tidelog.client.aio.consumer.engine import ConsumerEngine, make_hooks
from tidelog.client.aio.consumer.errors import Woken
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.partition_state import FetchState, PartitionState
from tidelog.client.aio.consumer.settings import load_consumer_settings
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.waits import WAITS, Wait, WakeUp
from tidelog.client.errors import BrokerUnavailable, ClientError, ConnectionLost
from tidelog.client.types import BrokerNode, OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

TOPIC = "t"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
BROKERS = (1, 2)
_LONG_MS = 10**9
COMMITTED = 10
END = 50


@dataclass
class Open:
    """A request that has no answer yet."""

    node_id: int
    request: Any
    future: "asyncio.Future[Any]"
    partitions: frozenset[TopicPartition]


@dataclass
class Cluster:
    """What `NetworkClient` offers the engine, moved by a test."""

    settings: Any
    metadata: MetadataCache
    open: list[Open] = field(default_factory=list)
    tasks: set["asyncio.Task[Any]"] = field(default_factory=set)
    is_ready: dict[int, bool] = field(default_factory=lambda: dict.fromkeys(BROKERS, False))
    callbacks: dict[tuple[int, int], Callable[[], None]] = field(default_factory=dict)
    is_metadata_requested: bool = False
    listeners: list[Callable[[], None]] = field(default_factory=list)
    task_listeners: list[Callable[[], None]] = field(default_factory=list)

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        for listener in self.task_listeners:
            listener()

    def on_task_end(self, listener: Callable[[], None]) -> None:
        self.task_listeners.append(listener)

    def on_metadata(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def on_unreachable(self, _listener: object) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self, _timeout_ms: int = 0) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def request_refresh(self) -> None:
        self.is_metadata_requested = True

    async def find_coordinator(self, *_: object) -> BrokerNode:
        return BrokerNode(1, "h", 1)

    def forget_coordinator(self, *_: object) -> None:
        pass

    def link(self, node_id: int, _channel: int = 0) -> "Line":
        return Line(self, node_id)

    def ready_connection(self, node_id: int, on_change: Callable[[], None], channel: int = 0) -> "Line | None":
        if not self.is_ready[node_id]:
            self.callbacks[node_id, channel] = on_change
            return None
        return Line(self, node_id)

    async def send(self, node_id: int, request: Any, _response: object, **_: object) -> Any:
        if node_id not in self.metadata.nodes:
            raise BrokerUnavailable(f"id {node_id}", "it is not in the cluster's metadata")
        return await self.put(node_id, request)

    def put(self, node_id: int, request: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.open.append(Open(node_id, request, future, _partitions_of(request)))
        return future


class Line:
    """A connection of `Cluster`."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    async def write(self, request: Any, _response: object, **_: object) -> "asyncio.Future[Any]":
        return self._cluster.put(self._node_id, request)

    def send(self, request: Any, _response: object, **_: object) -> "asyncio.Future[Any]":
        return self._cluster.put(self._node_id, request)


class World:
    """The engine, its application, and its cluster."""

    def __init__(self) -> None:
        self.settings = load_consumer_settings({"bootstrap.servers": "h:1", "group.id": "g"}, {})
        self.epochs = [4] * len(PARTITIONS)
        self.leaders = [1, 2, 1]
        self.cluster = Cluster(self.settings, MetadataCache(max_age_ms=1 << 40))
        self.cluster.metadata = self._metadata()
        made: Any = lambda *_, **__: self.cluster  # noqa: E731
        self.engine = ConsumerEngine(self.settings, make_hooks(self.settings), make_client=made)
        self._application: asyncio.Task[None] | None = None

    def _metadata(self) -> MetadataCache:
        leaders = list(zip(self.leaders, self.epochs, strict=True))
        return metadata_with({TOPIC: leaders}, brokers=dict.fromkeys(BROKERS), into=self.cluster.metadata)

    # The application.

    async def call(self, function: Callable[[], Any]) -> None:
        """End the poll under way, call the consumer, and poll again."""
        if self._application is not None:
            self.engine.wakeup()
            await self._application
        outcome = function()
        if outcome is not None:
            await outcome
        self._application = asyncio.get_running_loop().create_task(self._poll())
        await settle()

    async def _poll(self) -> None:
        while True:
            try:
                await self.engine.poll(_LONG_MS)
            except Woken:
                return
            except ClientError:
                await asyncio.sleep(0)

    async def close(self) -> None:
        if self._application is not None:
            self._application.cancel()
            with suppress(asyncio.CancelledError):
                await self._application
        await self.engine.drop()

    # The cluster.

    async def move(self, partition: int, leader: int) -> None:
        """New metadata: a partition has another leader, or none (-1)."""
        self.leaders[partition] = leader
        self.epochs[partition] += 1
        await self.refresh()

    async def refresh(self) -> None:
        """Metadata comes, with what is true now."""
        self.cluster.is_metadata_requested = False
        self._metadata()
        for listener in self.cluster.listeners:
            listener()
        await settle()

    async def connect(self, node_id: int) -> None:
        self.cluster.is_ready[node_id] = True
        for key in [key for key in self.cluster.callbacks if key[0] == node_id]:
            self.cluster.callbacks.pop(key)()
        await settle()

    async def answer(self, number: int, code: ErrorCode, is_empty: bool = False) -> None:
        """Answer an open request: well, with an error of each partition, or about no partition at all."""
        if self.cluster.open:
            chosen = self.cluster.open.pop(number % len(self.cluster.open))
            chosen.future.set_result(_ANSWERS[type(chosen.request)](chosen, code, is_empty))
            await settle()

    async def lose(self, number: int) -> None:
        """The connection of an open request is lost."""
        if self.cluster.open:
            self.cluster.open.pop(number % len(self.cluster.open)).future.set_exception(ConnectionLost("h:1", "lost"))
            await settle()

    async def pause(self, pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)
        await settle()

    # What must hold.

    def check(self) -> None:
        """No partition waits without something to come that ends the wait."""
        for state in self.engine.subscription:
            wait = self._wait_of(state)
            assert wait is not None, f"{state.topic_partition} is {state.state.value}, which nothing was begun for"
            assert any(self._comes(each, wait, state) for each in WAITS[wait]), (
                f"{state.topic_partition} is {state.state.value} and waits for {wait.value}; nothing of that is to come"
            )

    def _wait_of(self, state: PartitionState) -> Wait | None:
        now_ms = self.cluster.now_ms()
        if state.state is not FetchState.FETCHING:
            return state.wait(now_ms)
        if state.is_paused:
            return Wait.PAUSED
        if state.retry_at_ms > now_ms:
            return Wait.POSITION_RETRY
        if state.leader.node_id not in self.cluster.metadata.nodes:
            return Wait.FETCH_LEADER
        return Wait.FETCH if self.cluster.is_ready[state.leader.node_id] else Wait.FETCH_CONNECTION

    def _comes(self, wake_up: WakeUp, wait: Wait, state: PartitionState) -> bool:
        partition = state.topic_partition
        if wake_up is WakeUp.CALLER:
            return True
        if wake_up is WakeUp.METADATA:
            return self.cluster.is_metadata_requested
        if wake_up is WakeUp.LINK:
            return any(node_id == state.leader.node_id for node_id, _ in self.cluster.callbacks)
        if wake_up is WakeUp.TIMER:
            return self._looks_again_by(state.retry_at_ms)
        if wake_up is WakeUp.TASK:
            request = _REQUESTS[wait]
            is_open = any(isinstance(each.request, request) and partition in each.partitions for each in self.open)
            return is_open or (wait is Wait.COMMITTED_OFFSET and bool(self.cluster.tasks))
        assert state.position is not None
        fetches = [each for each in self.open if isinstance(each.request, FetchRequest)]
        here = [each for each in fetches if each.node_id == state.leader.node_id]
        wanted = [sent.wanted.get(partition) for sent in self.engine._fetcher._under_way.values()]
        return len(here) == 2 or any(each is not None and each.fetch_offset == state.position.offset for each in wanted)

    @property
    def open(self) -> list[Open]:
        return self.cluster.open

    def _looks_again_by(self, time_ms: int) -> bool:
        loop: Any = asyncio.get_running_loop()
        timers = [handle.when() for handle in loop._scheduled if not handle.cancelled()]
        return bool(timers) and min(timers) * 1000 <= time_ms + 3


async def settle() -> None:
    """Let everything run that is ready."""
    for _ in range(30):
        await asyncio.sleep(0)


_REQUESTS = {
    Wait.COMMITTED_OFFSET: OffsetFetchRequest,
    Wait.RESET: ListOffsetsRequest,
    Wait.VALIDATION: OffsetForLeaderEpochRequest,
}


def _partitions_of(request: Any) -> frozenset[TopicPartition]:
    found = set()
    for topic in request.topics or ():
        for each in getattr(topic, "partitions", None) or getattr(topic, "partition_indexes", None) or ():
            index = each if isinstance(each, int) else getattr(each, "partition_index", getattr(each, "partition", -1))
            found.add(TopicPartition(TOPIC, index))
    return frozenset(found)


def _fetched(chosen: Open, code: ErrorCode, is_empty: bool) -> FetchResponse:
    partitions = [PartitionData(partition_index=each.partition, error_code=code) for each in sorted(chosen.partitions)]
    topic_id = chosen.request.topics[0].topic_id if chosen.request.topics else bytes(16)
    topics = [] if is_empty else [FetchableTopicResponse(topic=TOPIC, topic_id=topic_id, partitions=partitions)]
    return FetchResponse(responses=topics)


def _listed(chosen: Open, code: ErrorCode, is_empty: bool) -> ListOffsetsResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=each.partition, error_code=code, offset=0, leader_epoch=4)
        for each in chosen.partitions
    ]
    return ListOffsetsResponse(topics=[] if is_empty else [ListOffsetsTopicResponse(name=TOPIC, partitions=partitions)])


def _confirmed(chosen: Open, code: ErrorCode, is_empty: bool) -> OffsetForLeaderEpochResponse:
    ends = [
        EpochEndOffset(partition=each.partition, error_code=code, leader_epoch=3, end_offset=END)
        for each in chosen.partitions
    ]
    return OffsetForLeaderEpochResponse(
        topics=[] if is_empty else [OffsetForLeaderTopicResult(topic=TOPIC, partitions=ends)]
    )


def _committed(chosen: Open, code: ErrorCode, is_empty: bool) -> OffsetFetchResponse:
    """The last partition has no committed offset."""
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=each.partition,
            committed_offset=-1 if each == PARTITIONS[-1] else COMMITTED,
            committed_leader_epoch=3,
            error_code=code,
        )
        for each in chosen.partitions
    ]
    return OffsetFetchResponse(topics=[] if is_empty else [OffsetFetchResponseTopic(name=TOPIC, partitions=partitions)])


def _stored(chosen: Open, code: ErrorCode, _is_empty: bool) -> OffsetCommitResponse:
    partitions = [
        OffsetCommitResponsePartition(partition_index=each.partition, error_code=code) for each in chosen.partitions
    ]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=partitions)])


_ANSWERS: dict[type[Any], Callable[[Open, ErrorCode, bool], Any]] = {
    FetchRequest: _fetched,
    ListOffsetsRequest: _listed,
    OffsetForLeaderEpochRequest: _confirmed,
    OffsetFetchRequest: _committed,
    OffsetCommitRequest: _stored,
}

SEEKS: tuple[Callable[[ConsumerEngine, TopicPartition], None], ...] = (
    lambda engine, partition: engine.seek(partition, OffsetAndMetadata(7, "", 3)),
    lambda engine, partition: engine.seek(partition, OffsetAndMetadata(7)),
    lambda engine, partition: engine.seek_by([partition], EARLIEST),
    lambda engine, partition: engine.pause([partition]),
    lambda engine, partition: engine.resume([partition]),
)
