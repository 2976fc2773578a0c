"""Transactions of version 2 (KIP-890) over a socket: what versions of requests mean, and both protocols together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.transactions.protocol import Producer, Rpc, until
from tests.integration.raw_client import describe_topic, records_of
from tidelog.client import Consumer, NewTopic
from tidelog.client import Producer as OurProducer
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import FeatureUpgrade
from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tidelog.records.builder import build_batch
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic

NONE = ErrorCode.NONE
TOPIC = "written"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        started.create_topic(TOPIC, partitions=4)
        yield started


@pytest.fixture
def rpc(broker: Broker) -> Iterator[Rpc]:
    with Rpc(broker.port) as connected:
        yield connected


def write(rpc: Rpc, producer: Producer, partition: int, *, sequence: int = 0, version: int = 12) -> ErrorCode:
    return rpc.produce(TOPIC, partition, [b"value"], producer, sequence=sequence, version=version)[0]


def end(rpc: Rpc, producer: Producer, is_commit: bool = True) -> tuple[ErrorCode, Producer]:
    """EndTxn 5, and what the producer goes on with."""
    name, producer_id, epoch = producer
    request = messages.EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
    )
    answer = rpc.client.call(request, 5)
    return ErrorCode(answer.error_code), Producer(name, answer.producer_id, answer.producer_epoch)


def ended(rpc: Rpc, producer: Producer, is_commit: bool = True) -> Producer:
    code, following = end(rpc, producer, is_commit)
    assert code is NONE
    until(lambda: rpc.state(producer.transactional_id).startswith("Complete"))
    return following


def test_writing_begins_the_transaction_and_its_end_bumps_the_epoch(rpc: Rpc) -> None:
    producer = rpc.start("writing")
    for epoch in range(4):
        assert producer.epoch == epoch
        assert [write(rpc, producer, index) for index in (0, 1)] == [NONE, NONE]
        assert rpc.state("writing") == "Ongoing"
        producer = ended(rpc, producer, is_commit=epoch % 2 == 0)


def test_an_older_produce_still_needs_its_partition_added(rpc: Rpc) -> None:
    producer = rpc.start("older")
    assert write(rpc, producer, 0, version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert write(rpc, producer, 0, version=10) is ErrorCode.INVALID_TXN_STATE
    assert write(rpc, producer, 0, version=12) is NONE
    assert write(rpc, producer, 0, sequence=1, version=11) is NONE, "it is part of the transaction by now"


def test_a_request_of_an_ended_transaction_cannot_begin_another(rpc: Rpc) -> None:
    """What protocol version 1 can only make unlikely: the late request has an epoch that is over."""
    producer = rpc.start("late")
    assert write(rpc, producer, 0) is NONE
    following = ended(rpc, producer)
    assert write(rpc, producer, 0, sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(rpc, producer, 3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rpc.state("late") == "CompleteCommit"
    assert write(rpc, following, 0) is NONE


def test_an_end_may_be_asked_for_twice(rpc: Rpc) -> None:
    producer = rpc.start("twice")
    assert write(rpc, producer, 0) is NONE
    following = ended(rpc, producer)
    assert end(rpc, producer) == (NONE, following)
    assert end(rpc, producer, False)[0] is ErrorCode.INVALID_TXN_STATE
    assert end(rpc, following)[0] is ErrorCode.INVALID_TXN_STATE
    assert ended(rpc, following, False).epoch == following.epoch + 1
    assert end(rpc, producer) == (ErrorCode.PRODUCER_FENCED, Producer("twice", -1, -1))


def test_a_first_sequence_that_is_missing_is_out_of_order(rpc: Rpc) -> None:
    producer = rpc.start("gap")
    assert write(rpc, producer, 2, sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(rpc, producer, 2) is NONE


def test_a_late_marker_does_not_end_the_next_transaction(rpc: Rpc) -> None:
    producer = ended(rpc, rpc.start("marked"), False)
    assert write(rpc, producer, 0) is NONE
    topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]

    def marker(version: int, **fields: Any) -> ErrorCode:
        written = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=True,
            topics=topics,
            **fields,
        )
        answer = rpc.client.call(messages.WriteTxnMarkersRequest(markers=[written]), version)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    assert marker(2, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rpc.end(producer, False) is NONE


def commit_offset(
    rpc: Rpc, producer: Producer, version: int, group: str = "g", **topic: Any
) -> tuple[ErrorCode, str | bytes]:
    name, producer_id, epoch = producer
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(partitions=[partition], **topic)],
    )
    (answer,) = rpc.client.call(request, version).topics
    return ErrorCode(answer.partitions[0].error_code), answer.topic_id if version >= 6 else answer.name


def test_offsets_are_part_of_the_transaction_by_committing_them(rpc: Rpc) -> None:
    until(lambda: rpc.find_coordinator("g", 0) is NONE)
    topic_id = describe_topic(rpc.client, TOPIC).topic_id
    producer = rpc.start("offsets")
    assert commit_offset(rpc, producer, 4, name=TOPIC)[0] is ErrorCode.TRANSACTION_ABORTABLE
    assert commit_offset(rpc, producer, 5, name=TOPIC) == (NONE, TOPIC)
    producer = ended(rpc, producer)
    assert rpc.offset_of("g", (TOPIC, 0)) == (NONE, 7)
    assert commit_offset(rpc, producer, 6, topic_id=topic_id) == (NONE, topic_id)
    unknown = bytes(range(16))
    assert commit_offset(rpc, producer, 6, topic_id=unknown) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown)
    ended(rpc, producer)


def test_topic_ids_and_transactions_go_together(rpc: Rpc) -> None:
    producer = rpc.start("by-id")
    topic_id = describe_topic(rpc.client, TOPIC).topic_id
    producing = messages.produce
    data = build_batch(
        records_of([b"x"]),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    request = messages.ProduceRequest(
        transactional_id="by-id",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            producing.TopicProduceData(
                topic_id=topic_id, partition_data=[producing.PartitionProduceData(index=0, records=data)]
            )
        ],
    )
    assert rpc.client.call(request, 13).responses[0].partition_responses[0].error_code == NONE
    assert rpc.state("by-id") == "Ongoing"
    ended(rpc, producer)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_our_producer_uses_what_the_cluster_has_finalised(level: int) -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("ours", 2)])
            if level < 2:
                admin.update_features({"transaction.version": level}, FeatureUpgrade.SAFE_DOWNGRADE)
        where = TopicPartition("ours", 0)
        settings: Any = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "ours"}
        with OurProducer(**settings) as producer:
            producer.init_transactions()
            for number in range(4):
                producer.begin()
                for index in range(2):
                    producer.send("ours", b"%d" % number, partition=index)
                producer.send_offsets_to_transaction({where: OffsetAndMetadata(number)}, ConsumerGroupMetadata("g"))
                if number % 2 == 0:
                    producer.commit()
                else:
                    producer.abort()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            described = admin.describe_transactions(["ours"])["ours"]
            assert described.producer_epoch == (4 if level == 2 else 0)
        with Rpc(broker.port) as rpc:
            assert rpc.offset_of("g", ("ours", 0)) == (NONE, 2)
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([where])
            found: list[bytes | None] = []

            def are_read() -> bool:
                found.extend(each.value for each in consumer.poll(1000))
                return len(found) >= 2

            until(are_read)
            assert found == [b"0", b"2"]
