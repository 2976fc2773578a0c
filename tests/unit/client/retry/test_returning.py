"""What the retry service makes of records in retry topics."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client import ConsumerRecord, RetryPolicy, TimestampType
from tidelog.client.retry.headers import Origin
from tidelog.client.retry.policy import Received, ladders
from tidelog.client.retry.returning import arrival

POLICY = RetryPolicy(["10s", "1m"])


def row(*headers: tuple[str, bytes | None], topic: str = "orders.retry", offset: int = 17) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(
        topic=topic,
        partition=1,
        offset=offset,
        timestamp=1_000,
        timestamp_type=TimestampType.CREATE_TIME,
        key=b"k",
        value=b"v",
        headers=headers,
        leader_epoch=0,
    )


def test_a_record_with_a_due_time_waits_for_it_and_comes_back_without_it() -> None:
    ladder = ladders(RetryPolicy(["5s"], store="service"), "billing", ["orders"])["orders"]
    failed = Received(Origin("orders", 3, 41, 9), b"k", b"v", (("trace", b"1"),), None)
    found = arrival(row(*ladder.after_failure(failed, OSError("no"), 2_000).headers), POLICY)
    headers = dict(found.record.headers)
    assert (found.due_ms, found.record.topic, found.record.partition) == (7_000, "orders", 3)
    assert (headers["tidelog.attempts"], headers["trace"]) == (b"1", b"1")
    assert "tidelog.due.ms" not in headers


def test_the_service_counts_the_failures_of_consumers_without_a_policy() -> None:
    headers: tuple[tuple[str, bytes | None], ...] = (("trace", b"1"),)
    seen = []
    for _ in range(3):
        found = arrival(row(*headers), POLICY)
        headers = found.record.headers
        seen.append((found.record.topic, found.due_ms, dict(headers)["tidelog.attempts"]))
    assert seen == [("orders", 11_000, b"1"), ("orders", 61_000, b"2"), ("orders.dlq", 1_000, b"3")]
    assert headers == (("trace", b"1"), ("tidelog.attempts", b"3"))


def test_a_dead_letter_is_not_sent_where_the_record_came_from() -> None:
    headers = (("tidelog.attempts", b"2"), ("tidelog.return.topic", b"shop"), ("tidelog.origin.partition", b"5"))
    found = arrival(row(*headers), RetryPolicy(["10s", "1m"], dead_letters="graves"))
    assert (found.record.topic, found.record.partition) == ("graves", None)
    assert dict(found.record.headers) == {"tidelog.attempts": b"3", "tidelog.origin.partition": b"5"}


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"9" * 30, None, "١".encode()])
def test_headers_that_are_no_numbers_count_as_missing(value: bytes | None) -> None:
    headers = [(name, value) for name in ("tidelog.due.ms", "tidelog.attempts", "tidelog.origin.partition")]
    found = arrival(row(*headers), POLICY)
    assert (found.due_ms, found.record.partition, dict(found.record.headers)["tidelog.attempts"]) == (
        11_000,
        None,
        b"1",
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["tidelog.due.ms", "tidelog.attempts", "x"]), st.none() | st.binary()), max_size=5
    )
)
def test_a_record_that_is_moved_again_is_the_same(headers: list[tuple[str, bytes | None]]) -> None:
    assert arrival(row(*headers), POLICY) == arrival(row(*headers), POLICY)
    assert arrival(row(*headers), POLICY).id != arrival(row(*headers, offset=18), POLICY).id
