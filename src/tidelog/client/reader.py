"""Reading partitions from chosen offsets: fetch, walk the batches, decode a record only when it is asked for.

No group, no commits: whoever reads keeps the positions. `tidelog consume`, the demo and tests are the callers.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.connection import Connection
from tidelog.client.errors import ConnectionLost
from tidelog.client.refusals import raise_refusal
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.header import BatchHeader
from tidelog.records.record import Record
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch import AbortedTransaction, FetchPartition, FetchTopic, PartitionData

# The last version that names topics by name; from 13 on the id would have to be known.
FETCH_BY_NAME = 12

_FETCH_BYTES = 16 * 1024 * 1024


class Fetched(NamedTuple):
    """A record and where it was found."""

    partition: int
    record: Record
    is_log_append_time: bool = False


class RecordReader:
    """Records of `topic` from `positions` (partition to offset) on. `positions` moves with what was yielded."""

    def __init__(
        self,
        cluster: ClusterClient,
        topic: str,
        positions: Mapping[int, int],
        *,
        partition_bytes: int = 1024 * 1024,
        read_committed: bool = False,
    ) -> None:
        self.topic = topic
        self.positions = dict(positions)
        self.high_watermarks: dict[int, int] = {}
        self._cluster = cluster
        self._partition_bytes = partition_bytes
        self._isolation_level = int(read_committed)

    def poll(self, wait_ms: int = 500) -> Iterator[Fetched]:
        """One fetch from every leader; yields what it brought, in offset order within each partition."""
        for data in self._cluster.retrying(lambda: self._fetch(wait_ms), even_if_lost=True):
            yield from self._records(data)

    def read_until(self, ends: Mapping[int, int], *, wait_ms: int = 500, idle_s: float = 30.0) -> Iterator[Fetched]:
        """Everything below the offsets `ends`; stops early, without error, when nothing came for `idle_s`."""
        idle_until = time.monotonic() + idle_s
        while any(self.positions[partition] < end for partition, end in ends.items()):
            before = dict(self.positions)
            yield from self.poll(wait_ms)
            if self.positions != before:
                idle_until = time.monotonic() + idle_s
            elif time.monotonic() > idle_until:
                return

    def _fetch(self, wait_ms: int) -> list[PartitionData]:
        groups = self._cluster.by_leader(self.topic, self.positions)
        # All leaders are asked before any is waited for. With several, none may hold the others up for long.
        connections = {node: self._ask(node, partitions, wait_ms) for node, partitions in groups.items()}
        fetched: list[PartitionData] = []
        for connection in connections.values():
            for topic in connection.read(FetchResponse).responses:
                fetched.extend(topic.partitions)
        for data in fetched:
            self._raise_error(data)
        return fetched

    def _ask(self, node: Node, partitions: list[int], wait_ms: int) -> Connection:
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=self._isolation_level,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            fetch_offset=self.positions[partition],
                            partition_max_bytes=self._partition_bytes,
                        )
                        for partition in partitions
                    ],
                )
            ],
        )
        connection = self._cluster.connection_to(node)
        if connection.pending:
            # A fetch that failed elsewhere left its reply unread here; a new connection is simpler than draining it.
            connection.close()
            raise ConnectionLost(connection.address, "replies of an abandoned fetch were due")
        connection.write(request, at_most=FETCH_BY_NAME)
        return connection

    def _raise_error(self, data: PartitionData) -> None:
        if data.error_code == ErrorCode.NONE:
            self.high_watermarks[data.partition_index] = data.high_watermark
            return
        message = None
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = self.positions[data.partition_index]
            message = f"there is no offset {offset}; `tidelog offsets {self.topic}` shows what there is"
        raise_refusal(f"{self.topic}-{data.partition_index}", data.error_code, message)

    def _records(self, data: PartitionData) -> Iterator[Fetched]:
        if not data.records:
            return
        partition = data.partition_index
        buffer = memoryview(data.records)
        aborted = _AbortedFilter(data.aborted_transactions or ())
        for position, header in iterate_batches(buffer):
            if header.next_offset <= self.positions[partition]:
                continue
            if header.is_control:
                aborted.pass_marker(header.producer_id)
            elif not aborted.covers(header):
                for record in iterate_records(buffer, position):
                    if record.offset >= self.positions[partition]:
                        self.positions[partition] = record.offset + 1
                        yield Fetched(partition, record, header.is_log_append_time)
            self.positions[partition] = header.next_offset


class _AbortedFilter:
    """Which transactional batches of one fetch were aborted. Empty unless read_committed was asked."""

    __slots__ = ("_active", "_coming")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted((entry.first_offset, entry.producer_id) for entry in aborted))
        self._active: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._active.add(self._coming.popleft()[1])
        return header.is_transactional and header.producer_id in self._active

    def pass_marker(self, producer_id: int) -> None:
        """A marker ends the producer's transaction; what it writes next is another one."""
        self._active.discard(producer_id)
