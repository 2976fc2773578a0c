"""Every pair of state and event: the table's, and those that are refused."""

import pytest

from tidelog.client.aio.producer.transaction_state import TRANSITIONS, Event, State, TransactionState
from tidelog.client.errors import ApiError, ClientError, IllegalState, ProducerFenced, TransactionFailed
from tidelog.wire.errors import ErrorCode

FENCED = ApiError(ErrorCode.PRODUCER_FENCED)
TOO_LARGE = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
OLD_EPOCH = ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
def test_an_event_follows_the_table_or_changes_nothing(state: State, event: Event) -> None:
    status = TransactionState(state)
    following = TRANSITIONS.get((state, event))
    if following is None:
        with pytest.raises(ClientError):
            status.advance(event)
        assert status.state is state
    else:
        status.advance(event)
        assert status.state is following


def test_a_failure_is_kept_until_the_abort_is_through() -> None:
    status = TransactionState(State.OPEN)
    status.fail(TOO_LARGE)
    status.fail(ValueError("a later one"))
    with pytest.raises(TransactionFailed, match="must be aborted: MESSAGE_TOO_LARGE"):
        status.check_may_send()
    with pytest.raises(TransactionFailed):
        status.advance(Event.COMMIT_ASKED)
    status.advance(Event.ABORT_ASKED)
    status.advance(Event.ENDED)
    status.advance(Event.BEGUN)
    status.check_may_send()
    assert status.error is None


def test_fencing_is_the_end() -> None:
    status = TransactionState(State.OPEN)
    status.fail(FENCED)
    for event in (Event.ABORT_ASKED, Event.COMMIT_ASKED, Event.BEGUN, Event.INITIALIZED):
        with pytest.raises(ProducerFenced, match="must be closed"):
            status.advance(event)
    status.fail(TOO_LARGE)
    assert status.error is FENCED


def test_an_old_epoch_fences_at_the_coordinator_and_aborts_at_a_partition() -> None:
    at_partition, at_coordinator = TransactionState(State.OPEN), TransactionState(State.OPEN)
    at_partition.fail(OLD_EPOCH)
    at_coordinator.fail(OLD_EPOCH, is_coordinator=True)
    assert (at_partition.state, at_coordinator.state) == (State.FAILED, State.FENCED)


def test_sending_needs_an_open_or_a_joined_transaction() -> None:
    for state in (State.UNINITIALIZED, State.READY, State.COMMITTING, State.ABORTING):
        with pytest.raises(IllegalState, match="call begin first"):
            TransactionState(state).check_may_send()
    TransactionState(State.OPEN).check_may_send()
    TransactionState(State.JOINED).check_may_send()


def test_a_failure_outside_a_transaction_is_no_news() -> None:
    status = TransactionState(State.READY)
    status.fail(TOO_LARGE)
    assert status.state is State.READY
