"""The state topic of the sink: compacted, it holds for each query the last batch that was committed.

The number of a batch is written in the transaction that holds its rows, so both are there or neither is. Before it
commits, the driver asks for the last number. To answer, a worker reads its partition of the topic once and from then on
only what was added since.

Readers of committed records see nothing from the first open transaction on, which may be another query's, hanging
since its driver died; what this query has committed may lie beyond. So the rest is read as it is, up to the end of the
log, and its markers show what was committed. Since InitProducerId has returned, all former transactions of this
query are marked. Only a transaction of the same query under another transactional id can be in doubt; it is waited for.
"""

import json
import time
from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.client.aio.admin.types import EARLIEST, LATEST, ConfigResource, NewTopic, ResourceType
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError, DeadlinePassed
from tidelog.client.partitioner import partition_for_key
from tidelog.client.patience import Patience
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.tail import LogTail, StateRecord
from tidelog.wire.errors import ApiError, ErrorCode

PARTITIONS: Final = 8
"""Queries share partitions; more of them would only mean fewer readers of each record."""

REPLICAS: Final = 3
"""The state is needed as long as the query exists; losing one replica must not lose it."""

_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Small, because compaction leaves the newest segment alone and a new driver reads all of it.
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
_WAIT_S: Final = 0.1
_TAIL_WAIT_S: Final = 60.0


class CommittedBatch(NamedTuple):
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
        self.last: dict[bytes, StateRecord] = {}


_KNOWN: Final[dict[tuple[str, TopicPartition], _Known]] = {}
_CHECKED: Final[set[tuple[str, str]]] = set()
_HOMES: Final[dict[tuple[str, str, bytes], int]] = {}
"""The partition that holds the record of each query, as far as this process has found it."""


