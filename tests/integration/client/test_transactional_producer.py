"""Transactions against a coordinator that a test scripts: what is asked, when again, and when no more."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.client.fake_broker import CLOSE, FakeBroker
from tests.integration.client.test_network import run
from tidelog.client import AsyncProducer, OffsetAndMetadata, TopicPartition, TransactionHandle
from tidelog.client.errors import (
    ApiError,
    ClientConfigError,
    DeadlinePassed,
    IllegalState,
    ProducerFenced,
    TransactionFailed,
)
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tidelog.wire.messages.end_txn import EndTxnResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NONE = ErrorCode.NONE
QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 10, "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10}


class Coordination:
    """A broker that coordinates; `codes` are what the next requests of an API are refused with."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.codes: dict[int, list[Any]] = {}
        self.epoch = -1
        broker.topics["topic"] = 2
        broker.answers.update(
            {
                ApiKey.FIND_COORDINATOR: self._find,
                ApiKey.INIT_PRODUCER_ID: self._init,
                ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
                ApiKey.ADD_OFFSETS_TO_TXN: lambda _: self._answer(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse),
                ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
                ApiKey.END_TXN: lambda _: self._answer(ApiKey.END_TXN, EndTxnResponse),
                ApiKey.PRODUCE: self._produce,
            }
        )

    def refuse(self, api_key: int, *codes: Any) -> None:
        self.codes[api_key] = list(codes)

    def asked(self, api_key: int) -> list[Any]:
        return self.broker.asked(api_key)

    def _next(self, api_key: int) -> Any:
        codes = self.codes.get(api_key)
        return codes.pop(0) if codes else NONE

    def _answer(self, api_key: int, made: Any) -> Any:
        code = self._next(api_key)
        return code if code is CLOSE or code is None else made(error_code=code)

    def _find(self, request: Any) -> FindCoordinatorResponse:
        code = self._next(ApiKey.FIND_COORDINATOR)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.broker.port, error_code=code)
                for key in request.coordinator_keys
            ]
        )

    def _init(self, request: Any) -> Any:
        code = self._next(ApiKey.INIT_PRODUCER_ID)
        if code is NONE:
            self.epoch += 1
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)

    def _add_partitions(self, request: Any) -> Any:
        code = self._next(ApiKey.ADD_PARTITIONS_TO_TXN)
        if code is CLOSE or code is None:
            return code
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _commit_offsets(self, request: Any) -> TxnOffsetCommitResponse:
        code = self._next(ApiKey.TXN_OFFSET_COMMIT)
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _produce(self, request: Any) -> ProduceResponse:
        code = self._next(ApiKey.PRODUCE)
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        PartitionProduceResponse(index=each.index, error_code=code) for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )


def with_producer(test: Callable[[AsyncProducer, Coordination], Awaitable[None]], **settings: Any) -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            coordination = Coordination(broker)
            producer = AsyncProducer(bootstrap_servers=broker.address, transactional_id="id", **{**QUICK, **settings})
            await producer.start()
            await producer.init_transactions()
            try:
                await test(producer, coordination)
            finally:
                await producer.close(1)

    run(work())


def test_partitions_join_before_their_first_batch_and_once() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        async with producer.transaction():
            for _ in range(3):
                await producer.send_and_wait("topic", b"value", partition=1)
        (added,) = coordination.asked(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert [(topic.name, topic.partitions) for topic in added.v3_and_below_topics] == [("topic", [1])]
        order = [request.api_key for request in coordination.broker.requests]
        assert order.index(ApiKey.ADD_PARTITIONS_TO_TXN) < order.index(ApiKey.PRODUCE) < order.index(ApiKey.END_TXN)
        assert {request.transactional_id for request in coordination.asked(ApiKey.PRODUCE)} == {"id"}
        assert [request.committed for request in coordination.asked(ApiKey.END_TXN)] == [True]

    with_producer(test)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        CLOSE,
    ],
)
def test_a_coordinator_on_the_move_is_asked_again(code: Any) -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        for api_key in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN):
            coordination.refuse(api_key, code, code)
        async with producer.transaction():
            await producer.send_and_wait("topic", b"value")
        assert len(coordination.asked(ApiKey.END_TXN)) == 3
        lookups = len(coordination.asked(ApiKey.FIND_COORDINATOR))
        is_elsewhere = code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert (lookups > 1) == is_elsewhere

    with_producer(test)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE]
)
def test_a_producer_that_was_replaced_can_only_be_closed(code: ErrorCode) -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.END_TXN, code)
        await producer.begin()
        await producer.send_and_wait("topic", b"value")
        with pytest.raises(ProducerFenced, match=code.name):
            await producer.commit()
        for call in (producer.begin, producer.abort, producer.init_transactions):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            await producer.send("topic", b"value")

    with_producer(test)


