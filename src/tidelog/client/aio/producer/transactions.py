"""Transactions of a producer: what is asked of the coordinator, in order, with retries, and what follows from answers.

    init       InitProducerId: finishes what a former holder of the transactional id left open, and fences it
    begin      nothing is asked yet
    (sending)  AddPartitionsToTxn before the first batch of a partition leaves
    offsets    AddOffsetsToTxn at the transaction's coordinator, TxnOffsetCommit at the group's
    commit     after a flush: EndTxn;  abort: the same, dropping what was not sent

`TransactionState` holds the rules. The sender asks `may_send_to` and reports failed batches; everything else is called
by the producer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from tidelog.client.aio.backoff import Backoff
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceBook
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.transaction_state import Event, State, TransactionHandle, TransactionState
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.errors import ApiError, BrokerUnavailable, DeadlinePassed, IllegalState, TransactionFailed
from tidelog.client.types import BrokerNode, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

Result = TypeVar("Result")

_ADD_PARTITIONS_VERSION_MAX: Final = 3  # later ones are for brokers
_CONCURRENT_WAIT_MS: Final = 20
"""A transaction that is being completed is done in a moment; the usual back-off would be felt by every commit."""


class Transactions:
    """The transactions of one producer."""

    def __init__(
        self,
        settings: ProducerSettings,
        client: NetworkClient,
        book: SequenceBook,
        *,
        on_change: Callable[[], None],
        joined: TransactionHandle | None = None,
    ) -> None:
        self.transactional_id = joined.transactional_id if joined is not None else settings.transactional_id or ""
        self.status = TransactionState(State.UNINITIALIZED if joined is None else State.JOINED)
        self._settings = settings
        self._client = client
        self._book = book
        self._on_change = on_change
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._has_offsets = False
        self._is_owner = joined is None
        if joined is not None:
            self.join(joined)

    # What the producer calls.

    async def initialize(self) -> None:
        """Get producer id and epoch; whatever was left open under this transactional id is finished first."""
        self._check_owner("init_transactions")
        self.status.check_not_failed()
        if self.status.state not in (State.UNINITIALIZED, State.READY):
            raise IllegalState(f"init_transactions is not possible now: the producer is {self.status.state.value}")
        await self._init_producer_id(ProducerIdentity(-1, -1))
        self.status.advance(Event.INITIALIZED)

    def begin(self) -> None:
        """Open a transaction."""
        self._check_owner("begin")
        self.status.advance(Event.BEGUN)
        self._added.clear()
        self._to_add.clear()
        self._has_offsets = False
        self._on_change()

    def join(self, handle: TransactionHandle) -> None:
        """Write in the transaction of `handle` from now on; sequences begin at 0 in it."""
        if self._is_owner:
            raise IllegalState("a producer with a transactional.id has transactions of its own and joins no others")
        if self.status.state is not State.JOINED:
            self.status.check_not_failed()
        self.transactional_id = handle.transactional_id
        self._book.take_identity(ProducerIdentity(handle.producer_id, handle.producer_epoch))

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring partitions into the transaction now: for records that other processes write in it."""
        self._check_owner("add_partitions")
        self.status.check_may_send()
        await self._add(set(partitions) - self._added)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Store consumed offsets as part of the transaction."""
        self._check_owner("send_offsets_to_transaction")
        self.status.check_may_send()
        if not offsets:
            return
        await self._guard(self._coordinated(lambda node: self._add_offsets(node, group.group_id)))
        self._has_offsets = True
        await self._guard(self._coordinated(lambda node: self._commit_offsets(node, offsets, group), group.group_id))

    async def end(self, *, is_commit: bool, settle: Callable[[], Awaitable[None]]) -> None:
        """Commit or abort. `settle` returns when nothing is under way any more."""
        self._check_owner("commit" if is_commit else "abort")
        self.status.advance(Event.COMMIT_ASKED if is_commit else Event.ABORT_ASKED)
        self._on_change()
        await settle()
        if self._adding is not None:
            await asyncio.wait([self._adding])
        if is_commit:
            self.status.check_not_failed()
        if self._added or self._has_offsets:
            await self._guard(self._coordinated(lambda node: self._end(node, is_commit)))
        if self._book.needs_epoch_bump and not is_commit:
            await self._init_producer_id(self._book.identity)
        self.status.advance(Event.ENDED)
        self._on_change()

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction of ours that can still be undone; a commit that was asked for cannot."""
        is_open = self.status.state in (State.OPEN, State.ABORTING, State.FAILED)
        return is_open and self._is_owner

    @property
    def handle(self) -> TransactionHandle:
        """The open transaction, for other processes."""
        self.status.check_may_send()
        return TransactionHandle(self.transactional_id, *self._book.identity)

    # What the sender calls.

    def may_send_to(self, where: TopicPartition) -> bool:
        """Whether a partition is in the transaction. If it is not, it will be, unless sending is over."""
        if self.status.state is State.JOINED or where in self._added:
            return True
        if self.status.state in (State.OPEN, State.COMMITTING):
            self._to_add.add(where)
            if self._adding is None:
                self._adding = self._client.spawn(self._add_wanted())
                self._adding.add_done_callback(self._finished_adding)
        return False

    def fail(self, error: Exception) -> None:
        """A batch of the transaction was lost."""
        if self.status.state is not State.ABORTING:
            self.status.fail(error)
            self._on_change()

    # The conversations.

    async def _add_wanted(self) -> None:
        while self._to_add and self.status.state in (State.OPEN, State.COMMITTING):
            try:
                await self._add(set(self._to_add))
            except (ApiError, TransactionFailed, BrokerUnavailable, DeadlinePassed) as error:
                self.fail(error)
                return

    def _finished_adding(self, task: "asyncio.Task[None]") -> None:
        self._adding = None
        if not task.cancelled():
            task.exception()
        self._on_change()

    async def _add(self, partitions: set[TopicPartition]) -> None:
        if not partitions:
            return
        await self._guard(self._coordinated(lambda node: self._add_partitions(node, partitions)))
        self._added |= partitions
        self._to_add -= partitions
        self._on_change()

    async def _init_producer_id(self, identity: ProducerIdentity) -> None:
        async def ask(node: BrokerNode) -> ProducerIdentity:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._settings.transaction_timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
            )
            reply = await self._client.send(node.node_id, request, InitProducerIdResponse)
            self._check(reply.error_code, f"transactional.id {self.transactional_id!r}")
            return ProducerIdentity(reply.producer_id, reply.producer_epoch)

        self._book.take_identity(await self._guard(self._coordinated(ask)))

    async def _add_partitions(self, node: BrokerNode, partitions: set[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._book.identity.producer_id,
            v3_and_below_producer_epoch=self._book.identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        reply = await self._client.send(
            node.node_id, request, AddPartitionsToTxnResponse, at_most=_ADD_PARTITIONS_VERSION_MAX
        )
        codes = {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for topic in reply.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        # OPERATION_NOT_ATTEMPTED only says that another partition was the reason.
        for where, code in sorted(codes.items(), key=lambda item: item[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
            self._check(code, f"{where} in a transaction of {self.transactional_id!r}")

    async def _add_offsets(self, node: BrokerNode, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._book.identity.producer_id,
            producer_epoch=self._book.identity.epoch,
            group_id=group_id,
        )
        reply = await self._client.send(node.node_id, request, AddOffsetsToTxnResponse)
        self._check(reply.error_code, f"offsets of group {group_id!r}")

    async def _commit_offsets(
        self,
        node: BrokerNode,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), position in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self._book.identity.producer_id,
            producer_epoch=self._book.identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        reply = await self._client.send(node.node_id, request, TxnOffsetCommitResponse)
        for told in reply.topics:
            for each in told.partitions:
                self._check(each.error_code, f"offset of {told.name}-{each.partition_index} for {group.group_id!r}")

    async def _end(self, node: BrokerNode, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._book.identity.producer_id,
            producer_epoch=self._book.identity.epoch,
            committed=is_commit,
        )
        reply = await self._client.send(node.node_id, request, EndTxnResponse)
        self._check(reply.error_code, f"the end of a transaction of {self.transactional_id!r}")

    # Retries and failures, once for all of them.

    async def _coordinated(self, ask: Callable[[BrokerNode], Awaitable[Result]], group_id: str | None = None) -> Result:
        """Ask the coordinator (of the transaction, or of a group) until it answers for good or max.block.ms passed."""
        kind, key = CoordinatorType.TRANSACTION, self.transactional_id
        if group_id is not None:
            kind, key = CoordinatorType.GROUP, group_id
        deadline_ms = self._client.now_ms() + self._settings.max_block_ms
        failures = 0
        while True:
            try:
                left_ms = max(deadline_ms - self._client.now_ms(), 1)
                node = await self._client.find_coordinator(kind, key, left_ms)
                return await ask(node)
            except (ApiError, BrokerUnavailable) as error:
                reaction = reaction_to(error)
                if not reaction.is_retriable:
                    raise
                if reaction is not Reaction.RETRY:
                    self._client.forget_coordinator(kind, key)
                failures += 1
                is_concurrent = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                wait_ms = _CONCURRENT_WAIT_MS if is_concurrent else self._backoff.after(failures)
                if self._client.now_ms() + wait_ms > deadline_ms:
                    raise DeadlinePassed(
                        f"not done within max.block.ms={self._settings.max_block_ms}: {error}"
                    ) from error
                await asyncio.sleep(wait_ms / 1000)

    async def _guard(self, conversation: Awaitable[Result]) -> Result:
        """Let a refusal change the state before it reaches the caller, as TransactionFailed or ProducerFenced."""
        try:
            return await conversation
        except DeadlinePassed:
            # Perhaps it was done and only the answer is missing. InitProducerId clears up after the next abort.
            self._book.needs_epoch_bump = True
            raise
        except ApiError as error:
            if self.status.state is State.UNINITIALIZED:
                raise
            self._book.needs_epoch_bump = self._book.needs_epoch_bump or reaction_to(error) is Reaction.ABORT
            self.status.fail(error, is_coordinator=True)
            self._on_change()
            self.status.check_not_failed()
            raise

    def _check(self, code: int, what: str) -> None:
        if code != ErrorCode.NONE:
            known = error_code_of(code)
            raise ApiError(known, f"{what}: {known.text}")

    def _check_owner(self, call: str) -> None:
        if not self._is_owner:
            raise IllegalState(f"{call} is for the producer that began the transaction; this one only writes in it")
