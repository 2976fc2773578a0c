"""Frames by hand: any request in any version, and the bytes that come back.

Clients hide what a broker says, and modern ones speak only the newest versions. Requests and responses are built with
the declared messages of `tidelog.wire`, which tests of their own hold to Kafka's bytes; record batches and message
sets come from the clients' builders.
"""

import socket
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.compat.clients.brokers import Broker
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.schema import Message

TIMEOUT_S = 20.0

Answer = TypeVar("Answer", bound=Message)


class HungUp(Exception):
    """The broker closed the connection."""


class RawConnection:
    """One socket. `call` is a request and its response; `send` and `receive` are its halves."""

    def __init__(self, broker: Broker, *, port: int | None = None) -> None:
        self._socket = socket.create_connection((broker.host, port or broker.port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Message, version: int, answer: type[Answer]) -> Answer:
        """Send a request and decode what comes back in the same version."""
        self.send(request, version)
        return self.receive(answer, version)

    def send(self, *requests_and_versions: Any) -> None:
        """Send requests, each followed by its version, in one piece: the broker gets them in one turn."""
        self.send_bytes(
            b"".join(
                self.frame(request, version)
                for request, version in zip(requests_and_versions[::2], requests_and_versions[1::2], strict=True)
            )
        )

    def frame(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        return encode_request(request.api_key, version, self._correlation_id, "raw", request.encode(version))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, answer: type[Answer], version: int) -> Answer:
        frame = self.receive_frame()
        return answer.decode(frame, version, response_body_offset(answer.api_key, version, frame))

    def receive_frame(self) -> bytes:
        """The next response without its length; raises HungUp."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_broker(self) -> bool:
        """Wait for the broker to hang up; False when it answers instead."""
        try:
            return not self._socket.recv(1)
        except ConnectionResetError:
            return True

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise HungUp(f"after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, timeout_ms: int = 10_000
) -> ProduceRequest:
    """A request with records for one partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def produce(
    connection: RawConnection,
    topic: str,
    records: bytes | None,
    version: int = 9,
    *,
    partition: int = 0,
    acks: int = -1,
) -> PartitionProduceResponse:
    """Produce to one partition and return what it was answered."""
    request = produce_request(topic, records, partition=partition, acks=acks)
    (answer,) = connection.call(request, version, ProduceResponse).responses
    assert answer.name == topic
    (partition_answer,) = answer.partition_responses
    assert partition_answer.index == partition
    return partition_answer


def fetch_request(topic: str | bytes, offset: int, *, partition: int = 0, **settings: Any) -> FetchRequest:
    """A request for one partition of a topic, given by its name or (as bytes, version 13 on) by its id."""
    partition_max_bytes = settings.pop("partition_max_bytes", 1 << 20)
    current_leader_epoch = settings.pop("current_leader_epoch", -1)
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=current_leader_epoch,
    )
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
    return FetchRequest(topics=[FetchTopic(**named, partitions=[wanted])], **{"min_bytes": 1, **settings})


def fetch(
    connection: RawConnection, topic: str | bytes, offset: int, version: int = 12, **settings: Any
) -> PartitionData:
    """Fetch from one partition and return what it was answered."""
    response = connection.call(fetch_request(topic, offset, **settings), version, FetchResponse)
    assert response.error_code == 0
    (answer,) = response.responses
    (partition_answer,) = answer.partitions
    return partition_answer
