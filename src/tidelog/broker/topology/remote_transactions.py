"""Transactions that span brokers: verification by other brokers' coordinators, markers for other brokers' partitions.

Markers for one broker share requests: while one is under way, new markers are collected for the next. A marker that
cannot be delivered is reported as NOT_LEADER_OR_FOLLOWER, and the coordinator sends it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tidelog.broker.topology.channels import BrokerChannels, BrokerUnreachable
from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError, StoreError
from tidelog.metadata.store import Store, StoreRunner
from tidelog.metadata.tree import decode_topic
from tidelog.tasks import OwnedTasks
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.partitions import PartitionKey

if TYPE_CHECKING:
    from tidelog.coordination import ProducerEpoch
    from tidelog.transactions import MarkerOrder

logger = logging.getLogger(__name__)

_MARKERS: Final = "transaction markers"
_VERIFICATION: Final = "transaction verification"
_MARKERS_AT_ONCE_MAX: Final = 500
"""So many markers go into one request."""

Report = Callable[[ErrorCode], None]
Respond = Callable[[dict[PartitionKey, ErrorCode]], None]


class _Marker(NamedTuple):
    order: MarkerOrder
    partition: PartitionKey
    report: Report


class _Question(NamedTuple):
    transactional_id: str
    producer: ProducerEpoch
    partitions: tuple[PartitionKey, ...]
    adds: bool
    respond: Respond


class RemoteTransactions:
    """One broker's verifications and markers at others."""

    def __init__(self, channels: BrokerChannels, metadata: StoreRunner, wake: Callable[[], None]) -> None:
        """`wake` is called after outcomes were reported, outside of a turn of the loop."""
        self._channels = channels
        self._metadata = metadata
        self._wake = wake
        self._waiting: dict[int, list[_Marker]] = {}
        self._sending: set[int] = set()
        self._questions: dict[int, list[_Question]] = {}
        self._asking: set[int] = set()
        self._tasks = OwnedTasks()

    # --- markers ---

    def write_marker(self, broker_id: int, order: MarkerOrder, partition: PartitionKey, report: Report) -> None:
        """Have a marker written by the leader of a partition; `report` gets what became of it, later."""
        self._waiting.setdefault(broker_id, []).append(_Marker(order, partition, report))
        if broker_id not in self._sending:
            self._sending.add(broker_id)
            self._tasks.spawn(self._send_markers(broker_id))

    async def _send_markers(self, broker_id: int) -> None:
        try:
            while markers := self._waiting.pop(broker_id, None):
                for start in range(0, len(markers), _MARKERS_AT_ONCE_MAX):
                    await self._send(broker_id, markers[start : start + _MARKERS_AT_ONCE_MAX])
        finally:
            self._sending.discard(broker_id)

    async def _send(self, broker_id: int, markers: list[_Marker]) -> None:
        codes: dict[tuple[int, PartitionKey], int] = {}
        try:
            response = await self._channels.send(broker_id, _request_of(markers), purpose=_MARKERS)
        except BrokerUnreachable:
            pass
        else:
            for result in cast(WriteTxnMarkersResponse, response).markers:
                for topic in result.topics:
                    for entry in topic.partitions:
                        codes[result.producer_id, (topic.name, entry.partition_index)] = entry.error_code
        for order, partition, report in markers:
            report(ErrorCode(codes.get((order.producer_id, partition), ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        self._wake()

    def look_up(self, partition: PartitionKey, report: Report) -> None:
        """Report a partition that the image lacks: NONE if it was deleted and needs no marker, otherwise an error.

        The image of a broker that has just started has only the topics that the controller has sent until then. The
        tree has every topic.
        """
        self._tasks.spawn(self._look_up(partition, report))

    async def _look_up(self, partition: PartitionKey, report: Report) -> None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            if await self._metadata.run(_is_deleted, partition):
                code = ErrorCode.NONE
        except StoreError as error:
            logger.info("whether %s-%d still exists is not known: %s", *partition, error)
        report(code)
        self._wake()

    # --- verification ---

    def verify(
        self,
        broker_id: int,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Respond,
        *,
        adds: bool = False,
    ) -> None:
        """Ask a coordinator whether partitions are part of a transaction (KIP-890); `respond` gets a code for each.

        With `adds` they become part of it, if they are not. Questions for one broker share requests, as markers do.
        """
        question = _Question(transactional_id, producer, tuple(partitions), adds, respond)
        self._questions.setdefault(broker_id, []).append(question)
        if broker_id not in self._asking:
            self._asking.add(broker_id)
            self._tasks.spawn(self._ask_all(broker_id))

    async def _ask_all(self, broker_id: int) -> None:
        try:
            while questions := self._questions.pop(broker_id, None):
                first: dict[str, _Question] = {}
                for question in questions:
                    # Answers are told apart by their transactional ids: a second question about one comes later.
                    if first.setdefault(question.transactional_id, question) is not question:
                        self._questions.setdefault(broker_id, []).append(question)
                await self._ask(broker_id, list(first.values()))
        finally:
            self._asking.discard(broker_id)

    async def _ask(self, broker_id: int, questions: Sequence[_Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_transaction_of(question) for question in questions])
        error: ErrorCode | None = None
        codes: dict[tuple[str, PartitionKey], ErrorCode] = {}
        try:
            answer = await self._channels.send(broker_id, request, purpose=_VERIFICATION)
        except BrokerUnreachable:
            pass
        else:
            response = cast(AddPartitionsToTxnResponse, answer)
            error = ErrorCode(response.error_code) if response.error_code else None
            for result in response.results_by_transaction:
                for topic in result.topic_results:
                    for entry in topic.results_by_partition:
                        key = result.transactional_id, (topic.name, entry.partition_index)
                        codes[key] = ErrorCode(entry.partition_error_code)
        missing = error or ErrorCode.COORDINATOR_NOT_AVAILABLE
        for name, _, partitions, _, respond in questions:
            respond({partition: codes.get((name, partition), missing) for partition in partitions})
        self._wake()

    # --- tasks ---

    async def close(self) -> None:
        """Send nothing more; report nothing."""
        self._tasks.cancel()
        await self._tasks.wait()


def _is_deleted(store: Store, partition: PartitionKey) -> bool:
    name, index = partition
    try:
        data, _ = store.get(paths.topic(name))
    except NoNodeError:
        return True
    return index >= len(decode_topic(name, data).partitions)


def _transaction_of(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.producer_epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in _grouped(question.partitions)
        ],
    )


def _request_of(markers: list[_Marker]) -> WriteTxnMarkersRequest:
    """One entry for each transaction, with its partitions by topic."""
    partitions: dict[tuple[int, int, int, bool, int], list[PartitionKey]] = {}
    for order, partition, _ in markers:
        key = order.producer_id, order.producer_epoch, order.coordinator_epoch, order.is_commit, order.protocol
        partitions.setdefault(key, []).append(partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_result=is_commit,
                transaction_version=protocol,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in _grouped(found)
                ],
            )
            for (producer_id, producer_epoch, coordinator_epoch, is_commit, protocol), found in partitions.items()
        ]
    )


def _grouped(partitions: Collection[PartitionKey]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return list(topics.items())
