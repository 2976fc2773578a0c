import pickle

import pytest

from tidelog.client import ApiError, BootstrapFailed, BrokerUnavailable, ClientError, ConnectionLost, ErrorCode
from tidelog.client.errors import DeadlinePassed, DeliveryPending, ProducerFenced, RecordTooLarge
from tidelog.wire import errors as wire


def test_what_a_broker_refused_is_a_client_error_like_any_other() -> None:
    with pytest.raises(ClientError) as raised:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name")
    assert isinstance(raised.value, wire.ApiError)
    assert str(raised.value) == "INVALID_TOPIC_EXCEPTION: no such name"


@pytest.mark.parametrize(
    ("error", "retriable", "fatal"),
    [
        (ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), True, False),
        (ApiError(ErrorCode.INVALID_CONFIG), False, False),
        (ApiError(ErrorCode.PRODUCER_FENCED), False, True),
        (ApiError(ErrorCode.FENCED_INSTANCE_ID), False, True),
        (BrokerUnavailable("a:1", "refused"), True, False),
        (DeadlinePassed("late"), True, False),
        (ProducerFenced("replaced"), False, True),
        (RecordTooLarge("large"), False, False),
    ],
)
def test_an_error_says_whether_to_try_again_or_to_close(error: ClientError, retriable: bool, fatal: bool) -> None:
    assert (error.retriable, error.fatal) == (retriable, fatal)


def test_an_outcome_that_is_not_known_in_time_is_a_timeout_as_python_has_it() -> None:
    with pytest.raises(TimeoutError):
        raise DeliveryPending("still under way")
    assert issubclass(DeliveryPending, ClientError)


@pytest.mark.parametrize(
    "error",
    [
        ApiError(ErrorCode.INVALID_CONFIG, "text"),
        BrokerUnavailable("a:1", "refused", "check it"),
        ConnectionLost("a:1", "closed"),
        BootstrapFailed({"a:1": "refused"}, 5000),
        DeliveryPending("still under way"),
    ],
)
def test_errors_travel_between_processes(error: ClientError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
