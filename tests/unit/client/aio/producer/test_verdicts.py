import pytest

from tests.unit.client.aio.producer.parts import settings_with
from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceTracker
from tidelog.client.aio.producer.verdicts import Verdict, judge
from tidelog.wire.errors import ErrorCode

CASES = [
    (ErrorCode.NONE, Verdict.STORED),
    (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.STORED),
    (ErrorCode.MESSAGE_TOO_LARGE, Verdict.DIVIDE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
    (ErrorCode.NETWORK_EXCEPTION, Verdict.RETRY),
    (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.RETRY),
    (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.RETRY),
    (ErrorCode.INVALID_RECORD, Verdict.FAIL),
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FAIL),
    (ErrorCode.INVALID_TOPIC_EXCEPTION, Verdict.FAIL),
    (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.FAIL),
    (31_000, Verdict.FAIL),
]


def verdict(code: int, *, now_ms: int = 0, attempts: int = 0, records: int = 2, **settings: object) -> Verdict:
    batch = ProducerBatch("topic", 0, 0, 100)
    batch.records = [(0, None, b"", ())] * records
    batch.attempts = attempts
    return judge(
        batch, code, -1, settings=settings_with(**settings), now_ms=now_ms, sequence_tracker=None, sequences=None
    )


@pytest.mark.parametrize(("code", "expected"), CASES)
def test_each_code_has_its_verdict(code: int, expected: Verdict) -> None:
    assert verdict(code) is expected


def test_time_and_retries_run_out() -> None:
    assert verdict(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms=119_999) is Verdict.RETRY
    assert verdict(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms=120_000) is Verdict.FAIL
    assert verdict(ErrorCode.NOT_LEADER_OR_FOLLOWER, attempts=2, retries=3) is Verdict.RETRY
    assert verdict(ErrorCode.NOT_LEADER_OR_FOLLOWER, attempts=3, retries=3) is Verdict.FAIL


def test_a_single_record_cannot_be_divided() -> None:
    assert verdict(ErrorCode.MESSAGE_TOO_LARGE, records=1) is Verdict.FAIL


def test_the_sequence_tracker_is_asked_first() -> None:
    sequence_tracker = SequenceTracker(is_transactional=False)
    sequence_tracker.take_identity(ProducerIdentity(1, 0))
    partition = sequence_tracker.partition()
    batch = ProducerBatch("topic", 0, 0, 100)
    batch.records = [(0, None, b"", ())]
    sequence_tracker.assign(partition, batch)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    settings = settings_with()
    assert (
        judge(batch, code, 0, settings=settings, now_ms=0, sequence_tracker=sequence_tracker, sequences=partition)
        is Verdict.RETRY
    )
    assert verdict(code) is Verdict.FAIL
