"""Error codes and the exceptions that carry them."""

import pytest

from tidelog.wire.errors import ERROR_MESSAGE_LENGTH_MAX, ApiError, EncodeError, ErrorCode, WireError


def test_codes_are_kafkas() -> None:
    assert ErrorCode.UNKNOWN_SERVER_ERROR == -1
    assert ErrorCode.NONE == 0
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == 6
    assert ErrorCode.INVALID_TOPIC_EXCEPTION == 17
    assert ErrorCode.UNKNOWN_TOPIC_ID == 100
    assert ErrorCode.TRANSACTION_ABORTABLE == 120


def test_codes_have_no_gaps() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_codes_agree_with_kio() -> None:
    """Name, number, and whether a retry may help."""
    kio_errors = pytest.importorskip("kio.schema.errors")
    theirs = {code.name.upper(): (int(code), code.retriable) for code in kio_errors.ErrorCode}
    ours = {code.name: (int(code), code.retriable) for code in ErrorCode}
    assert ours == {name: theirs[name] for name in ours}


def test_every_error_says_what_it_means() -> None:
    assert all(code.text.endswith(".") for code in ErrorCode if code is not ErrorCode.NONE)
    assert ErrorCode.NONE.text == ""


def test_an_api_error_carries_code_and_message() -> None:
    error = ApiError(ErrorCode.INVALID_CONFIG, "retention.ms: 'soon' is not a number")
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, "retention.ms: 'soon' is not a number")
    assert str(error) == "INVALID_CONFIG: retention.ms: 'soon' is not a number"


def test_a_message_that_quotes_a_long_value_is_cut() -> None:
    """A value may have 32,767 bytes, and so may the string of a reply: the words around it would be too much."""
    error = ApiError(ErrorCode.INVALID_CONFIG, f"retention.ms: {'x' * 32_767} is not a number")
    assert error.message is not None
    assert error.message.startswith("retention.ms: xxx")
    assert error.message.endswith("x… (32797 characters)")
    assert len(error.message) < ERROR_MESSAGE_LENGTH_MAX + 30
    whole = "x" * ERROR_MESSAGE_LENGTH_MAX
    assert ApiError(ErrorCode.INVALID_CONFIG, whole).message == whole


def test_an_api_error_without_message_speaks_for_its_code() -> None:
    error = ApiError(ErrorCode.NOT_CONTROLLER)
    assert error.message is None
    assert str(error) == "NOT_CONTROLLER: This broker is not the controller."


def test_our_mistakes_and_the_peers_differ_by_type() -> None:
    assert not issubclass(WireError, EncodeError)
    assert not issubclass(EncodeError, WireError)
