"""The transactional requests by hand, in any version, against any broker that speaks Kafka's protocol.

Clients hide what a broker says behind retries and states of their own. Here every request is one call and every answer
an error code, so that the rules can be stated one by one, for our broker and for Apache Kafka alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from tests.integration.raw_client import RawClient, records_of
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.header import BatchHeader
from tidelog.records.record import Record
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    add_partitions_to_txn,
    describe_producers,
    fetch,
    list_offsets,
    offset_fetch,
    txn_offset_commit,
    write_txn_markers,
)
from tidelog.wire.messages import produce as producing

TIMEOUT_S = 20.0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TopicPartition = tuple[str, int]


class Producer(NamedTuple):
    """What a producer needs to write under a transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int


class Fetched(NamedTuple):
    """What one Fetch of a partition brought, as the broker sent it."""

    code: ErrorCode
    batches: list[BatchHeader]
    records: list[Record]
    """All data records, whether their transactions were aborted or not."""
    aborted: list[tuple[int, int]]
    high_watermark: int
    last_stable_offset: int

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


class Rpc:
    """One connection and the requests of transactions over it."""

    def __init__(self, port: int) -> None:
        self.client = RawClient(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    # --- producers ---

    def find_coordinator(self, key: str, key_type: int = 1) -> ErrorCode:
        request = messages.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return ErrorCode(self.client.call(request, 4).coordinators[0].error_code)

    def init(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int = 60_000,
        producer_id: int = -1,
        epoch: int = -1,
        version: int = 4,
    ) -> tuple[ErrorCode, int, int]:
        request = messages.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = self.client.call(request, version)
        return ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch

    def start(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Producer:
        """A producer, as soon as the coordinator is ready to have it."""
        until(lambda: self.find_coordinator(transactional_id) is ErrorCode.NONE)
        found: list[Producer] = []

        def is_there() -> bool:
            code, producer_id, epoch = self.init(transactional_id, timeout_ms=timeout_ms)
            assert code is ErrorCode.NONE or code.retriable, code
            found.append(Producer(transactional_id, producer_id, epoch))
            return code is ErrorCode.NONE

        until(is_there)
        return found[-1]

    # --- transactions ---

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 3) -> dict[TopicPartition, ErrorCode]:
        name, producer_id, epoch = producer
        topics = [
            add_partitions_to_txn.AddPartitionsToTxnTopic(
                name=topic, partitions=[index for other, index in partitions if other == topic]
            )
            for topic in dict.fromkeys(topic for topic, _ in partitions)
        ]
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        return _codes(self.client.call(request, version).results_by_topic_v3_and_below)

    def verify(
        self, producer: Producer, *partitions: TopicPartition, verify_only: bool = True, version: int = 5
    ) -> dict[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn as brokers send it to each other."""
        name, producer_id, epoch = producer
        transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=[index])
                for topic, index in partitions
            ],
        )
        answer = self.client.call(messages.AddPartitionsToTxnRequest(transactions=[transaction]), version)
        assert answer.error_code == ErrorCode.NONE
        (result,) = answer.results_by_transaction
        assert result.transactional_id == name
        return _codes(result.topic_results)

    def begin(self, producer: Producer, *partitions: TopicPartition) -> None:
        """Add partitions, as soon as the transaction before is over."""
        until(lambda: set(self.add(producer, *partitions).values()) == {ErrorCode.NONE})

    def end(self, producer: Producer, is_commit: bool, *, version: int = 3) -> ErrorCode:
        name, producer_id, epoch = producer
        request = messages.EndTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        return ErrorCode(self.client.call(request, version).error_code)

    def finish(self, producer: Producer, is_commit: bool) -> None:
        """End a transaction and wait until that is known everywhere: it can be said again then."""
        until(lambda: self.end(producer, is_commit) is ErrorCode.NONE)
        until(lambda: self.state(producer.transactional_id).startswith("Complete"))

    # --- records ---

    def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        producer: Producer | None = None,
        *,
        sequence: int = 0,
        version: int = 9,
        transactional_id: str | None = "",
    ) -> tuple[ErrorCode, int]:
        """One batch; of a transaction if there is a producer. Code and first offset."""
        _, producer_id, epoch = producer or ("", -1, -1)
        batch = build_batch(
            records_of(values),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence if producer else -1,
            is_transactional=producer is not None,
        )
        if transactional_id == "":
            transactional_id = None if producer is None else producer.transactional_id
        data = producing.PartitionProduceData(index=partition, records=batch)
        request = messages.ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[producing.TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = self.client.call(request, version).responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset

    def write(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        producer: Producer | None = None,
        *,
        sequence: int = 0,
    ) -> int:
        """The same where it must succeed, after retries where Kafka asks for them."""
        offsets: list[int] = []

        def is_written() -> bool:
            code, offset = self.produce(topic, partition, values, producer, sequence=sequence)
            assert code is ErrorCode.NONE or code.retriable, code
            offsets.append(offset)
            return code is ErrorCode.NONE

        until(is_written)
        return offsets[-1]

    def fetch(
        self, topic: str, partition: int = 0, offset: int = 0, *, isolation: int = READ_COMMITTED, max_wait_ms: int = 0
    ) -> Fetched:
        wanted = fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=10 << 20)
        request = messages.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = self.client.call(request, 12).responses[0].partitions[0]
        data = answer.records or b""
        batches = list(iterate_batches(data))
        return Fetched(
            ErrorCode(answer.error_code),
            [header for _, header in batches],
            [
                record
                for position, header in batches
                if not header.is_control
                for record in iterate_records(data, position)
            ],
            [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or ()],
            answer.high_watermark,
            answer.last_stable_offset,
        )

    def poll(self, topic: str, partition: int, position: int) -> tuple[list[tuple[int, bytes]], int]:
        """What a read-committed consumer gets at `position`, with offsets, and the position after it."""
        fetched = self.fetch(topic, partition, position)
        if fetched.code is not ErrorCode.NONE or not fetched.batches:
            return [], position
        found = [
            (record.offset, record.value or b"") for record in _without_aborted(fetched) if record.offset >= position
        ]
        return found, fetched.batches[-1].next_offset

    def read(self, topic: str, partition: int = 0, *, isolation: int = READ_COMMITTED) -> list[bytes | None]:
        """The values that a consumer would see: aborted ones left out, as every client does it."""
        fetched = self.fetch(topic, partition, isolation=isolation)
        assert fetched.code is ErrorCode.NONE
        if isolation == READ_UNCOMMITTED:
            return fetched.values
        return [record.value for record in _without_aborted(fetched)]

    def end_offset(self, topic: str, partition: int = 0, *, isolation: int = READ_UNCOMMITTED) -> int:
        asked = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = messages.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        found = self.client.call(request, 5).topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        return int(found.offset)

    # --- offsets of groups ---

    def add_offsets(self, producer: Producer, group: str, *, version: int = 3) -> ErrorCode:
        name, producer_id, epoch = producer
        request = messages.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        return ErrorCode(self.client.call(request, version).error_code)

    def commit_offset(
        self,
        producer: Producer,
        group: str,
        partition: TopicPartition,
        offset: int,
        *,
        version: int = 3,
        generation: int = -1,
        member: str = "",
    ) -> ErrorCode:
        """TxnOffsetCommit of one partition."""
        name, producer_id, epoch = producer
        entry = txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset, committed_metadata=""
        )
        request = messages.TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=partition[0], partitions=[entry])],
        )
        return ErrorCode(self.client.call(request, version).topics[0].partitions[0].error_code)

    def offset_of(
        self, group: str, partition: TopicPartition, *, require_stable: bool = False
    ) -> tuple[ErrorCode, int]:
        """What OffsetFetch says, retried while the group is being loaded."""
        topic = offset_fetch.OffsetFetchRequestTopics(name=partition[0], partition_indexes=[partition[1]])
        request = messages.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=require_stable
        )
        answers: list[Any] = []

        def is_there() -> bool:
            answers.append(self.client.call(request, 8).groups[0])
            return not ErrorCode(answers[-1].error_code).retriable

        until(is_there)
        found = answers[-1].topics[0].partitions[0]
        return ErrorCode(found.error_code), found.committed_offset

    # --- operators ---

    def describe(self, transactional_id: str) -> Any:
        request = messages.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.client.call(request, 0).transaction_states[0]

    def state(self, transactional_id: str) -> str:
        return str(self.describe(transactional_id).transaction_state)

    def list(self, *, version: int = 1, **filters: Any) -> Any:
        return self.client.call(messages.ListTransactionsRequest(**filters), version)

    def write_marker(
        self, producer: Producer, partition: TopicPartition, is_commit: bool, *, coordinator_epoch: int = 0
    ) -> ErrorCode:
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=is_commit,
            coordinator_epoch=coordinator_epoch,
            topics=[write_txn_markers.WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])],
        )
        answer = self.client.call(messages.WriteTxnMarkersRequest(markers=[marker]), 1)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    def producers(self, topic: str, partition: int = 0) -> Sequence[Any]:
        asked = describe_producers.TopicRequest(name=topic, partition_indexes=[partition])
        answer = self.client.call(messages.DescribeProducersRequest(topics=[asked]), 0)
        found: list[Any] = answer.topics[0].partitions[0].active_producers
        return found


def _codes(topics: Sequence[Any]) -> dict[TopicPartition, ErrorCode]:
    return {
        (topic.name, entry.partition_index): ErrorCode(entry.partition_error_code)
        for topic in topics
        for entry in topic.results_by_partition
    }


def _without_aborted(fetched: Fetched) -> list[Record]:
    """The rule of read-committed consumers: a producer's batches are left out from the offset listed to its marker."""
    aborted = sorted(fetched.aborted, key=lambda entry: entry[1])
    skipped: set[int] = set()
    records: list[Record] = []
    taken = 0
    for header in fetched.batches:
        while aborted and aborted[0][1] <= header.base_offset:
            skipped.add(aborted.pop(0)[0])
        if header.is_control:
            skipped.discard(header.producer_id)
            continue
        if not (header.is_transactional and header.producer_id in skipped):
            records += fetched.records[taken : taken + header.record_count]
        taken += header.record_count
    return records


def until(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Wait for a condition; it is asked again and again, as a client with retries does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {timeout_s} s"
        time.sleep(0.005)
