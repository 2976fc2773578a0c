"""The states of a transactional producer, as a table, and what an error does to them.

    UNINITIALIZED --init--> READY --begin--> OPEN --commit--> COMMITTING --ended--> READY
                                              |  --abort---> ABORTING   --ended--> READY
                                              +--failed--> FAILED --abort--> ABORTING
    JOINED: writing in another producer's transaction. FENCED: final, from any state.

Pure; `Transactions` drives it and sends the requests.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.errors import ApiError, IllegalState, ProducerFenced, TransactionFailed
from tidelog.wire.errors import ErrorCode


class State(Enum):
    """See the module's text."""

    UNINITIALIZED = "uninitialized"
    READY = "ready"
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FAILED = "failed"
    JOINED = "joined"
    FENCED = "fenced"


class Event(Enum):
    """What happens to a producer."""

    INITIALIZED = "init_transactions"
    BEGUN = "begin"
    COMMIT_ASKED = "commit"
    ABORT_ASKED = "abort"
    ENDED = "end"
    FAILED = "failure"
    FENCED = "fencing"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.UNINITIALIZED, Event.INITIALIZED): State.READY,
    (State.READY, Event.INITIALIZED): State.READY,
    (State.READY, Event.BEGUN): State.OPEN,
    (State.OPEN, Event.COMMIT_ASKED): State.COMMITTING,
    (State.OPEN, Event.ABORT_ASKED): State.ABORTING,
    (State.OPEN, Event.FAILED): State.FAILED,
    (State.COMMITTING, Event.ENDED): State.READY,
    (State.COMMITTING, Event.FAILED): State.FAILED,
    # Asking again after a commit whose answer did not come in time: the broker knows whether it was one.
    (State.COMMITTING, Event.COMMIT_ASKED): State.COMMITTING,
    (State.ABORTING, Event.ENDED): State.READY,
    (State.ABORTING, Event.ABORT_ASKED): State.ABORTING,
    (State.ABORTING, Event.FAILED): State.ABORTING,
    (State.FAILED, Event.ABORT_ASKED): State.ABORTING,
    (State.FAILED, Event.FAILED): State.FAILED,
    (State.JOINED, Event.FAILED): State.FAILED,
    **{(state, Event.FENCED): State.FENCED for state in State},
    (State.FENCED, Event.FAILED): State.FENCED,
}

_FENCING: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# The coordinator says INVALID_PRODUCER_EPOCH to a producer that was replaced; a partition says it also to one whose
# transaction was aborted meanwhile, and then an abort is the way on (KIP-588).
_FENCING_AT_COORDINATOR: Final = _FENCING | {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class TransactionHandle(NamedTuple):
    """An open transaction, to be handed to other processes that write to partitions of their own in it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionState:
    """Where a transactional producer stands, and why."""

    def __init__(self, state: State = State.UNINITIALIZED) -> None:
        self.state = state
        self.error: Exception | None = None

    def advance(self, event: Event) -> None:
        """Follow the table. An event that may not happen here raises and changes nothing."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            self.check_not_failed()
            raise IllegalState(f"{event.value} is not possible now: the producer is {self.state.value}")
        self.state = following
        if following in (State.READY, State.OPEN):
            self.error = None

    def fail(self, error: Exception, *, is_coordinator: bool = False) -> None:
        """Something went wrong that a commit cannot ignore. The first reason is kept; fencing outweighs all."""
        if self.state is State.FENCED:
            return
        if is_fencing(error, is_coordinator=is_coordinator):
            self.error = error
            self.state = State.FENCED
        elif (self.state, Event.FAILED) in TRANSITIONS:
            self.error = self.error or error
            self.advance(Event.FAILED)

    def check_not_failed(self) -> None:
        """Raise what has failed, if something has."""
        if self.state is State.FENCED:
            raise ProducerFenced(f"this producer must be closed: {self.error}") from self.error
        if self.state is State.FAILED:
            raise TransactionFailed(f"the transaction must be aborted: {self.error}") from self.error

    def check_may_send(self) -> None:
        """Raise unless records may be sent now."""
        self.check_not_failed()
        if self.state not in (State.OPEN, State.JOINED):
            raise IllegalState(f"call begin first: the producer is {self.state.value}")


def is_fencing(error: Exception, *, is_coordinator: bool) -> bool:
    """Whether `error` ends a transactional producer for good."""
    return isinstance(error, ApiError) and error.code in (_FENCING_AT_COORDINATOR if is_coordinator else _FENCING)
