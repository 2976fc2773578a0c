import pytest

from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.errors import ApiError, ConnectionLost, UnsupportedByBroker
from tidelog.wire.errors import ErrorCode


@pytest.mark.parametrize("code", list(ErrorCode))
def test_what_kafka_calls_retriable_is_retried_and_nothing_else(code: ErrorCode) -> None:
    assert reaction_to(code).is_retriable == code.retriable


def test_leadership_metadata_and_coordinators_are_distinguished() -> None:
    assert reaction_to(ErrorCode.NOT_LEADER_OR_FOLLOWER) is Reaction.REFRESH_METADATA
    assert reaction_to(ErrorCode.NOT_COORDINATOR) is Reaction.FIND_COORDINATOR
    assert reaction_to(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) is Reaction.RETRY
    assert reaction_to(ErrorCode.TRANSACTION_ABORTABLE) is Reaction.ABORT
    assert reaction_to(ErrorCode.PRODUCER_FENCED) is Reaction.FATAL


def test_exceptions_are_judged_as_well() -> None:
    assert reaction_to(ApiError(ErrorCode.NOT_CONTROLLER)) is Reaction.REFRESH_METADATA
    assert reaction_to(ConnectionLost("host:1", "reset")) is Reaction.REFRESH_METADATA
    assert reaction_to(UnsupportedByBroker("too old")) is Reaction.FATAL
    assert reaction_to(ValueError("ours")) is Reaction.FATAL


def test_a_code_newer_than_ours_is_an_unknown_error() -> None:
    assert error_code_of(31_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert reaction_to(31_000) is Reaction.FATAL