def test_a_partition_that_may_not_be_written_fails_the_transaction_and_no_more() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await producer.begin()
        delivery = await producer.send("topic", b"value")
        while not delivery.done() and producer._engine.transactions.status.error is None:  # type: ignore[union-attr]
            await asyncio.sleep(0.005)
        with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.commit()
        await producer.abort()
        with pytest.raises(TransactionFailed):
            delivery.result()
        assert coordination.asked(ApiKey.END_TXN) == [], "the coordinator has no transaction to end"
        assert len(coordination.asked(ApiKey.INIT_PRODUCER_ID)) == 2, "but the epoch is raised, to be sure"
        async with producer.transaction():
            await producer.send("topic", b"value")

    with_producer(test)


def test_a_batch_refused_for_good_fails_the_commit_and_the_abort_heals() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        await producer.begin()
        delivery = await producer.send("topic", b"value", partition=0)
        with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
            await producer.commit()
        assert isinstance(delivery.exception(), ApiError)
        await producer.abort()
        assert [request.committed for request in coordination.asked(ApiKey.END_TXN)] == [False]
        async with producer.transaction():
            await producer.send("topic", b"value", partition=0)

    with_producer(test)


def test_a_partition_that_lost_the_sequence_raises_the_epoch_at_the_abort() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await producer.begin()
        await producer.send("topic", b"value", partition=0)
        with pytest.raises(TransactionFailed):
            await producer.commit()
        await producer.abort()
        first, second = coordination.asked(ApiKey.INIT_PRODUCER_ID)
        assert (first.producer_id, second.producer_id, second.producer_epoch) == (-1, 7, 0)
        await producer.begin()
        assert producer.transaction_handle == TransactionHandle("id", 7, 1)

    with_producer(test)


def test_a_commit_that_is_not_answered_raises_its_own_error() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.END_TXN, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000)
        with pytest.raises(DeadlinePassed):
            async with producer.transaction():
                await producer.send("topic", b"value", partition=0)
        coordination.refuse(ApiKey.END_TXN)
        await producer.commit()
        assert {request.committed for request in coordination.asked(ApiKey.END_TXN)} == {True}

    with_producer(test, max_block_ms=1000)  # it bounds the start too, on a busy machine


def test_offsets_go_to_the_groups_coordinator() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.TXN_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR)
        where = TopicPartition("topic", 1)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({}, "group")
            await producer.send_offsets_to_transaction({where: OffsetAndMetadata(5, "note", 3)}, "group")
            await producer.send_offsets_to_transaction({TopicPartition("topic", 0): 6}, "group")
        added, _ = coordination.asked(ApiKey.ADD_OFFSETS_TO_TXN)
        assert added.group_id == "group"
        _, commit, plain = coordination.asked(ApiKey.TXN_OFFSET_COMMIT)
        (partition,) = commit.topics[0].partitions
        assert (partition.partition_index, partition.committed_offset, partition.committed_metadata) == (1, 5, "note")
        assert plain.topics[0].partitions[0].committed_offset == 6
        keys = [request.coordinator_keys for request in coordination.asked(ApiKey.FIND_COORDINATOR)]
        assert keys == [["id"], ["group"], ["group"]]
        assert len(coordination.asked(ApiKey.END_TXN)) == 1

    with_producer(test)


