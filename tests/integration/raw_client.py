"""A client of bytes: frames are built by the test, sent as they are, and answers are read one by one.

What the tests of failures need and no real client offers: any version, any damage, a connection that is not read from.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages import fetch as fetching
from tidelog.wire.messages import list_offsets, metadata
from tidelog.wire.messages import produce as producing

TIMEOUT_S = 30.0
CLIENT_ID = "raw"
_IP_BIND_ADDRESS_NO_PORT = 24


class RawClient:
    """One connection. Requests may be written ahead; answers come in the order of the requests."""

    def __init__(
        self,
        port: int,
        *,
        timeout_s: float = TIMEOUT_S,
        receive_buffer: int | None = None,
        client_id: str = CLIENT_ID,
    ) -> None:
        self._client_id = client_id
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        try:
            if sys.platform == "linux":
                # A port without a listener may be given to the very socket that connects to it, which then talks to
                # itself and keeps a broker that is about to come back from listening there.
                self.socket.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
                self.socket.bind(("127.0.0.2", 0))
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close so that the peer sees a reset and not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, request: Any, version: int | None = None) -> int:
        """Send a request and return the version it was sent in."""
        version = request.versions[1] if version is None else version
        self._correlation_id += 1
        self.socket.sendall(frame_of(request, version, self._correlation_id, self._client_id))
        return version

    def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request and return the decoded answer."""
        version = self.send(request, version)
        return self.answer(type(request), version)

    def answer(self, request_class: Any, version: int) -> Any:
        """The next answer, which is to a request of this class."""
        frame = self.frame()
        response = getattr(messages, request_class.__name__.replace("Request", "Response"))
        return response.decode(frame, version, response_body_offset(request_class.api_key, version, frame))

    def frame(self) -> bytes:
        """The next frame, without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def is_closed_by_peer(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker ends the connection within the time; answers that come before are read and dropped."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return True
            except ConnectionError:
                return True
            except TimeoutError:
                break
        return False

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            chunk = self.socket.recv(min(size - len(parts), 1 << 18))
            if not chunk:
                raise ConnectionResetError("closed by the broker")
            parts += chunk
        return bytes(parts)


def frame_of(request: Any, version: int, correlation_id: int = 1, client_id: str = CLIENT_ID) -> bytes:
    """A request as it travels, length included."""
    return encode_request(type(request).api_key, version, correlation_id, client_id, request.encode(version))


def records_of(values: Iterable[bytes], timestamp: int | None = None) -> list[Record]:
    now_ms = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    return [Record(offset, now_ms, None, value, ()) for offset, value in enumerate(values)]


def batch_of(
    values: Sequence[bytes],
    *,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] | None = None,
    timestamp: int | None = None,
) -> bytes:
    """A batch as a producer makes it; `producer` is its id, its epoch and the first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return build_batch(
        records_of(values, timestamp),
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def produce_request(topic: str, batches: dict[int, bytes | None], *, acks: int = -1) -> messages.ProduceRequest:
    """One batch for each of some partitions of one topic."""
    partitions = [producing.PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    return messages.ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[producing.TopicProduceData(name=topic, partition_data=partitions)]
    )


def produce(client: RawClient, topic: str, partition: int, batch: bytes, *, acks: int = -1, version: int = 9) -> Any:
    """Produce one batch; the answer for its partition."""
    response = client.call(produce_request(topic, {partition: batch}, acks=acks), version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str, offsets: dict[int, int], *, max_wait_ms: int = 500, min_bytes: int = 1, max_bytes: int = 50 << 20
) -> messages.FetchRequest:
    """What to read from some partitions of one topic, by name: for versions up to 12."""
    partitions = [
        fetching.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in offsets.items()
    ]
    return messages.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[fetching.FetchTopic(topic=topic, partitions=partitions)],
    )


def fetch_records(client: RawClient, topic: str, partition: int, offset: int = 0, *, version: int = 12) -> list[Record]:
    """All records from `offset` to the high watermark."""
    records: list[Record] = []
    while True:
        response = client.call(fetch_request(topic, {partition: offset}, max_wait_ms=0), version)
        found = response.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        data = found.records or b""
        for position, header in iterate_batches(data):
            records += [record for record in iterate_records(data, position) if record.offset >= offset]
            offset = header.next_offset
        if offset >= found.high_watermark:
            return records


def end_offset(client: RawClient, topic: str, partition: int) -> int:
    """Where a partition ends for consumers."""
    return offset_for_timestamp(client, topic, partition, -1)


def start_offset(client: RawClient, topic: str, partition: int) -> int:
    """Where a partition begins."""
    return offset_for_timestamp(client, topic, partition, -2)


def offset_for_timestamp(client: RawClient, topic: str, partition: int, timestamp: int) -> int:
    """The first offset at or after a time."""
    asked = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    topics = [list_offsets.ListOffsetsTopic(name=topic, partitions=[asked])]
    request = messages.ListOffsetsRequest(replica_id=-1, topics=topics)
    found = client.call(request, 5).topics[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
    return int(found.offset)


def new_producer_id(client: RawClient) -> tuple[int, int]:
    """A producer id and its epoch."""
    response = client.call(messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
    return response.producer_id, response.producer_epoch


def describe_topic(client: RawClient, topic: str) -> Any:
    """A topic as Metadata shows it."""
    asked = metadata.MetadataRequestTopic(name=topic)
    request = messages.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    return client.call(request, 12).topics[0]
