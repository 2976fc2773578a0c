"""Batches between the append and the answer: those of a Produce request, and this broker's own.

A `PendingProduce` lives for one turn: its batches are staged, and it is answered once they are written. Only one that
must wait for followers (acks=all) or for a sync to disk becomes a `DelayedProduce` in purgatory. What the answer looks
like is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from tidelog.replication.partition import ACKS_ALL, Partition
from tidelog.timing import DelayedOperation
from tidelog.wire.errors import ApiError, ErrorCode

StagedBatch: TypeAlias = tuple[Partition, int]
"""A partition and the offset after the batch that was staged there."""

Errors: TypeAlias = Sequence[ApiError | None]
"""The error of each batch, None where it is acknowledged; empty when all of them are."""

_ALL_ACKNOWLEDGED: Final[Errors] = ()
_NONE: Final = ErrorCode.NONE


class Answering(Protocol):
    """The slot of a request's reply."""

    def fail(self, api: str, cause: Exception) -> None:
        """The reply failed with this error; the connection is closed."""
        ...

    def park(self) -> None:
        """Stop counting as a request that is worked on: others may come in while this one waits."""
        ...


class PendingProduce:
    """Staged batches that are answered together, once all are as safe as `acks` asks for."""

    __slots__ = ("_acks", "_batches", "_respond", "_slot", "timeout_ms")

    def __init__(
        self,
        batches: Sequence[StagedBatch],
        acks: int,
        timeout_ms: int,
        respond: Callable[[Errors], None],
        slot: Answering | None = None,
    ) -> None:
        """Without a `slot`, errors of `respond` are raised: no connection waits."""
        self._batches = batches
        self._acks = acks
        self.timeout_ms = timeout_ms
        self._respond = respond
        self._slot = slot

    @property
    def keys(self) -> list[tuple[str, int]]:
        """The partitions it waits for, as purgatory names them."""
        return [partition.key for partition, _ in self._batches]

    def try_complete(self) -> bool:
        """Respond if every batch is acknowledged or has failed; whether that is so.

        A partition that is led here no more has lost what was staged: its disk or its topic is gone.
        """
        acks = self._acks
        has_error = False
        for partition, end_offset in self._batches:
            log = partition.log
            if not partition.is_leader:
                has_error = True
            # `Partition.is_acknowledged`, without the call.
            elif end_offset > (
                log.positions.high_watermark if acks == ACKS_ALL else log.flush_state.durable_end_offset
            ):
                return False
            elif partition.replica_set.followers and acks == ACKS_ALL and partition.shortage() is not None:
                has_error = True
        if has_error:
            self._respond([_final_error(partition, acks) for partition, _ in self._batches])
        else:
            self._respond(_ALL_ACKNOWLEDGED)
        return True

    def park(self) -> None:
        """It waits beyond its turn, for followers or the disk: followers must be able to ask for what it waits for."""
        if self._slot is not None:
            self._slot.park()

    def is_decided(self) -> bool:
        """Whether `try_complete` would answer."""
        for partition, end_offset in self._batches:
            if partition.is_leader and not partition.is_acknowledged(end_offset, self._acks):
                return False
        return True

    def time_out(self) -> None:
        """The deadline has passed. Batches that are not acknowledged yet are answered so; they may still be later."""
        self._respond([self._error_after_timeout(*batch) for batch in self._batches])

    def _error_after_timeout(self, partition: Partition, end_offset: int) -> ApiError | None:
        if not partition.is_leader:
            return partition.absence()
        if partition.is_acknowledged(end_offset, self._acks):
            return _final_error(partition, self._acks)
        return ApiError(ErrorCode.REQUEST_TIMED_OUT)

    def fail(self, cause: Exception) -> None:
        """The response failed because of a defect of the broker."""
        if self._slot is None:
            raise cause
        self._slot.fail("Produce", cause)


class PendingAppend:
    """One staged batch of this broker's own, which is answered once every in-sync replica has it."""

    __slots__ = ("_end_offset", "_first_offset", "_on_committed", "_partition", "timeout_ms")

    def __init__(
        self,
        partition: Partition,
        first_offset: int,
        end_offset: int,
        timeout_ms: int,
        on_committed: Callable[[ErrorCode, int], None],
    ) -> None:
        self._partition = partition
        self._first_offset = first_offset
        self._end_offset = end_offset
        self.timeout_ms = timeout_ms
        self._on_committed = on_committed

    @property
    def keys(self) -> list[tuple[str, int]]:
        """The partition it waits for, as purgatory names it."""
        return [self._partition.key]

    def try_complete(self) -> bool:
        """Answer if the batch is committed, or never will be; whether that is so."""
        partition = self._partition
        if partition.is_leader:
            if partition.log.positions.high_watermark < self._end_offset:
                return False
            if not partition.replica_set.followers:
                self._on_committed(_NONE, self._first_offset)
                return True
        self._answer(_final_error(partition, ACKS_ALL))
        return True

    def is_decided(self) -> bool:
        """Whether `try_complete` would answer."""
        return not self._partition.is_leader or self._partition.is_acknowledged(self._end_offset, ACKS_ALL)

    def time_out(self) -> None:
        """The deadline has passed before the batch was committed."""
        self._answer(ApiError(ErrorCode.REQUEST_TIMED_OUT))

    def _answer(self, error: ApiError | None) -> None:
        if error is None:
            self._on_committed(_NONE, self._first_offset)
        else:
            self._on_committed(error.code, -1)

    def park(self) -> None:
        """No request waits for it here."""

    def fail(self, cause: Exception) -> None:
        """The callback failed, by a mistake of ours."""
        raise cause


def _final_error(partition: Partition, acks: int) -> ApiError | None:
    """The error of a batch that is decided, None if it is acknowledged."""
    if not partition.is_leader:
        return partition.absence()
    return partition.shortage() if acks == ACKS_ALL else None


class DelayedProduce(DelayedOperation):
    """A produce that waits for its records to be committed, or for `request.timeout.ms`."""

    __slots__ = ("_pending",)

    def __init__(self, pending: PendingProduce | PendingAppend, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._pending = pending

    def try_complete(self) -> bool:
        return self._pending.is_decided() and self.force_complete()

    def on_complete(self) -> None:
        if not self._pending.try_complete():
            self._pending.time_out()

    def on_failure(self, error: Exception) -> None:
        self._pending.fail(error)
