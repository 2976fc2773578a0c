"""Transactions: listed, described, and aborted by an operator if they hang."""

from collections.abc import Collection, Iterable
from typing import Final

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import TransactionDescription, TransactionListing
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_ANY_DURATION: Final = -1


async def list_transactions(
    driver: Driver, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int | None
) -> list[TransactionListing]:
    """The transactional ids of all coordinators, by name."""

    async def ask(node_id: int, items: list[int]) -> Answers[int, list[TransactionListing]]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=_ANY_DURATION if longer_than_ms is None else longer_than_ms,
        )
        reply = await driver.client.send(node_id, request, ListTransactionsResponse)
        found = [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            for each in reply.transaction_states
        ]
        return {items[0]: answer_of(reply.error_code, None, found, f"transactions of broker {node_id}")}

    await driver.client.refresh()
    listed = await driver.run(list(driver.client.metadata.nodes), driver.to_broker, ask)
    return sorted({each for found in listed.values() for each in found})


async def describe_transactions(driver: Driver, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Transactional ids in detail."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, TransactionDescription]:
        request = DescribeTransactionsRequest(transactional_ids=items)
        reply = await driver.client.send(node_id, request, DescribeTransactionsResponse)
        coordinator = driver.client.metadata.nodes.get(node_id) or BrokerNode(node_id, "", -1)
        return {
            each.transactional_id: answer_of(
                each.error_code, None, _description(each, coordinator), f"transactional id {each.transactional_id!r}"
            )
            for each in reply.transaction_states
        }

    return await driver.run(list(transactional_ids), driver.to_transaction_coordinator, ask)


async def abort_transaction(
    driver: Driver, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write an abort marker into one partition: for a transaction whose coordinator knows nothing of it any more."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, None]:
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
                    coordinator_epoch=coordinator_epoch,
                )
            ]
        )
        reply = await driver.client.send(node_id, request, WriteTxnMarkersResponse)
        code = reply.markers[0].topics[0].partitions[0].error_code
        return {items[0]: answer_of(code, None, None, f"producer {producer_id} in {where}")}

    await driver.run([where], driver.to_leader, ask)


async def fence_producers(driver: Driver, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Abort the open transactions of transactional ids and fence their producers; returns new ids and epochs."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, tuple[int, int]]:
        answers: Answers[str, tuple[int, int]] = {}
        for name in items:
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=driver.client.settings.request_timeout_ms
            )
            reply = await driver.client.send(node_id, request, InitProducerIdResponse)
            if reply.error_code == ErrorCode.NONE:
                answers[name] = (reply.producer_id, reply.producer_epoch)
            else:
                answers[name] = ApiError(error_code_of(reply.error_code), f"transactional id {name!r}")
        return answers

    return await driver.run(list(transactional_ids), driver.to_transaction_coordinator, ask)


def _description(state: TransactionState, coordinator: BrokerNode) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        tuple(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
        coordinator,
    )
