"""A blocking connection for the few control calls a case needs: create, describe, delete, end offsets."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from benchmarks import frames
from benchmarks.frames import Reader

LEADER_NOT_AVAILABLE = 5
UNKNOWN_TOPIC = 3
REQUEST_TIMED_OUT = 7


class AdminError(RuntimeError):
    """A broker answered with an error code, or not at all."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What Metadata says of one topic; `leaders` holds a node id, or -1, per partition."""

    error_code: int
    topic_id: bytes
    leaders: tuple[int, ...]
    in_sync: tuple[int, ...] = ()
    """How many replicas of each partition are in sync."""

    @property
    def is_led(self) -> bool:
        return self.error_code == 0 and bool(self.leaders) and min(self.leaders) >= 0


def open_socket(address: tuple[str, int], timeout_seconds: float = 60.0) -> socket.socket:
    """A blocking socket whose waits end after `timeout_seconds` in the kernel.

    `settimeout` would make Python poll before every call, which costs the load more than the call itself.
    """
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit = struct.pack("ll", int(timeout_seconds), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return sock


def read_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise AdminError(f"the broker closed the connection after {len(data)} of {count} bytes")
        data += chunk
    return bytes(data)


def read_frame(sock: socket.socket) -> bytes:
    """The next response without its length."""
    return read_exactly(sock, struct.unpack(">i", read_exactly(sock, 4))[0])


class Admin:
    """Control calls over one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def connect(cls, address: tuple[str, int], timeout_seconds: float = 120.0) -> Self:
        return cls(open_socket(address, timeout_seconds))

    def call(self, frame: bytes) -> Reader:
        self._sock.sendall(frame)
        return Reader(read_frame(self._sock))

    def serves(self, brokers: int = 1) -> bool:
        """Whether that many brokers are registered and a controller elected."""
        registered, controller = self.registered()
        return registered >= brokers and controller >= 0

    def registered(self) -> tuple[int, int]:
        """How many brokers are registered, and which is the controller; -1 if none is."""
        reader = self.call(frames.metadata([]))
        reader.take("i")
        brokers = reader.count()
        for _ in range(brokers):
            _skip_broker(reader)
        reader.text()
        return brokers, reader.take("i")[0]

    def describe(self, topic: str, auto_create: bool = False) -> TopicDescription:
        reader = self.call(frames.metadata([topic], auto_create))
        reader.take("i")
        for _ in range(reader.count()):
            _skip_broker(reader)
        reader.text()
        reader.take("i")
        assert reader.count() == 1, "one topic was asked for"
        return _read_topic(reader)

    def create(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None, replicas: int = 1
    ) -> bytes:
        """Create a topic, wait until every partition is led, and return its id."""
        reader = self.call(frames.create_topic(topic, partitions, configs or {}, replicas))
        reader.take("i")
        reader.count()
        reader.text()
        reader.raw(16)
        (error_code,) = reader.take("h")
        # A creation that takes longer than a request may goes on, and so does the wait for it.
        if error_code not in (0, REQUEST_TIMED_OUT):
            raise AdminError(f"CreateTopics {topic}: error {error_code}: {reader.text()}")
        return self.wait_until_led(topic)

    def wait_until_led(self, topic: str, auto_create: bool = False, seconds_max: float = 300.0) -> bytes:
        deadline = time.monotonic() + seconds_max
        while True:
            description = self.describe(topic, auto_create)
            if description.is_led:
                return description.topic_id
            if description.error_code not in (0, UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE):
                raise AdminError(f"Metadata {topic}: error {description.error_code}")
            if time.monotonic() > deadline:
                raise AdminError(f"{topic} has partitions without a leader after {seconds_max:.0f} s")
            time.sleep(0.001)

    def delete(self, topic: str) -> None:
        reader = self.call(frames.delete_topic(topic))
        reader.take("i")
        reader.count()
        reader.text()
        reader.raw(16)
        (error_code,) = reader.take("h")
        if error_code:
            raise AdminError(f"DeleteTopics {topic}: error {error_code}: {reader.text()}")

    def offsets(self, topic: str, partitions: Sequence[int] = (0,), timestamp: int = frames.LATEST) -> dict[int, int]:
        """One offset of each partition: where it ends, unless another is asked for."""
        reader = self.call(frames.list_offsets(topic, partitions, timestamp))
        reader.take("i")
        reader.count()
        reader.text()
        found = {}
        for _ in range(reader.count()):
            partition, error_code, _, offset, _ = reader.take("ihqqi")
            if error_code:
                raise AdminError(f"ListOffsets {topic}-{partition}: error {error_code}")
            found[partition] = offset
            reader.skip_tags()
        return found

    def produce(self, topic: str, partition: int, records: bytes, acks: int = -1) -> int:
        """Produce one batch and return its base offset."""
        return produced_offset(self.call(frames.produce(topic, partition, records, acks)))

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def produced_offset(reader: Reader) -> int:
    """The base offset in a Produce response of one partition."""
    reader.count()
    reader.text()
    reader.count()
    partition, error_code, base_offset = reader.take("ihq")
    if error_code:
        raise AdminError(f"Produce to partition {partition}: error {error_code}")
    return base_offset


def _skip_broker(reader: Reader) -> None:
    reader.take("i")
    reader.text()
    reader.take("i")
    reader.text()
    reader.skip_tags()


def _read_topic(reader: Reader) -> TopicDescription:
    (error_code,) = reader.take("h")
    reader.text()
    topic_id = reader.raw(16)
    reader.take("b")
    leaders: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    for _ in range(reader.count()):
        partition_error, index, leader, _ = reader.take("hiii")
        leaders[index] = -1 if partition_error else leader
        _, isr, _ = reader.numbers(), reader.numbers(), reader.numbers()
        in_sync[index] = len(isr)
        reader.skip_tags()
    by_index = sorted(leaders)
    return TopicDescription(
        error_code, topic_id, tuple(leaders[index] for index in by_index), tuple(in_sync[index] for index in by_index)
    )