class CommittedBatches:
    """The batches of one query in one cluster. `cluster_name` distinguishes clusters in this process."""

    def __init__(self, cluster: Cluster, cluster_name: str, topic: str, query: str) -> None:
        self._cluster = cluster
        self._cluster_name = cluster_name
        self._topic = topic
        self._key = query.encode()
        self._where: TopicPartition | None = None

    @property
    def where(self) -> TopicPartition:
        """The partition that holds the record of this query; the topic is made if it is not there."""
        if self._where is None:
            self._where = TopicPartition(self._topic, self._home())
        return self._where

    def _home(self) -> int:
        """The partition that has a record of this query already, whatever its hash says; else the one by its hash.

        Partitions may have been added since its first record. All of them are read once in a process.
        """
        name = (self._cluster_name, self._topic, self._key)
        count = self._partition_count()
        if _HOMES.get(name, count) >= count:
            found: dict[int, int] = {}
            for partition in range(count):
                committed, doubtful = self._look_up(partition)
                numbers = [each.batch_id for each in (committed, *doubtful) if each is not None]
                if numbers:
                    found[partition] = max(numbers)
            if not found:
                return partition_for_key(self._key, count)
            _HOMES[name] = max(found, key=found.__getitem__)
        return _HOMES[name]

    def last_batch(self, timeout_ms: int) -> CommittedBatch | None:
        """The last batch of this query that was committed.

        Call it after InitProducerId. Waits up to `timeout_ms` for transactions of this query that are in doubt.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            committed, doubtful = self._look_up(self.where.partition)
            if not doubtful:
                return committed
            if time.monotonic() > deadline:
                raise SinkError(
                    f"batch {doubtful[0].batch_id} of this query was written under another transactional id, and after "
                    f"{timeout_ms} ms its transaction is still open: if the option transactionalId was changed while "
                    "another driver runs, stop that driver, or abort its transaction (`tidelog transactions`)"
                )
            time.sleep(_WAIT_S)

    def add(self, producer: Producer, batch: CommittedBatch) -> None:
        """Write the number of a batch in the transaction that `producer` has joined and `where` was added to."""
        fields = {
            "batchId": batch.batch_id,
            "runId": batch.run_id,
            "transactionalId": batch.transactional_id,
            "plan": batch.plan,
            "rows": batch.rows,
        }
        value = json.dumps(fields, separators=(",", ":")).encode()
        stored = producer.send(self._topic, value, self._key, partition=self.where.partition)
        producer.flush()
        stored.result()

    # Reading.

    def _look_up(self, partition: int) -> tuple[CommittedBatch | None, list[CommittedBatch]]:
        where = TopicPartition(self._topic, partition)
        known = _KNOWN.setdefault((self._cluster_name, where), _Known())
        log_end = self._offset(where, LATEST)
        stable_end = min(log_end, self._offset(where, LATEST, read_committed=True))
        if not 0 <= known.position <= log_end:
            known.last.clear()
            known.position = self._offset(where, EARLIEST)
        for record in self._cluster.read({where: known.position}, {where: stable_end}, read_committed=True):
            if record.key is not None:
                known.last[record.key] = record
                known.position = record.offset + 1
        known.position = max(known.position, stable_end)
        committed = known.last.get(self._key)
        if known.position >= log_end:
            return _parsed(committed), []
        return self._read_unstable(where, known.position, log_end, committed)

    def _offset(self, where: TopicPartition, time: int, *, read_committed: bool = False) -> int:
        return self._cluster.list_offsets({where: time}, read_committed=read_committed)[where].offset

    def _read_unstable(
        self, where: TopicPartition, position: int, end: int, committed: StateRecord | None
    ) -> tuple[CommittedBatch | None, list[CommittedBatch]]:
        """From the first open transaction to the end of the log."""
        tail = LogTail(self._key, committed)
        patience = Patience(_TAIL_WAIT_S)
        while position < end:
            reached = tail.read(bytes(self._cluster.fetch({where: position})[where].records or b""), position)
            # A throttled broker may answer with nothing though there is more.
            if reached <= position and not patience.pause():
                raise DeadlinePassed(f"{where}: no records from offset {position} on, although the log ends at {end}")
            position = reached
        doubtful = [_parsed(record) for record in tail.in_doubt]
        return _parsed(tail.committed), [each for each in doubtful if each is not None]

    # The topic.

    def _partition_count(self) -> int:
        try:
            count = self._cluster.partition_count(self._topic)
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._create()
            count = self._cluster.partition_count(self._topic, is_expected=True)
        if (self._cluster_name, self._topic) not in _CHECKED:
            self._check_compacted()
            _CHECKED.add((self._cluster_name, self._topic))
        return count

    def _create(self) -> None:
        topic = NewTopic(self._topic, PARTITIONS, self._replication_factor(), configs=_TOPIC_CONFIGS)
        try:
            self._cluster.create_topics([topic])
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _replication_factor(self) -> int:
        """As Kafka keeps its own transaction log: three copies, fewer only where there are fewer brokers.

        The brokers' default, which is one copy unless it is set, counts if it is more.
        """
        nodes = self._cluster.describe_cluster().nodes
        default = 1
        with suppress(ClientError, KeyError, ValueError):
            broker = ConfigResource(ResourceType.BROKER, str(nodes[0].node_id))
            default = int(self._setting(broker, "default.replication.factor") or default)
        return max(default, min(REPLICAS, len(nodes)))

    def _check_compacted(self) -> None:
        """With cleanup.policy=delete, a batch could be written twice."""
        policy = self._setting(ConfigResource(ResourceType.TOPIC, self._topic), "cleanup.policy")
        if policy != "compact":
            raise SinkError(
                f"stateTopic {self._topic!r} has cleanup.policy={policy}: it must be compact, "
                "or the last batch of a query would be deleted"
            )

    def _setting(self, resource: ConfigResource, name: str) -> str | None:
        return self._cluster.describe_configs([resource], names=[name])[resource][name].value


def _parsed(record: StateRecord | None) -> CommittedBatch | None:
    """Decode a record. A tombstone means that the query was deleted."""
    if record is None or record.value is None:
        return None
    try:
        fields = json.loads(bytes(record.value))
        others = (fields.get(name) for name in ("runId", "transactionalId", "plan", "rows"))
        return CommittedBatch(int(fields["batchId"]), *others)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SinkError(f"the record at offset {record.offset} of the stateTopic is not valid: {error}") from None
