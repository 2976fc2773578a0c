"""A producer's core and its sender between a caller and a broker that a test plays, without sockets or waiting.

The network is two lists per connection: requests on their way, replies on their way. A test moves them one by one,
loses them, or lets requests of a lost connection arrive after all.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from tests.property.client.log_model import LogModel
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.producer.accumulator import Accumulator
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.delivery import Delivery
from tidelog.client.aio.producer.sender import Sender
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceTracker
from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.aio.producer.sink import Missing, RecordSink
from tidelog.client.aio.waits import WAITS, Wait, WakeUp
from tidelog.client.errors import ConnectionLost
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = "topic"
VERSION = ProduceRequest.versions[1]


@dataclass
class Exchange:
    """One request: its batches by partition, and the future of its reply."""

    batches: dict[int, bytes]
    future: "asyncio.Future[Any]"
    reply: ProduceResponse | None = None


@dataclass
class FakeConnection:
    """What the sender knows of a connection."""

    requests: deque[Exchange] = field(default_factory=deque)
    replies: deque[Exchange] = field(default_factory=deque)
    unanswered: list[bytes] = field(default_factory=list)
    number: int = 0
    address: str = "fake:1"

    @property
    def in_flight(self) -> int:
        return len(self.requests) + len(self.replies)

    def version_of(self, _request: object) -> int:
        return VERSION

    def next_correlation_id(self) -> int:
        self.number += 1
        return self.number

    def send_frame_without_reply(self, parts: list[Any]) -> None:
        self.unanswered.append(b"".join(bytes(part) for part in parts))

    def send_frame(self, parts: list[Any], *_rest: Any) -> "asyncio.Future[Any]":
        # 4 length + 8 header + client id "tidelog" + tags come before the body.
        frame = b"".join(bytes(part) for part in parts)
        request = ProduceRequest.decode(frame, int.from_bytes(frame[6:8], "big"), 4 + 8 + 2 + len("tidelog") + 1)
        batches = {each.index: bytes(each.records or b"") for each in request.topic_data[0].partition_data}
        exchange = Exchange(batches, asyncio.get_running_loop().create_future())
        self.requests.append(exchange)
        return exchange.future


class World:
    """One producer, one broker."""

    def __init__(self, partitions: int, **settings: Any) -> None:
        self.now_ms_value = 0
        self.logs = [LogModel() for _ in range(partitions)]
        self.connection = FakeConnection()
        self.zombies: list[Exchange] = []
        self.refusals: deque[tuple[ErrorCode, bool]] = deque()
        """What the next batches are answered instead, and whether they are stored before."""
        self.is_connected = True
        self.on_change: Callable[[], None] | None = None
        self.is_metadata_requested = False
        self.metadata = MetadataCache(max_age_ms=1 << 40)
        self.settings = load_producer_settings({"bootstrap.servers": "fake:1"}, settings)
        self.sent: list[list[tuple[bytes, Delivery]]] = [[] for _ in range(partitions)]
        self.sequence_tracker = SequenceTracker(is_transactional=False)
        self.sequence_tracker.take_identity(ProducerIdentity(7, 0))
        sequence_tracker = self.sequence_tracker if self.settings.enable_idempotence else None
        self.pool = BufferPool(self.settings.buffer_memory, self.settings.batch_size)
        self.accumulator = Accumulator(self.settings, self.pool, sequence_tracker)
        self.sender = Sender(
            self.settings,
            self,  # type: ignore[arg-type]
            self.accumulator,
            sequence_tracker,
            nullcontext(),
            lambda: None,
        )
        self.sink = RecordSink(self.settings, self.accumulator, self.pool, on_work=self.sender.wake)
        self.metadata.update(_metadata(partitions), 0, wanted=[TOPIC])
        self.topic_queue = self.accumulator.learn(self.metadata.topics[TOPIC], self.metadata)

    # What the sender asks of its client.

    def now_ms(self) -> int:
        return self.now_ms_value

    def ready_connection(self, _node_id: int, on_change: Callable[[], None]) -> FakeConnection | None:
        limit = self.settings.max_in_flight_requests_per_connection
        if self.is_connected and self.connection.in_flight < limit:
            return self.connection
        self.on_change = on_change
        return None

    def _changed(self) -> None:
        on_change, self.on_change = self.on_change, None
        if on_change is not None:
            on_change()

    def request_refresh(self) -> None:
        self.is_metadata_requested = True

    def spawn(self, work: Any) -> Any:
        work.close()
        raise AssertionError("the producer id ran out of epochs")

    # What happens.

    async def settle(self) -> None:
        """Let callbacks and turns run."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def send(self, partition: int, value: bytes) -> None:
        delivery = self.sink.place(self.topic_queue, value, None, partition, None, 1, None, self.now_ms_value)
        assert not isinstance(delivery, Missing)
        self.sent[partition].append((value, delivery))
        await self.settle()

    async def advance(self, by_ms: int) -> None:
        self.now_ms_value += by_ms
        self.sender.wake()
        await self.settle()

    async def arrive(self) -> None:
        """The oldest request on its way reaches the broker."""
        if self.connection.requests:
            exchange = self.connection.requests.popleft()
            self._serve(exchange)
            self.connection.replies.append(exchange)

    async def answer(self) -> None:
        """The oldest reply on its way reaches the producer."""
        if self.connection.replies:
            exchange = self.connection.replies.popleft()
            exchange.future.set_result(exchange.reply)
            self._changed()
            await self.settle()

    async def lose_connection(self) -> None:
        """Everything on its way is lost, though requests may still arrive later."""
        lost, self.connection = self.connection, FakeConnection(number=self.connection.number)
        self.zombies += lost.requests
        for exchange in [*lost.replies, *lost.requests]:
            exchange.future.set_exception(ConnectionLost("fake:1", "by the test"))
        self._changed()
        await self.settle()

    async def connect(self, *, is_connected: bool) -> None:
        """The connection comes up, or no more requests can be written to it."""
        self.is_connected = is_connected
        if is_connected:
            self._changed()
        await self.settle()

    async def lead(self, *, has_leader: bool) -> None:
        """Metadata comes: the partitions have a leader, or none."""
        self.is_metadata_requested = False
        self.metadata.update(_metadata(len(self.logs), leader=0 if has_leader else -1), 0, wanted=[TOPIC])
        self.accumulator.learn(self.metadata.topics[TOPIC], self.metadata)
        self.sender.wake()
        await self.settle()

    def check_waits(self) -> None:
        """No queue waits without something to come that ends the wait."""
        for queue in self.topic_queue.queues:
            if queue.batches:
                wait = self.accumulator.wait_of(queue, self.now_ms_value) or Wait.BATCH_CONNECTION
                assert any(self._comes(each, queue.partition) for each in WAITS[wait]), (
                    f"partition {queue.partition} waits for {wait.value}; nothing of that is to come"
                )

    def _comes(self, wake_up: WakeUp, partition: int) -> bool:
        if wake_up is WakeUp.METADATA:
            return self.is_metadata_requested
        if wake_up is WakeUp.LINK:
            return self.on_change is not None
        if wake_up is WakeUp.REPLY:
            return any(partition in each.batches for each in [*self.connection.requests, *self.connection.replies])
        # A timer for what is to be sent again or may grow; that of delivery.timeout.ms is of another order.
        limit_s = max(self.settings.retry_backoff_max_ms * 1.2, self.settings.linger_ms) / 1000 + 0.1
        timer = self.sender._timer
        return timer is not None and timer.when() - asyncio.get_running_loop().time() <= limit_s

    def arrive_late(self) -> None:
        """A request of a lost connection arrives after all, and its answer is lost."""
        if self.zombies:
            self._serve(self.zombies.pop(0))

    def forget_producer(self, partition: int) -> None:
        """Retention took what the broker knew of the producer."""
        self.logs[partition].producers.clear()

    async def run_to_the_end(self) -> None:
        """No more mishaps, and time enough."""
        self.refusals.clear()
        for _ in range(2000):
            if not self.accumulator.incomplete:
                return
            await self.advance(200)
            while self.connection.in_flight:
                await self.arrive()
                await self.answer()
        raise AssertionError(f"{list(self.accumulator.incomplete)} are never done")

    def _serve(self, exchange: Exchange) -> None:
        answers = []
        for partition, data in exchange.batches.items():
            refusal = self.refusals.popleft() if self.refusals else None
            if refusal is None:
                code, offset = self.logs[partition].append(data)
            else:
                code, offset = refusal[0], -1
                if refusal[1]:
                    self.logs[partition].append(data)
            answers.append(
                PartitionProduceResponse(
                    index=partition,
                    error_code=code,
                    base_offset=offset,
                    log_start_offset=0,
                )
            )
        exchange.reply = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=answers)])


def _metadata(partitions: int, leader: int = 0) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=0, host="fake", port=1)],
        topics=[
            MetadataResponseTopic(
                name=TOPIC,
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=0)
                    for index in range(partitions)
                ],
            )
        ],
    )
