"""The states of a transactional id, and what leads from one to the next.

    Empty              a producer has the id and has written nothing under it
    Ongoing            partitions belong to an open transaction
    PrepareCommit      it will be committed, whatever happens; markers are being written
    PrepareAbort       it will be aborted, whatever happens; markers are being written
    CompleteCommit     every partition has its marker; the next transaction may begin
    CompleteAbort      the same
    PrepareEpochFence  its producer is being fenced by another, or by the timeout; never stored
    Dead               nobody has used the id for long, and it is being forgotten; never stored

The table below is the whole of it: `Transaction` asks `advance` for every state that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.coordination.transitions import follow


class TransactionState(Enum):
    """Its value is the name that clients are told."""

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
        """The outcome is decided and not everywhere known."""
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT


class TransactionEvent(Enum):
    """What may happen to a transactional id."""

    INITIALIZED = auto()
    """A producer asked for an id and epoch, and has them."""
    PARTITIONS_ADDED = auto()
    """Partitions joined the transaction; the first of them begin it."""
    COMMIT_ASKED = auto()
    """The producer ends it with a commit."""
    ABORT_ASKED = auto()
    """The producer gives it up, or the coordinator does so after fencing the producer."""
    FENCED = auto()
    """Another producer asked for the id, or the transaction timed out."""
    MARKERS_WRITTEN = auto()
    """Every partition knows the outcome."""
    EXPIRED = auto()
    """Nobody has used the id for `transactional.id.expiration.ms`."""


_S = TransactionState
_E = TransactionEvent

TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (_S.EMPTY, _E.INITIALIZED): _S.EMPTY,
    (_S.EMPTY, _E.PARTITIONS_ADDED): _S.ONGOING,
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
    (_S.COMPLETE_COMMIT, _E.EXPIRED): _S.DEAD,
    (_S.COMPLETE_ABORT, _E.INITIALIZED): _S.EMPTY,
    (_S.COMPLETE_ABORT, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.COMPLETE_ABORT, _E.EXPIRED): _S.DEAD,
}


def may_happen(state: TransactionState, event: TransactionEvent) -> bool:
    """Whether `event` leads anywhere from `state`."""
    return (state, event) in TRANSITIONS


def advance(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """The state after `event`. An event that may not happen here raises and changes nothing."""
    return follow(TRANSITIONS, state, event, "transaction")
