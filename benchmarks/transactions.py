"""Cases of transactions: how many a second, and what one costs beside plain idempotent writes.

A transaction is what a client makes of it: AddPartitionsToTxn, Produce, EndTxn, each after the answer to the one
before. A broker that has not finished the transaction before answers the first of them with CONCURRENT_TRANSACTIONS;
the load then asks again at once, where clients would wait for 20 ms or more, and the figures say how often that was.

    python -m benchmarks --case transactions --case transactions-16 --case transactional-writes
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import crc32c

from benchmarks import frames
from benchmarks.admin import open_socket, read_frame
from benchmarks.cases import Better, Case, Figure, Figures, times_kafka
from benchmarks.frames import NO_TAGS, array, text, uvarint
from benchmarks.lab import Bench, Topic
from benchmarks.load import Sample, measured

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END = (10, 4), (22, 4), (24, 3), (26, 3)
PRODUCE: Final = (frames.PRODUCE, frames.VERSIONS[frames.PRODUCE])
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTIONAL: Final = 0x10
RECORD: Final = b"x" * 100
BATCH_RECORDS: Final = 10
BATCHES_A_TRANSACTION: Final = 100
_serial = iter(range(1_000_000))
_code = struct.Struct(">h").unpack_from
_pack_int = struct.Struct(">i").pack_into
_pack_unsigned = struct.Struct(">I").pack_into
CHECKSUM_AT, CHECKED_FROM, SEQUENCE_AT = 17, 21, 53
"""Where these are in a batch."""


class BrokerRefusedError(RuntimeError):
    """A broker answered with an error that no retry explains."""


def request(api: tuple[int, int], body: bytes) -> bytes:
    """A whole frame with a flexible header."""
    header = struct.pack(">hhih", *api, 1, len(frames.CLIENT_ID)) + frames.CLIENT_ID + NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


class Producer:
    """A transactional, or with `name` None an idempotent, producer on one connection."""

    def __init__(self, sock: socket.socket, topic: str, name: str | None, records: list[bytes]) -> None:
        self.sock = sock
        self.name = name
        self.producer = self._initialize(name)
        self._sequence = 0
        self._record_count = len(records)
        attributes = 0 if name is None else TRANSACTIONAL
        batch = frames.batch(records, (*self.producer, 0), attributes)
        data = struct.pack(">i", 0) + uvarint(len(batch) + 1) + batch + NO_TAGS
        head = (uvarint(0) if name is None else text(name)) + struct.pack(">hi", -1, 30_000)
        frame = request(PRODUCE, head + array([text(topic) + array([data]) + NO_TAGS]) + NO_TAGS)
        self._produce = bytearray(frame)
        self._batch_start = frame.index(batch)
        self._checked = memoryview(self._produce)[self._batch_start + CHECKED_FROM : self._batch_start + len(batch)]
        if name is not None:
            who = text(name) + struct.pack(">qh", *self.producer)
            partitions = array([struct.pack(">i", 0)])
            self.add = request(ADD_PARTITIONS, who + array([text(topic) + partitions + NO_TAGS]) + NO_TAGS)
            self.commit = request(END, who + b"\x01" + NO_TAGS)

    def next_produce(self) -> bytearray:
        """The request for the next batch: the same bytes but for the sequence and the checksum over it."""
        frame, start = self._produce, self._batch_start
        _pack_int(frame, start + SEQUENCE_AT, self._sequence)
        _pack_unsigned(frame, start + CHECKSUM_AT, crc32c.crc32c(self._checked))
        self._sequence += self._record_count
        return frame

    def _initialize(self, name: str | None) -> tuple[int, int]:
        if name is not None:
            key = struct.pack(">b", 1) + array([text(name)]) + NO_TAGS
            self._until_ready(request(FIND_COORDINATOR, key), found_code)
        body = (uvarint(0) if name is None else text(name)) + struct.pack(">iqh", 60_000, -1, -1) + NO_TAGS
        reply = self._until_ready(request(INIT_PRODUCER_ID, body), ended_code)
        producer_id, epoch = struct.unpack_from(">qh", reply, 11)
        return producer_id, epoch

    def _until_ready(self, frame: bytes, code_of: Callable[[bytes], int]) -> bytes:
        for _ in range(500):
            self.sock.sendall(frame)
            reply = read_frame(self.sock)
            if not code_of(reply):
                return reply
            time.sleep(0.02)
        raise BrokerRefusedError(f"{self.name} gets no producer id")


def found_code(reply: bytes) -> int:
    """The code of the only coordinator, which follows its key, id, host and port."""
    position = 5 + 4 + 1
    position += reply[position] + 4  # the key and the broker's id
    position += reply[position] + 4  # the host and the port
    code: int = _code(reply, position)[0]
    return code


def added_code(reply: bytes) -> int:
    """The code of the only partition: the last thing before three empty sets of tags."""
    code: int = _code(reply, len(reply) - 5)[0]
    return code


def ended_code(reply: bytes) -> int:
    """After header and throttle time; InitProducerId has it in the same place."""
    code: int = _code(reply, 9)[0]
    return code


def produced_code(reply: bytes) -> int:
    """Header, then one topic with one partition, whose code follows its index."""
    position = 5 + 1
    size = reply[position]
    code: int = _code(reply, position + size + 1 + 4)[0]
    return code


def exchange(sock: socket.socket, frame: bytes | bytearray) -> bytes:
    sock.sendall(frame)
    return read_frame(sock)


def require(code: int, what: str) -> None:
    if code:
        raise BrokerRefusedError(f"{what} was answered with error {code}")


def run_transactions(producer: Producer, writes: int, seconds: float) -> tuple[Sample, int]:
    """Transactions of `writes` batches, one after the other; the sample counts them, the number repeated additions."""
    sample = Sample()
    sock = producer.sock
    repeated = 0
    with measured(sample):
        deadline = time.perf_counter() + seconds
        while (before := time.perf_counter_ns()) < deadline * 1e9:
            while (code := added_code(exchange(sock, producer.add))) == CONCURRENT_TRANSACTIONS:
                repeated += 1
            require(code, "AddPartitionsToTxn")
            for _ in range(writes):
                require(produced_code(exchange(sock, producer.next_produce())), "Produce")
            require(ended_code(exchange(sock, producer.commit)), "EndTxn")
            sample.latencies_ns.append(time.perf_counter_ns() - before)
    sample.requests = len(sample.latencies_ns)
    return sample, repeated


@contextmanager
def transactional(bench: Bench, topic: Topic, records: list[bytes]) -> Iterator[Producer]:
    with open_socket(bench.broker.address) as sock:
        yield Producer(sock, topic.name, f"benchmark-{next(_serial)}", records)


def one_producer(bench: Bench) -> Figures:
    """One record a transaction, the next transaction after the answer."""
    repeated = 0
    with bench.topic() as topic, transactional(bench, topic, [RECORD]) as producer:

        def loop(seconds: float) -> Sample:
            nonlocal repeated
            sample, repeated = run_transactions(producer, 1, seconds)
            return sample

        sample, _ = bench.measure(loop, is_divisible=False)  # `repeated` is that of the last call
    return {
        "rate": sample.requests_per_second,
        "p50": sample.latency_us(50),
        "p99": sample.latency_us(99),
        "repeated": repeated / sample.requests,
    }


ADDING, PRODUCING, ENDING = range(3)


def run_side_by_side(producers: list[Producer], seconds: float) -> Sample:
    """Transactions of one record on every connection, each at its own pace, served by one poll."""
    sample = Sample()
    poller = select.epoll()
    by_descriptor = {producer.sock.fileno(): index for index, producer in enumerate(producers)}
    for descriptor in by_descriptor:
        poller.register(descriptor, select.EPOLLIN)
    states = [ADDING] * len(producers)
    is_idle = [False] * len(producers)
    finished = 0
    with measured(sample):
        for producer in producers:
            producer.sock.sendall(producer.add)
        deadline = time.perf_counter() + seconds
        while not all(is_idle):
            for descriptor, _ in poller.poll(5):
                index = by_descriptor[descriptor]
                producer = producers[index]
                reply = read_frame(producer.sock)
                if states[index] == ADDING:
                    code = added_code(reply)
                    if code == CONCURRENT_TRANSACTIONS:
                        producer.sock.sendall(producer.add)
                        continue
                    require(code, "AddPartitionsToTxn")
                    states[index] = PRODUCING
                    producer.sock.sendall(producer.next_produce())
                elif states[index] == PRODUCING:
                    require(produced_code(reply), "Produce")
                    states[index] = ENDING
                    producer.sock.sendall(producer.commit)
                else:
                    require(ended_code(reply), "EndTxn")
                    finished += 1
                    states[index] = ADDING
                    if time.perf_counter() < deadline:
                        producer.sock.sendall(producer.add)
                    else:
                        is_idle[index] = True
    poller.close()
    sample.requests = finished
    return sample


def many_producers(count: int) -> Callable[[Bench], Figures]:
    """`count` producers at once, one record a transaction."""

    def run(bench: Bench) -> Figures:
        with bench.topic() as topic, bench.connections(count) as socks:
            producers = [Producer(sock, topic.name, f"benchmark-{next(_serial)}", [RECORD]) for sock in socks]
            sample, _ = bench.measure(lambda seconds: run_side_by_side(producers, seconds))
        return {"rate": sample.requests_per_second}

    return run


def writes(bench: Bench) -> Figures:
    """Batches of ten records, one at a time: a hundred of them a transaction, beside none."""
    records = [RECORD] * BATCH_RECORDS
    with bench.topic() as topic, transactional(bench, topic, records) as producer, bench.connections(1) as (sock,):
        plain = Producer(sock, topic.name, None, records)

        def alone(seconds: float) -> Sample:
            sample = Sample()
            with measured(sample):
                deadline = time.perf_counter() + seconds
                while time.perf_counter() < deadline:
                    require(produced_code(exchange(sock, plain.next_produce())), "Produce")
                    sample.requests += 1
            return sample

        def inside(seconds: float) -> Sample:
            sample, _ = run_transactions(producer, BATCHES_A_TRANSACTION, seconds)
            sample.requests *= BATCHES_A_TRANSACTION
            return sample

        idempotent, _ = bench.measure(alone)
        in_transactions, _ = bench.measure(inside)
    return {
        "idempotent": idempotent.requests_per_second,
        "transactional": in_transactions.requests_per_second,
        "share": 100 * in_transactions.requests_per_second / idempotent.requests_per_second,
    }


TRANSACTION_CASES: Final = (
    Case(
        "transactions",
        one_producer,
        (
            Figure("rate", "transactions of one record, one producer", "transactions/s", Better.HIGHER, times_kafka(2)),
            Figure("p50", "a transaction from begin to commit, p50", "µs", Better.LOWER, times_kafka(2)),
            Figure("p99", "a transaction from begin to commit, p99", "µs", Better.LOWER),
            Figure("repeated", "additions answered with CONCURRENT_TRANSACTIONS", "a transaction", Better.LOWER),
        ),
    ),
    Case(
        "transactions-16",
        many_producers(16),
        (Figure("rate", "transactions of one record, 16 producers", "transactions/s", Better.HIGHER, times_kafka(1)),),
    ),
    Case(
        "transactional-writes",
        writes,
        (
            Figure("idempotent", "batches of 1 KB, idempotent", "requests/s"),
            Figure("transactional", "the same, 100 a transaction", "requests/s", Better.HIGHER, times_kafka(2)),
            Figure("share", "transactional beside idempotent", "%"),
        ),
    ),
)
