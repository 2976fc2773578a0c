"""Idempotent producers and a consumer that do not mind a broker that dies: they go on where they were.

A `Writer` behaves as Kafka's own producer does with `enable.idempotence`: at most five unanswered batches a partition,
each with its sequence; after a broken connection everything unanswered is sent again, in order and unchanged. It keeps
a ledger of what was acknowledged. A `Follower` reads all partitions and checks that it is never sent back or ahead.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.integration.raw_client import RawClient, batch_of, fetch_request, new_producer_id, produce_request
from tidelog.records.batch import iterate_batches
from tidelog.records.compression import Codec
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

UNANSWERED_MAX = 5
PRODUCE_VERSION = 9
FETCH_VERSION = 12
_RETRY_S = 0.005

TopicPartition = tuple[str, int]


class Sent(NamedTuple):
    """A batch on its way."""

    key: TopicPartition
    sequence: int
    count: int  # type: ignore[assignment]  # not the method of a tuple
    batch: bytes


class Acknowledged(NamedTuple):
    """A batch that the broker has promised to keep, and where."""

    producer_id: int
    sequence: int
    count: int  # type: ignore[assignment]  # not the method of a tuple
    base_offset: int


class _Client(threading.Thread):
    """A thread that writes until it is stopped, and connects again whenever its connection breaks."""

    def __init__(self, name: str, port: Callable[[], int]) -> None:
        super().__init__(name=name, daemon=True)
        self._port = port
        self._stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_done():
                try:
                    with RawClient(self._port()) as client:
                        self.use(client)
                except OSError:
                    time.sleep(_RETRY_S)
        except BaseException as error:
            self.failure = error

    def use(self, client: RawClient) -> None:
        raise AssertionError("a kind of client says what it does")

    def is_done(self) -> bool:
        return self._stopping.is_set()

    def stop(self, timeout_s: float = 30.0) -> None:
        """End after what is under way; raises what the thread failed with."""
        self._stopping.set()
        self.join(timeout_s)
        assert not self.is_alive(), f"{self.name} did not end within {timeout_s} s"
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


class Writer(_Client):
    """An idempotent producer to several partitions, batches of random size and codec."""

    def __init__(self, name: str, port: Callable[[], int], keys: list[TopicPartition], seed: int) -> None:
        super().__init__(name, port)
        self._random = random.Random(seed)
        self._keys = keys
        self._identity: tuple[int, int] | None = None
        self._next_sequence = dict.fromkeys(keys, 0)
        self._unanswered: dict[TopicPartition, deque[Sent]] = {key: deque() for key in keys}
        self._in_flight: deque[Sent] = deque()
        self.acknowledged: dict[TopicPartition, list[Acknowledged]] = {key: [] for key in keys}
        self.acknowledged_count = 0

    def is_done(self) -> bool:
        """Not before everything it has sent is answered: what was written must not be in doubt at the end."""
        return self._stopping.is_set() and not any(self._unanswered.values())

    @property
    def producer_id(self) -> int:
        return -1 if self._identity is None else self._identity[0]

    def use(self, client: RawClient) -> None:
        if self._identity is None:
            self._identity = new_producer_id(client)
        self._in_flight.clear()
        for waiting in self._unanswered.values():
            for sent in waiting:
                self._send(client, sent)
        while not self._stopping.is_set():
            key = self._random.choice(self._keys)
            if len(self._unanswered[key]) < UNANSWERED_MAX:
                sent = self._new_batch(key)
                self._unanswered[key].append(sent)
                self._send(client, sent)
            else:
                self._take_answer(client)
        while self._in_flight:
            self._take_answer(client)

    def _new_batch(self, key: TopicPartition) -> Sent:
        assert self._identity is not None
        sequence = self._next_sequence[key]
        count = self._random.choice((1, 1, 2, 5, 20))
        values = [value_of(self.producer_id, key, sequence + index) for index in range(count)]
        batch = batch_of(values, codec=self._random.choice(list(Codec)), producer=(*self._identity, sequence))
        self._next_sequence[key] = sequence + count
        return Sent(key, sequence, count, batch)

    def _send(self, client: RawClient, sent: Sent) -> None:
        topic, partition = sent.key
        client.send(produce_request(topic, {partition: sent.batch}), PRODUCE_VERSION)
        self._in_flight.append(sent)

    def _take_answer(self, client: RawClient) -> None:
        answer = client.answer(messages.ProduceRequest, PRODUCE_VERSION).responses[0].partition_responses[0]
        sent = self._in_flight.popleft()
        code = ErrorCode(answer.error_code)
        assert code is ErrorCode.NONE, f"{self.name}: {sent.key} sequence {sent.sequence}: {code!r} {answer}"
        assert self._unanswered[sent.key].popleft() is sent, "answers come in order"
        self.acknowledged[sent.key].append(
            Acknowledged(self.producer_id, sent.sequence, sent.count, answer.base_offset)
        )
        self.acknowledged_count += 1


def value_of(producer_id: int, key: TopicPartition, sequence: int) -> bytes:
    """What record `sequence` of a producer says: enough to be recognised by, and some weight."""
    text = f"{producer_id}/{key[0]}/{key[1]}/{sequence}/"
    return text.encode() + b"." * (sequence * 37 % 120)


class Follower(_Client):
    """A consumer of all partitions, and what it was given."""

    def __init__(self, name: str, port: Callable[[], int], keys: list[TopicPartition]) -> None:
        super().__init__(name, port)
        self._keys = keys
        self.offsets = dict.fromkeys(keys, 0)
        self.seen: dict[TopicPartition, list[tuple[int, int, int]]] = {key: [] for key in keys}
        """Base offset, producer id and base sequence of every batch, in the order they came."""

    def use(self, client: RawClient) -> None:
        topics = {topic for topic, _ in self._keys}
        while not self._stopping.is_set():
            for topic in topics:
                wanted = {index: offset for (name, index), offset in self.offsets.items() if name == topic}
                response = client.call(fetch_request(topic, wanted, max_wait_ms=5), FETCH_VERSION)
                for partition in response.responses[0].partitions if response.responses else ():
                    self._take((topic, partition.partition_index), partition)

    def _take(self, key: TopicPartition, partition: object) -> None:
        code = ErrorCode(partition.error_code)  # type: ignore[attr-defined]
        assert code is ErrorCode.NONE, f"{self.name}: {key} at offset {self.offsets[key]}: {code!r}"
        for _, header in iterate_batches(partition.records or b""):  # type: ignore[attr-defined]
            if header.last_offset < self.offsets[key]:
                continue
            assert header.base_offset == self.offsets[key], f"{key}: sent from {self.offsets[key]} to {header}"
            self.offsets[key] = header.next_offset
            self.seen[key].append((header.base_offset, header.producer_id, header.base_sequence))


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something that must become true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.002)
