"""The memory of the sink: a compacted topic that holds, for each query, the last batch that was committed.

The number of a batch is written in the transaction that holds its rows, so both are there or neither is. Before it
commits, the driver asks for the last number. To answer, a worker reads its partition of the topic once and from then on
only what was added since.

Readers of committed records see nothing from the first open transaction on, which may be another query's, hanging
since its driver died; what this query has committed may lie beyond. So the rest is read as it is, up to the end of the
log, and the markers in it tell what was committed. Since InitProducerId has returned, all former transactions of this
query are marked. Only a transaction of the same query under another transactional id can be in doubt; it is waited for.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.cluster import ClusterClient
from tidelog.client.configs import Resource, ResourceType, describe_configs
from tidelog.client.errors import ClientError
from tidelog.client.offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.partitioner import partition_for_key
from tidelog.client.reader import FETCH_BY_NAME, RecordReader
from tidelog.client.refusals import raise_if_refused
from tidelog.client.topics import create_topic
from tidelog.client.types import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.tail import LogTail
from tidelog.spark.sink.transaction import now_ms, patiently
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, TopicProduceData

Result = TypeVar("Result")

PARTITIONS: Final = 8
"""Queries share partitions; more of them would only mean fewer readers of each record."""

REPLICAS: Final = 3
"""What it holds is needed as long as the query lives; a lost copy must not lose it."""

_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Small, because compaction leaves the newest segment alone and a new driver reads all of it.
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
_FETCH_BYTES: Final = 1024 * 1024
_WAIT_MS: Final = 100


class Remembered(NamedTuple):
    """The last batch of a query: which run of the query wrote it, under which transactional id, and by which plan."""

    batch_id: int
    run_id: str | None
    transactional_id: str | None = None
    plan: str | None = None
    """The fingerprint of what Spark noted for it."""
    rows: str | None = None
    """The fingerprint of its rows, where that note could not be read."""


class _Known:
    """What this process has read of one partition of the topic."""

    __slots__ = ("last", "position")

    def __init__(self) -> None:
        self.position = -1
        self.last: dict[bytes, Record] = {}


_KNOWN: Final[dict[tuple[str, str, int], _Known]] = {}
_CHECKED: Final[set[tuple[str, str]]] = set()
_HOMES: Final[dict[tuple[str, str, bytes], int]] = {}
"""The partitions that queries are remembered in, as far as this process has found them."""


class Memory:
    """The memory of one query in one cluster. `cluster_name` tells clusters apart in this process."""

    def __init__(self, cluster: ClusterClient, cluster_name: str, topic: str, query: str, *, patience_ms: int) -> None:
        self._cluster = cluster
        self._cluster_name = cluster_name
        self._topic = topic
        self._key = query.encode()
        self._patience_ms = patience_ms
        self._where: TopicPartition | None = None

    @property
    def where(self) -> TopicPartition:
        """The partition that remembers this query; the topic is made if it is not there."""
        if self._where is None:
            self._where = TopicPartition(self._topic, self._home())
        return self._where

    def _home(self) -> int:
        """The partition where this query is remembered already, whatever its hash says; else the one by its hash.

        Partitions may have been added since it was first remembered. All of them are read once in a process.
        """
        name = (self._cluster_name, self._topic, self._key)
        count = self._patiently(self._partition_count)
        if _HOMES.get(name, count) >= count:
            found: dict[int, int] = {}
            for partition in range(count):
                remembered, doubtful = self._patiently(lambda here=partition: self._look_up(here))  # type: ignore[misc]
                numbers = [each.batch_id for each in (remembered, *doubtful) if each is not None]
                if numbers:
                    found[partition] = max(numbers)
            if not found:
                return partition_for_key(self._key, count)
            _HOMES[name] = max(found, key=found.__getitem__)
        return _HOMES[name]

    def last_batch(self, timeout_ms: int) -> Remembered | None:
        """The last batch of this query that was committed.

        Call it after InitProducerId. Waits up to `timeout_ms` for transactions of this query that are in doubt.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            remembered, doubtful = self._patiently(lambda: self._look_up(self.where.partition))
            if not doubtful:
                return remembered
            if time.monotonic() > deadline:
                raise SinkError(
                    f"batch {doubtful[0].batch_id} of this query was written under another transactional id, and after "
                    f"{timeout_ms} ms its transaction is still open: was the option transactionalId changed while "
                    "another driver runs? Stop that one, or end its transaction (`tidelog transactions`)"
                )
            time.sleep(_WAIT_MS / 1000)

    def remember(self, handle: TransactionHandle, batch: Remembered) -> None:
        """Write the number of a batch in its transaction, to which `where` was added before."""
        told = {
            "batchId": batch.batch_id,
            "runId": batch.run_id,
            "transactionalId": handle.transactional_id,
            "plan": batch.plan,
            "rows": batch.rows,
        }
        value = json.dumps(told, separators=(",", ":"))
        data = build_batch(
            [Record(0, now_ms(), self._key, value.encode(), ())],
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._patiently(lambda: self._produce(handle.transactional_id, data))

    # Reading.

    def _look_up(self, partition: int) -> tuple[Remembered | None, list[Remembered]]:
        known = _KNOWN.setdefault((self._cluster_name, self._topic, partition), _Known())
        log_end = self._offset(partition, LATEST)
        stable_end = self._offset(partition, LATEST, read_committed=True)
        if not 0 <= known.position <= log_end:
            known.last.clear()
            known.position = self._offset(partition, EARLIEST)
        self._read_committed(partition, known, min(log_end, stable_end))
        committed = known.last.get(self._key)
        if known.position >= log_end:
            return _parsed(committed), []
        return self._read_unstable(partition, known.position, log_end, committed)

    def _offset(self, partition: int, time: int, *, read_committed: bool = False) -> int:
        found = list_offsets(self._cluster, self._topic, {partition: time}, read_committed=read_committed)
        return found[partition].offset

    def _read_committed(self, partition: int, known: _Known, end: int) -> None:
        reader = RecordReader(self._cluster, self._topic, {partition: known.position}, read_committed=True)
        while known.position < end:
            for fetched in reader.poll(_WAIT_MS):
                if fetched.record.key is not None:
                    known.last[fetched.record.key] = fetched.record
            known.position = _moved(known.position, reader.positions[partition], end)

    def _read_unstable(
        self, partition: int, position: int, end: int, committed: Record | None
    ) -> tuple[Remembered | None, list[Remembered]]:
        """From the first open transaction to the end of the log."""
        tail = LogTail(self._key, committed)
        while position < end:
            position = _moved(position, tail.read(self._fetch(partition, position), position), end)
        doubtful = [_parsed(record) for record in tail.in_doubt]
        return _parsed(tail.committed), [each for each in doubtful if each is not None]

    def _fetch(self, partition: int, offset: int) -> bytes:
        topic = self._topic
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
                    ],
                )
            ],
        )
        node = self._cluster.leader_of(topic, partition)
        reply = self._cluster.on_node(node, request, FetchResponse, at_most=FETCH_BY_NAME)
        (data,) = reply.responses[0].partitions
        raise_if_refused(f"{topic}-{partition}", data.error_code)
        return bytes(data.records or b"")

    # Writing.

    def _produce(self, transactional_id: str, data: bytes) -> None:
        topic, partition = self.where
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
            ],
        )
        node = self._cluster.leader_of(topic, partition)
        reply = self._cluster.on_node(node, request, ProduceResponse).responses[0].partition_responses[0]
        # A repeated request finds its record there already.
        if reply.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise_if_refused(f"{topic}-{partition}", reply.error_code, reply.error_message)

    # The topic.

    def _partition_count(self) -> int:
        try:
            count = len(self._cluster.partitions(self._topic))
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._create()
            count = len(self._cluster.partitions(self._topic))
        if (self._cluster_name, self._topic) not in _CHECKED:
            self._check_compacted()
            _CHECKED.add((self._cluster_name, self._topic))
        return count

    def _create(self) -> None:
        try:
            create_topic(
                self._cluster, NewTopic(self._topic, PARTITIONS, self._replication_factor(), configs=_TOPIC_CONFIGS)
            )
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _replication_factor(self) -> int:
        """As Kafka keeps its own transaction log: three copies, fewer only where there are fewer brokers.

        The brokers' default, which is one copy unless they are told otherwise, counts if it is more.
        """
        nodes = self._cluster.nodes()
        default = 1
        with suppress(ApiError, ClientError, ValueError):
            broker = Resource(ResourceType.BROKER, str(nodes[0].node_id))
            for config in describe_configs(self._cluster, broker, ["default.replication.factor"]):
                default = int(config.value or default)
        return max(default, min(REPLICAS, len(nodes)))

    def _check_compacted(self) -> None:
        """A topic that forgets by age would let a batch be written twice."""
        (policy,) = describe_configs(self._cluster, Resource(ResourceType.TOPIC, self._topic), ["cleanup.policy"])
        if policy.value != "compact":
            raise SinkError(
                f"stateTopic {self._topic!r} has cleanup.policy={policy.value}: it must be compact, "
                "or the last batch of a query would be forgotten"
            )

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        return patiently(attempt, self._patience_ms, self._cluster.forget)


def _moved(position: int, reached: int, end: int) -> int:
    """The new position. Raises what is repeated: a throttled broker may answer with nothing though there is more."""
    if reached <= position:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"nothing came from offset {position} on, although {end} exist")
    return reached


def _parsed(record: Record | None) -> Remembered | None:
    """What a record says. A record without value is a query that somebody has had forgotten."""
    if record is None or record.value is None:
        return None
    try:
        told = json.loads(bytes(record.value))
        told_of = (told.get(name) for name in ("runId", "transactionalId", "plan", "rows"))
        return Remembered(int(told["batchId"]), *told_of)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SinkError(f"the record at offset {record.offset} of the stateTopic is not one of ours: {error}") from None
