"""Errors of brokers are raised in terms of Spark, with the setting to change."""

import pytest

from tidelog.client.errors import TransactionFailed
from tidelog.spark.sink.errors import SinkError, attempt_refused, explained
from tidelog.wire.errors import ApiError, ErrorCode

TIMEOUT_MS = 60_000


def error_text(error: Exception, *, open_ms: int = 10) -> str:
    answer = explained(error, "tidelog-sink-1", TIMEOUT_MS, open_ms)
    assert isinstance(answer, SinkError)
    return str(answer)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE]
)
def test_fencing_means_another_run(code: ErrorCode) -> None:
    text = error_text(ApiError(code))

    assert "another run has taken over the transactional id 'tidelog-sink-1'" in text
    assert "second driver" in text
    assert code.name in text


def test_fencing_after_the_timeout_means_the_timeout() -> None:
    text = error_text(ApiError(ErrorCode.PRODUCER_FENCED), open_ms=TIMEOUT_MS)

    assert "open for 60000 ms, and kafka.transaction.timeout.ms is 60000. Set it higher" in text


def test_the_reason_is_found_behind_the_clients_own_errors() -> None:
    error = TransactionFailed("the transaction must be aborted")
    error.__cause__ = ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "out-1: …")

    assert "another task writes to it" in error_text(error)
    assert "place_rows" in error_text(error)


def test_a_timeout_beyond_what_brokers_allow_names_their_setting() -> None:
    assert "transaction.max.timeout.ms" in error_text(ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT))


def test_what_has_no_other_meaning_stays_as_it_is() -> None:
    error = ApiError(ErrorCode.MESSAGE_TOO_LARGE)

    assert explained(error, "id", TIMEOUT_MS, 10) is error
    assert explained(ValueError("x"), "id", TIMEOUT_MS, 10).args == ("x",)


def test_a_repeated_task_is_refused_with_the_settings_that_avoid_it() -> None:
    text = str(attempt_refused(1, 4))

    assert "task 4 runs for the 2. time" in text
    assert "spark.speculation=false" in text
    assert "delivery=small" in text
