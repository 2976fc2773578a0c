"""The conversation with a transaction's coordinator, as driver and tasks have it: each a part of it.

A transaction belongs to a transactional id, a producer id and an epoch, not to a process: whoever knows the three may
take part. So the worker that plans a write begins, tasks add partitions, and another worker ends, each with requests of
its own. Requests that may arrive twice are repeated until `max.block.ms` has passed.
"""

import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.configs import Resource, ResourceType, describe_configs
from tidelog.client.errors import BrokerUnavailable, ClientError, DeadlinePassed
from tidelog.client.patience import Patience
from tidelog.client.refusals import raise_if_refused
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic

Result = TypeVar("Result")

_TRANSACTION: Final = 1
_FIND_VERSION_MAX: Final = 5
_ADD_VERSION_MAX: Final = 3  # later ones are for brokers
_END_VERSION_MAX: Final = 4  # from 5 on, the epoch changes with the end, and the driver takes a new one anyway
_NODES_MAX: Final = 64


# Coordinators that were found, as long as the client lives that found them: one question less for each batch and task.
_NODES: Final[WeakKeyDictionary[ClusterClient, dict[str, Node]]] = WeakKeyDictionary()


class OpenTransaction(NamedTuple):
    """A transaction that was begun, and since when; it travels to tasks and back."""

    handle: TransactionHandle
    timeout_ms: int
    begun_ms: int

    def open_ms(self) -> int:
        """How long it has been open, as far as clocks of different machines agree."""
        return now_ms() - self.begun_ms


