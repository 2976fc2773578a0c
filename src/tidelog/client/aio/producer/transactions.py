"""Transactions of a producer: what is asked of the coordinator, in order, with retries, and what follows from answers.

    init       InitProducerId: finishes what a former holder of the transactional id left open, and fences it
    begin      nothing is asked yet
    (sending)  AddPartitionsToTxn before the first batch of a partition leaves
    offsets    AddOffsetsToTxn at the transaction's coordinator, TxnOffsetCommit at the group's
    commit     after a flush: EndTxn;  abort: the same, dropping what was not sent

Where the cluster has finalised `transaction.version` 2 (KIP-890) nothing is added beforehand: Produce and
TxnOffsetCommit do that, and the response of EndTxn has the epoch of the next transaction. Which of the two protocols a
transaction has is decided when it begins. Producers that join it write to what was added for them, in either.

`TransactionState` holds the rules, `TransactionCoordinator` the requests and their retries. The sender asks
`may_send_to` and reports failed batches; everything else is called by the producer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.coordination import TransactionCoordinator
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.transaction_state import Event, State, TransactionHandle, TransactionState
from tidelog.client.aio.reactions import Reaction, reaction_to
from tidelog.client.errors import ApiError, BrokerUnavailable, DeadlinePassed, IllegalState, TransactionFailed
from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

Result = TypeVar("Result")

_FEATURE: Final = "transaction.version"
_EPOCH_BUMPS_FROM: Final = 2


class Transactions:
    """The transactions of one producer."""

    def __init__(
        self,
        settings: ProducerSettings,
        client: NetworkClient,
        sequence_tracker: SequenceTracker,
        *,
        on_change: Callable[[], None],
        joined: TransactionHandle | None = None,
    ) -> None:
        self.transactional_id = joined.transactional_id if joined is not None else settings.transactional_id or ""
        self.status = TransactionState(State.UNINITIALIZED if joined is None else State.JOINED)
        self._settings = settings
        self._client = client
        self._sequence_tracker = sequence_tracker
        self._on_change = on_change
        self._coordinator = TransactionCoordinator(client, self.transactional_id, max_block_ms=settings.max_block_ms)
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._has_offsets = False
        self.adds_by_writing = False
        """Whether partitions are part of the transaction because they are written to: version 2 of the protocol."""
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
        self.adds_by_writing = self._client.feature_level(_FEATURE) >= _EPOCH_BUMPS_FROM
        self._added.clear()
        self._to_add.clear()
        self._has_offsets = False
        self._on_change()

    def join(self, handle: TransactionHandle) -> None:
        """Write in the transaction of `handle` from now on; sequences begin at 0 in it."""
        if self._is_owner:
            raise IllegalState("a producer with a transactional.id has its own transactions and cannot join others")
        if self.status.state is not State.JOINED:
            self.status.check_not_failed()
        self.transactional_id = handle.transactional_id
        self._sequence_tracker.take_identity(ProducerIdentity(handle.producer_id, handle.producer_epoch))

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
        identity, adds = self._sequence_tracker.identity, self.adds_by_writing
        if not adds:
            await self._guard(self._coordinator.add_offsets(identity, group.group_id))
        self._has_offsets = True
        await self._guard(self._coordinator.commit_offsets(identity, offsets, group, adds=adds))

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
            before = self._sequence_tracker.identity
            following = await self._guard(
                self._coordinator.end(before, is_commit=is_commit, bumps_epoch=self.adds_by_writing)
            )
            if following != before:
                self._sequence_tracker.take_identity(following)
        if self._sequence_tracker.needs_epoch_bump and not is_commit:
            await self._init_producer_id(self._sequence_tracker.identity)
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
        return TransactionHandle(self.transactional_id, *self._sequence_tracker.identity)

    # What the sender calls.

    def may_send_to(self, where: TopicPartition) -> bool:
        """Whether a partition is in the transaction. If it is not, it will be, unless sending is over."""
        if self.status.state is State.JOINED or where in self._added:
            return True
        if self.adds_by_writing and self.status.state in (State.OPEN, State.COMMITTING):
            self._added.add(where)
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
        await self._guard(self._coordinator.add_partitions(self._sequence_tracker.identity, partitions))
        self._added |= partitions
        self._to_add -= partitions
        self._on_change()

    async def _init_producer_id(self, identity: ProducerIdentity) -> None:
        timeout_ms = self._settings.transaction_timeout_ms
        self._sequence_tracker.take_identity(
            await self._guard(self._coordinator.init_producer_id(timeout_ms, identity))
        )

    async def _guard(self, conversation: Awaitable[Result]) -> Result:
        """On an error, change the state, then raise TransactionFailed or ProducerFenced."""
        try:
            return await conversation
        except DeadlinePassed:
            # Perhaps it was done and only the answer is missing. InitProducerId clears up after the next abort.
            self._sequence_tracker.needs_epoch_bump = True
            raise
        except ApiError as error:
            if self.status.state is State.UNINITIALIZED:
                raise
            self._sequence_tracker.needs_epoch_bump = (
                self._sequence_tracker.needs_epoch_bump or reaction_to(error) is Reaction.ABORT
            )
            self.status.fail(error, is_coordinator=True)
            self._on_change()
            self.status.check_not_failed()
            raise

    def _check_owner(self, call: str) -> None:
        if not self._is_owner:
            raise IllegalState(
                f"{call} is only possible in the producer that began the transaction; this one joined it"
            )
