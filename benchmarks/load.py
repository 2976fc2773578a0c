"""The measured loops: raw sockets, prebuilt frames, as little Python per request as can be.

Each loop runs for a time and returns a `Sample`. Answers to equal requests have equal length, so a loop counts bytes
instead of parsing; that each record really arrived is checked by its case, afterwards, against the log end offset.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

RECEIVE_BYTES = 65_536


class BrokerLostError(RuntimeError):
    """The broker closed a connection in the middle of a measurement."""


@dataclass(slots=True)
class Sample:
    """What one loop did in its time."""

    requests: int = 0
    payload_bytes: int = 0
    seconds: float = 0.0
    load_cpu_seconds: float = 0.0
    latencies_ns: list[int] = field(default_factory=list)

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.payload_bytes / self.seconds / 1e6

    def add(self, other: Sample) -> None:
        """Put another stretch of the same loop behind this one."""
        self.requests += other.requests
        self.payload_bytes += other.payload_bytes
        self.seconds += other.seconds
        self.load_cpu_seconds += other.load_cpu_seconds
        self.latencies_ns += other.latencies_ns

    def latency_us(self, percentile: float) -> float:
        """The latency that `percentile` percent of the requests did not exceed."""
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percentile / 100))] / 1000


@contextmanager
def measured(sample: Sample) -> Iterator[None]:
    """Time the block, wall and processor, with the collector of Python's cycles off."""
    gc.collect()
    gc.disable()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        yield
    finally:
        sample.seconds += time.perf_counter() - wall
        sample.load_cpu_seconds += time.process_time() - cpu
        gc.enable()


def _receive_rest(sock: socket.socket, missing: int) -> None:
    while missing > 0:
        chunk = sock.recv(missing)
        if not chunk:
            raise BrokerLostError("connection closed in the middle of an answer")
        missing -= len(chunk)


def one_at_a_time(
    sock: socket.socket, requests: Sequence[bytes], reply_bytes: int, seconds: float, requests_max: int | None = None
) -> Sample:
    """Send a request, await its answer of `reply_bytes`, again; the requests in turn, until time or number is up."""
    sample = Sample()
    send, receive, clock = sock.sendall, sock.recv, time.perf_counter_ns
    latencies = sample.latencies_ns
    note = latencies.append
    count = len(requests)
    index = 0
    with measured(sample):
        before = clock()
        deadline = before + int(seconds * 1e9)
        while before < deadline and requests_max != len(latencies):
            send(requests[index])
            received = len(receive(RECEIVE_BYTES))
            if received != reply_bytes:
                _require(received)
                _receive_rest(sock, reply_bytes - received)
            after = clock()
            note(after - before)
            before = after
            index += 1
            if index == count:
                index = 0
    sample.requests = len(latencies)
    return sample


def in_flight(sock: socket.socket, request: bytes, reply_bytes: int, window: int, seconds: float) -> Sample:
    """Keep `window` requests on their way over one connection; each answer is followed by a new request."""
    sample = Sample()
    bursts = [request * number for number in range(window + 1)]
    send, receive, clock = sock.sendall, sock.recv, time.perf_counter
    answered = rest = 0
    with measured(sample):
        send(bursts[window])
        deadline = clock() + seconds
        while clock() < deadline:
            received = len(receive(RECEIVE_BYTES))
            _require(received)
            replies, rest = divmod(rest + received, reply_bytes)
            if replies:
                answered += replies
                send(bursts[replies])
        _receive_rest(sock, window * reply_bytes - rest)
    sample.requests = answered + window
    return sample


def many_connections(
    socks: Sequence[socket.socket], requests: Sequence[bytes], reply_bytes: int, seconds: float
) -> Sample:
    """One request in flight on each connection, the same one each time, all connections served by one poll."""
    sample = Sample()
    request_of = {sock.fileno(): request for sock, request in zip(socks, requests, strict=True)}
    poller = select.epoll()
    for descriptor in request_of:
        poller.register(descriptor, select.EPOLLIN)
    read, write, poll, clock = os.read, os.write, poller.poll, time.perf_counter
    rests = dict.fromkeys(request_of, 0)
    answered = 0
    with measured(sample), poller:
        for descriptor, request in request_of.items():
            write(descriptor, request)
        deadline = clock() + seconds
        while clock() < deadline:
            for descriptor, _ in poll():
                received = len(read(descriptor, RECEIVE_BYTES))
                if received != reply_bytes:
                    _require(received)
                    rests[descriptor] += received
                    if rests[descriptor] < reply_bytes:
                        continue
                    rests[descriptor] = 0
                answered += 1
                write(descriptor, request_of[descriptor])
        for sock in socks:
            _receive_rest(sock, reply_bytes - rests[sock.fileno()])
    sample.requests = answered + len(socks)
    return sample


def fetch_in_turn(
    sock: socket.socket,
    requests: Sequence[bytes],
    reply_bytes_max: int,
    seconds: float,
    flags: int = socket.MSG_WAITALL,
) -> Sample:
    """Fetch, reading each answer whole into one buffer that is used again. Counts all bytes that came.

    TLS has no flags: it is read record by record.
    """
    sample = Sample()
    buffer = memoryview(bytearray(reply_bytes_max))
    send, receive_into, clock = sock.sendall, sock.recv_into, time.perf_counter
    requested = taken = 0
    count = len(requests)
    with measured(sample):
        deadline = clock() + seconds
        while clock() < deadline:
            send(requests[requested % count])
            received = receive_into(buffer)
            _require(received)
            expected = int.from_bytes(buffer[:4], "big") + 4
            while received < expected:
                # The kernel gathers the rest: one call however many segments it takes.
                more = receive_into(buffer[received:expected], 0, flags)
                _require(more)
                received += more
            taken += received
            requested += 1
    sample.requests = requested
    sample.payload_bytes = taken
    return sample


def end_to_end(
    producing: socket.socket, produce: bytes, consuming: socket.socket, fetches: Iterator[bytes], seconds: float
) -> Sample:
    """From sending a record to having it: a fetch already waits on another connection when the record leaves."""
    sample = Sample()
    clock = time.perf_counter_ns
    with measured(sample):
        deadline = clock() + int(seconds * 1e9)
        for fetch in fetches:
            consuming.sendall(fetch)
            # Nothing shows from outside that the fetch is parked; a millisecond is twenty times what parking takes.
            time.sleep(0.001)
            before = clock()
            producing.sendall(produce)
            head = consuming.recv(RECEIVE_BYTES)
            after = clock()
            _require(len(head))
            _receive_rest(consuming, int.from_bytes(head[:4], "big") + 4 - len(head))
            _receive_frame(producing)
            sample.latencies_ns.append(after - before)
            if after > deadline:
                break
    sample.requests = len(sample.latencies_ns)
    return sample


def _receive_frame(sock: socket.socket) -> None:
    head = sock.recv(RECEIVE_BYTES)
    _require(len(head))
    _receive_rest(sock, int.from_bytes(head[:4], "big") + 4 - len(head))


def _require(received: int) -> None:
    if not received:
        raise BrokerLostError("connection closed in the middle of a measurement")
