"""Writing records: choose the partition, gather batches, send them to the leaders, count what was acknowledged.

One request per broker is under way while the next batches are built, so order within a partition holds and a refused
batch can be sent again in its place. A batch whose connection broke is not sent again, because it may have been stored:
that is an error which says how many records are in doubt. `tidelog produce`, the demo and tests are the callers.
"""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from tidelog.client.cluster import ClusterClient, Node, is_moving
from tidelog.client.connection import Connection
from tidelog.client.errors import ApiError, ConnectionLost
from tidelog.client.partitioner import StickyPartition, partition_for_key
from tidelog.client.refusals import raise_refusal
from tidelog.records.batch import Record
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import ProduceRequest, ProduceResponse
from tidelog.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData

Headers = Sequence[tuple[str, bytes | None]]

# Bytes of a record besides key and value: lengths, attributes, deltas. An estimate is enough to close a batch.
_RECORD_OVERHEAD_BYTES = 12


class _Batch(NamedTuple):
    partition: int
    record_count: int
    data: bytes


class _Sent(NamedTuple):
    connection: Connection
    batch: _Batch


class _Gathering:
    """Records of one partition that wait to become a batch."""

    __slots__ = ("records", "size_bytes")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0


class RecordWriter:
    """Writes to one topic. Use as a context manager, or call `flush` at the end."""

    def __init__(
        self,
        cluster: ClusterClient,
        topic: str,
        *,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        batch_bytes: int = 64 * 1024,
        may_create: bool = True,
    ) -> None:
        self.topic = topic
        self.acks = acks
        self.codec = codec
        self.batch_bytes = batch_bytes
        self.acknowledged = 0
        self.sent_bytes = 0
        self.next_offsets: dict[int, int] = {}
        self._cluster = cluster
        self._partition_count = len(cluster.partitions(topic, may_create=may_create))
        self._sticky = StickyPartition()
        self._gathering: dict[int, _Gathering] = {}
        self._under_way: dict[Node, _Sent] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.flush()

    def add(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Take one record; sends when its partition has a full batch."""
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        chosen = self._choose(key) if partition is None else partition
        gathering = self._gathering.get(chosen)
        if gathering is None:
            gathering = self._gathering[chosen] = _Gathering()
        records = gathering.records
        records.append(Record(len(records), timestamp_ms, key, value, tuple(headers)))
        gathering.size_bytes += _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        if headers:
            gathering.size_bytes += sum(len(name) + len(content or b"") + 4 for name, content in headers)
        if gathering.size_bytes >= self.batch_bytes:
            self._send(chosen)
            if key is None and partition is None:
                self._sticky.next_batch(self._partition_count)

    def flush(self) -> None:
        """Send what was gathered and wait for every reply."""
        for partition in list(self._gathering):
            self._send(partition)
        for node in list(self._under_way):
            self._settle(node)

    def _choose(self, key: bytes | None) -> int:
        if key is not None:
            return partition_for_key(key, self._partition_count)
        return self._sticky.current(self._partition_count)

    def _send(self, partition: int) -> None:
        records = self._gathering.pop(partition).records
        batch = _Batch(partition, len(records), build_batch(records, codec=self.codec))
        node = self._cluster.retrying(lambda: self._cluster.leader_of(self.topic, partition))
        self._settle(node)
        self._write(node, batch)

    def _write(self, node: Node, batch: _Batch) -> None:
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=self.topic,
                    partition_data=[PartitionProduceData(index=batch.partition, records=batch.data)],
                )
            ],
        )
        connection = self._cluster.connection_to(node)
        connection.write(request, expect_reply=self.acks != 0)
        self.sent_bytes += len(batch.data)
        if self.acks == 0:
            self.acknowledged += batch.record_count
        else:
            self._under_way[node] = _Sent(connection, batch)

    def _settle(self, node: Node) -> None:
        """Read the reply that `node` owes; a batch it refused for now is sent again before anything else."""
        sent = self._under_way.pop(node, None)
        if sent is None:
            return
        try:
            self._accept(sent)
        except ApiError as error:
            if not is_moving(error):
                raise
            self._cluster.forget()
            self._cluster.retrying(lambda: self._resend(sent.batch))

    def _resend(self, batch: _Batch) -> None:
        node = self._cluster.leader_of(self.topic, batch.partition)
        self._settle(node)
        self._write(node, batch)
        self._accept(self._under_way.pop(node))

    def _accept(self, sent: _Sent) -> None:
        batch = sent.batch
        reply = self._reply(sent)
        if reply.error_code != ErrorCode.NONE:
            reasons = [error.batch_index_error_message for error in reply.record_errors or ()]
            said = reply.error_message or next((reason for reason in reasons if reason), None)
            raise_refusal(
                f"{self.topic}-{batch.partition} refused {batch.record_count} records", reply.error_code, said
            )
        self.acknowledged += batch.record_count
        self.next_offsets[batch.partition] = reply.base_offset + batch.record_count

    def _reply(self, sent: _Sent) -> PartitionProduceResponse:
        try:
            answer = sent.connection.read(ProduceResponse)
        except ConnectionLost as error:
            doubtful = sum(other.batch.record_count for other in self._under_way.values()) + sent.batch.record_count
            raise ConnectionLost(
                error.address,
                f"{error.reason}; {self.acknowledged} records are acknowledged, {doubtful} may be stored or not",
            ) from error
        return answer.responses[0].partition_responses[0]
