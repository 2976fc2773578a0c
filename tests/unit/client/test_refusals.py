import pytest

from tidelog.client.errors import ApiError
from tidelog.client.refusals import raise_if_refused, raise_refusal
from tidelog.wire.errors import ErrorCode


def test_no_error_is_no_refusal():
    raise_if_refused("x", ErrorCode.NONE)


def test_the_brokers_words_win_over_ours():
    with pytest.raises(ApiError, match="x: because"):
        raise_if_refused("x", ErrorCode.INVALID_CONFIG, "because")
    with pytest.raises(ApiError, match=ErrorCode.TOPIC_ALREADY_EXISTS.text):
        raise_if_refused("x", ErrorCode.TOPIC_ALREADY_EXISTS)


def test_a_code_newer_than_ours_is_kept_as_a_number():
    with pytest.raises(ApiError, match="x: error code 999") as caught:
        raise_refusal("x", 999)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