def test_a_member_that_was_put_out_of_its_group_cannot_commit_offsets() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION)
        await producer.begin()
        with pytest.raises(TransactionFailed, match="ILLEGAL_GENERATION"):
            await producer.send_offsets_to_transaction({TopicPartition("topic", 0): OffsetAndMetadata(5)}, "group")
        await producer.abort()

    with_producer(test)


def test_a_commit_whose_answer_never_comes_can_be_asked_again() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        coordination.refuse(ApiKey.END_TXN, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000)
        await producer.begin()
        await producer.send_and_wait("topic", b"value")
        with pytest.raises(DeadlinePassed, match=r"max\.block\.ms=1500"):
            await producer.commit()
        with pytest.raises(IllegalState):
            await producer.send("topic", b"value")
        coordination.refuse(ApiKey.END_TXN)
        await producer.commit()
        await producer.begin()

    with_producer(test, max_block_ms=1500)  # it bounds the start too, on a busy machine


def test_closing_aborts_what_is_open() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        await producer.begin()
        await producer.send_and_wait("topic", b"value")
        await producer.close()
        assert [request.committed for request in coordination.asked(ApiKey.END_TXN)] == [False]

    with_producer(test)


def test_one_who_joins_writes_and_asks_the_coordinator_nothing() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            coordination = Coordination(broker)
            handle = TransactionHandle("id", 7, 3)
            async with AsyncProducer(bootstrap_servers=broker.address, joining=handle) as producer:
                await producer.send_and_wait("topic", b"value", partition=1)
                for call in (producer.begin, producer.commit, producer.abort, producer.init_transactions):
                    with pytest.raises(IllegalState, match="this one joined it"):
                        await call()
                coordination.refuse(ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                with pytest.raises(ApiError):
                    await producer.send_and_wait("topic", b"too late", partition=1)
                with pytest.raises(TransactionFailed):
                    await producer.send("topic", b"later still")
                with pytest.raises(IllegalState, match="this one joined it"):
                    await producer.abort()
            asked = {request.api_key for request in broker.requests}
            assert asked == {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE}
            from tidelog.records.header import read_header

            (first, *_) = coordination.asked(ApiKey.PRODUCE)
            header = read_header(first.topic_data[0].partition_data[0].records)
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
            assert header.is_transactional

    run(work())
    with pytest.raises(ClientConfigError, match="belongs to the producer that owns"):
        AsyncProducer(bootstrap_servers="x:1", transactional_id="id", joining=TransactionHandle("id", 7, 3))


def test_one_who_joins_can_join_another_transaction_and_counts_from_zero_again() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            coordination = Coordination(broker)
            async with AsyncProducer(
                bootstrap_servers=broker.address, joining=TransactionHandle("id", 7, 3)
            ) as producer:
                await producer.send_and_wait("topic", b"value", partition=1)
                await producer.join(TransactionHandle("other", 8, 0))
                await producer.send_and_wait("topic", b"value", partition=1)
                await producer.send("topic", b"under way", partition=1)
                with pytest.raises(IllegalState, match="call flush\\(\\) first"):
                    await producer.join(TransactionHandle("third", 9, 0))
            from tidelog.records.header import read_header

            asked = coordination.asked(ApiKey.PRODUCE)
            assert [each.transactional_id for each in asked] == ["id", "other", "other"]
            headers = [read_header(each.topic_data[0].partition_data[0].records) for each in asked]
            assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers] == [
                (7, 3, 0),
                (8, 0, 0),
                (8, 0, 1),
            ]

    run(work())


def test_only_those_who_joined_can_join_another() -> None:
    async def test(producer: AsyncProducer, coordination: Coordination) -> None:
        await producer.begin()
        with pytest.raises(IllegalState, match="cannot join others"):
            await producer.join(TransactionHandle("other", 8, 0))

    with_producer(test)
