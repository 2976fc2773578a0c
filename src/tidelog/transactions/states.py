"""The states of a transactional id and the transitions between them.

    Empty              a producer has the id and has written nothing under it
    Ongoing            partitions belong to an open transaction
    PrepareCommit      it will be committed, whatever happens; markers are being written
    PrepareAbort       it will be aborted, whatever happens; markers are being written
    CompleteCommit     every partition has its marker; the next transaction may begin
    CompleteAbort      the same
    PrepareEpochFence  its producer is being fenced by another, or by the timeout; never stored
    Dead               the id has not been used for long and is being removed; never stored

The table below has every transition: `Transaction` changes its state only through `advance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.coordination.transitions import follow


class TransactionState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and not every partition has its marker."""
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT


class TransactionEvent(Enum):
    """What may happen to a transactional id."""

    INITIALIZED = auto()
    """A producer got a producer id and epoch."""
    PARTITIONS_ADDED = auto()
    """Partitions were added to the transaction; the first ones begin it."""
    COMMIT_ASKED = auto()
    """The producer commits it."""
    ABORT_ASKED = auto()
    """The producer aborts it, or the coordinator does so after fencing the producer."""
    NOTHING_ABORTED = auto()
    """The producer aborts although no transaction is open: in protocol version 2 it may not know whether one is."""
    FENCED = auto()
    """Another producer initialized the id, or the transaction timed out."""
    MARKERS_WRITTEN = auto()
    """Every partition has its marker."""
    EXPIRED = auto()
    """The id has not been used for `transactional.id.expiration.ms`."""


_S = TransactionState
_E = TransactionEvent

TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (_S.EMPTY, _E.INITIALIZED): _S.EMPTY,
    (_S.EMPTY, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.EMPTY, _E.NOTHING_ABORTED): _S.PREPARE_ABORT,
    (_S.EMPTY, _E.EXPIRED): _S.DEAD,
    (_S.ONGOING, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.ONGOING, _E.COMMIT_ASKED): _S.PREPARE_COMMIT,
    (_S.ONGOING, _E.ABORT_ASKED): _S.PREPARE_ABORT,
    (_S.ONGOING, _E.FENCED): _S.PREPARE_EPOCH_FENCE,
    (_S.PREPARE_EPOCH_FENCE, _E.ABORT_ASKED): _S.PREPARE_ABORT,
    (_S.PREPARE_COMMIT, _E.MARKERS_WRITTEN): _S.COMPLETE_COMMIT,
    (_S.PREPARE_ABORT, _E.MARKERS_WRITTEN): _S.COMPLETE_ABORT,
    (_S.COMPLETE_COMMIT, _E.INITIALIZED): _S.EMPTY,
    (_S.COMPLETE_COMMIT, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.COMPLETE_COMMIT, _E.NOTHING_ABORTED): _S.PREPARE_ABORT,
    (_S.COMPLETE_COMMIT, _E.EXPIRED): _S.DEAD,
    (_S.COMPLETE_ABORT, _E.INITIALIZED): _S.EMPTY,
    (_S.COMPLETE_ABORT, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.COMPLETE_ABORT, _E.NOTHING_ABORTED): _S.PREPARE_ABORT,
    (_S.COMPLETE_ABORT, _E.EXPIRED): _S.DEAD,
}


def may_happen(state: TransactionState, event: TransactionEvent) -> bool:
    """Whether `event` leads anywhere from `state`."""
    return (state, event) in TRANSITIONS


def advance(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """The state after `event`; raises IllegalTransitionError if the table does not allow it."""
    return follow(TRANSITIONS, state, event, "transaction")