class Coordinator:
    """The coordinator of one transactional id."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, *, patience_ms: int) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._patience_ms = patience_ms
        self._nodes = _NODES.setdefault(cluster, {})

    def begin(self, timeout_ms: int) -> OpenTransaction:
        """Take the transactional id: whatever was open under it is finished, whoever held it is fenced."""
        begun_ms = now_ms()
        producer_id, epoch = self._patiently(lambda: self._init_producer_id(timeout_ms))
        return OpenTransaction(TransactionHandle(self._transactional_id, producer_id, epoch), timeout_ms, begun_ms)

    def fence(self, transaction: OpenTransaction) -> None:
        """Abort `transaction` and bar everybody who still writes in it. A later one of the same id is left alone.

        EndTxn aborts only in the epoch it names; but then a task that is still at work could begin anew in that epoch,
        so the epoch is raised. InitProducerId alone would not do: it aborts whatever is open, a successor's as well.
        """
        handle = transaction.handle
        try:
            self.end(handle, is_commit=False)
        except ApiError as error:
            # Nothing was added yet, or it has ended already. Any other answer says that it is not ours any more.
            if error.code is not ErrorCode.INVALID_TXN_STATE:
                return
        self._patiently(
            lambda: self._init_producer_id(transaction.timeout_ms, handle.producer_id, handle.producer_epoch)
        )

    def partitions(self, handle: TransactionHandle) -> set[TopicPartition]:
        """The partitions in the open transaction. Raises ApiError if it is not the one of `handle` any more."""
        return self._patiently(lambda: self._describe(handle))

    def add(self, handle: TransactionHandle, partitions: Collection[TopicPartition]) -> None:
        """Bring partitions into the transaction, before anything is written to them."""
        self._patiently(lambda: self._add(handle, partitions))

    def end(self, handle: TransactionHandle, *, is_commit: bool) -> None:
        """Commit or abort."""
        self._patiently(lambda: self._end(handle, is_commit))

    # Requests.

    def _init_producer_id(self, timeout_ms: int, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        reply = self._cluster.on_node(self._coordinator(), request, InitProducerIdResponse)
        self._check("InitProducerId", reply.error_code)
        return reply.producer_id, reply.producer_epoch

    def _describe(self, handle: TransactionHandle) -> set[TopicPartition]:
        request = DescribeTransactionsRequest(transactional_ids=[self._transactional_id])
        (state,) = self._cluster.on_node(self._coordinator(), request, DescribeTransactionsResponse).transaction_states
        self._check("DescribeTransactions", state.error_code)
        if (state.producer_id, state.producer_epoch) != (handle.producer_id, handle.producer_epoch):
            self._check("DescribeTransactions", ErrorCode.PRODUCER_FENCED)
        return {TopicPartition(each.topic, partition) for each in state.topics for partition in each.partitions}

    def _add(self, handle: TransactionHandle, partitions: Collection[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=handle.producer_id,
            v3_and_below_producer_epoch=handle.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        reply = self._cluster.on_node(
            self._coordinator(), request, AddPartitionsToTxnResponse, at_most=_ADD_VERSION_MAX
        )
        codes = [
            (f"{topic.name}-{result.partition_index}", result.partition_error_code)
            for topic in reply.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        # OPERATION_NOT_ATTEMPTED only says that another partition was the reason.
        for where, code in sorted(codes, key=lambda entry: entry[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
            self._check(where, code)

    def _end(self, handle: TransactionHandle, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            committed=is_commit,
        )
        reply = self._cluster.on_node(self._coordinator(), request, EndTxnResponse, at_most=_END_VERSION_MAX)
        self._check("EndTxn", reply.error_code)

    def _coordinator(self) -> Node:
        node = self._nodes.get(self._transactional_id)
        if node is None:
            request = FindCoordinatorRequest(
                key=self._transactional_id, key_type=_TRANSACTION, coordinator_keys=[self._transactional_id]
            )
            reply = self._cluster.on_any(request, FindCoordinatorResponse, at_most=_FIND_VERSION_MAX)
            # Up to version 3 the reply is about the one key; from 4 on it has a list.
            told = reply.coordinators[0] if reply.coordinators else reply
            self._check("FindCoordinator", told.error_code, told.error_message)
            if len(self._nodes) >= _NODES_MAX:
                self._nodes.clear()  # each batch write has an id of its own
            node = self._nodes[self._transactional_id] = Node(told.node_id, told.host, told.port)
        return node

    def _check(self, what: str, code: int, message: str | None = None) -> None:
        raise_if_refused(f"{what} of transactional id {self._transactional_id!r}", code, message)

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        return patiently(attempt, self._patience_ms, self._forget)

    def _forget(self) -> None:
        self._nodes.pop(self._transactional_id, None)


_LONGEST_MS: Final[dict[str, int]] = {}


def longest_timeout_ms(cluster: ClusterClient, cluster_name: str, otherwise_ms: int) -> int:
    """The brokers' `transaction.max.timeout.ms`; `otherwise_ms` if they do not tell.

    Asked for once in a process. The least of all brokers counts, because the coordinator may move to any of them.
    """
    if cluster_name not in _LONGEST_MS:
        try:
            found = [
                int(config.value)
                for node in cluster.nodes()
                for config in describe_configs(
                    cluster, Resource(ResourceType.BROKER, str(node.node_id)), ["transaction.max.timeout.ms"]
                )
                if config.value
            ]
        except (ApiError, ClientError, ValueError):
            return otherwise_ms
        _LONGEST_MS[cluster_name] = min(found, default=otherwise_ms)
    return _LONGEST_MS[cluster_name]


def patiently(attempt: Callable[[], Result], patience_ms: int, forget: Callable[[], object]) -> Result:
    """Repeat `attempt`, which may arrive twice, while brokers are away, on the move or busy with an earlier end."""
    patience = Patience(patience_ms / 1000)
    while True:
        try:
            return attempt()
        except (ApiError, BrokerUnavailable) as error:
            if isinstance(error, ApiError) and not error.code.retriable:
                raise
            if not patience.pause():
                raise DeadlinePassed(f"not done within max.block.ms={patience_ms}: {error}") from error
            if not isinstance(error, ApiError) or error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                forget()


def now_ms() -> int:
    """Wall clock: it is compared across processes."""
    return time.time_ns() // 1_000_000
