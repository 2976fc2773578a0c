"""The form of records that wait in Redis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.retry.headers import Origin
from tidelog.client.retry.policy import Received, RetryPolicy, ladders
from tidelog.client.retry.redis_queue import WaitingRecord, decode_record, encode_record, id_of

BYTES = st.none() | st.binary(max_size=20)
RECORDS = st.builds(
    WaitingRecord,
    topic=st.text(max_size=10),
    value=BYTES,
    key=BYTES,
    headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple),
    partition=st.none() | st.integers(0, 100),
)


@given(RECORDS)
def test_a_record_is_read_back(record: WaitingRecord) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"null", b'{"topic": 1}', b'{"topic": "a", "value": "?"}', b'{"topic": "a", "partition": "x"}'],
)
def test_anything_else_is_no_record(data: bytes) -> None:
    assert decode_record(data) is None


def test_each_failure_of_a_record_has_one_id() -> None:
    ladder = ladders(RetryPolicy(store="redis://localhost"), "billing", ["orders"])["orders"]
    record = Received(Origin("orders", 1, 7, 0), None, None, (), None)
    first = ladder.after_failure(record, OSError("x"), 0)
    assert id_of(first) == id_of(ladder.after_failure(record, OSError("y"), 9)) == "billing/orders/1/7/1"
