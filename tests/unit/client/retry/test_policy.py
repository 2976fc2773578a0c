"""What becomes of a record after a failure."""

from datetime import timedelta
from typing import Any

import pytest

from tidelog.client import ClientConfigError, RetryPolicy
from tidelog.client.retry.headers import Origin, decode, encode
from tidelog.client.retry.policy import Forward, Ladder, Received, ladders, receive

ORIGIN = Origin("orders", 2, 41, 1_000)


def ladder(**policy: Any) -> Ladder:
    return ladders(RetryPolicy(**policy), "billing", ["orders"])["orders"]


def again(forward: Forward) -> Received:
    """The record as it is read from the retry topic."""
    found = receive(
        Origin(forward.topic, 2, 7, 9), forward.key, forward.value, forward.headers, "billing", is_retry=True
    )
    assert found is not None
    return found


def test_a_record_climbs_the_ladder_and_becomes_a_dead_letter() -> None:
    steps = ladder(delays=["10s", 60, timedelta(minutes=10)])
    record = receive(ORIGIN, b"k", b"v", [("trace", b"1")], "billing", is_retry=False)
    assert record is not None
    seen = []
    for attempt in range(1, 5):
        assert record.attempt == attempt
        forward = steps.after_failure(record, ValueError("no"), 5_000)
        seen.append((forward.topic, forward.delay_ms))
        assert forward.partition == 2
        assert forward.headers[0] == ("trace", b"1")
        record = again(forward)
        assert record.origin == ORIGIN
        assert record.headers == (("trace", b"1"),)
    assert seen == [
        ("orders.retry.1", 10_000),
        ("orders.retry.2", 60_000),
        ("orders.retry.3", 600_000),
        ("orders.dlq", None),
    ]
    trail = decode(forward.headers)
    assert trail is not None
    assert (trail.pipeline, trail.attempts, trail.error_type, trail.error_message) == ("billing", 4, "ValueError", "no")
    assert trail.due_ms is None


def test_the_last_delay_repeats_and_unused_delays_have_no_topic() -> None:
    assert ladder(delays=["1s", "2s", "3s"], attempts=2).retry_topics == ("orders.retry.1",)
    record = Received(ORIGIN, None, None, (), None)
    steps = ladder(delays=["1s"], attempts=4)
    topics = []
    for _ in range(4):
        forward = steps.after_failure(record, OSError(), 0)
        topics.append(forward.topic)
        record = again(forward)
    assert topics == ["orders.retry.1"] * 3 + ["orders.dlq"]


def test_a_store_in_the_broker_delays_by_a_header_that_never_stays() -> None:
    record = receive(ORIGIN, b"k", b"v", [("tidelog-delay", b"1d")], "billing", is_retry=False)
    assert record is not None
    headers = dict(ladder(delays=[0.25]).after_failure(record, OSError("x"), 0).headers)
    assert headers["tidelog-delay"] == b"250"
    assert "tidelog-delay" not in dict(ladder(delays=[], attempts=1).after_failure(record, OSError("x"), 0).headers)
    assert "tidelog-delay" not in dict(ladder(store="topics").after_failure(record, OSError("x"), 0).headers)


def test_some_errors_are_not_tried_again() -> None:
    steps = ladder(dead_letter_on=(ValueError,), dead_letters="graves", topic="shop")
    record = Received(ORIGIN, None, None, (), None)
    assert steps.after_failure(record, UnicodeError("x"), 0).topic == "graves"
    assert steps.after_failure(record, OSError("x"), 0).topic == "shop.retry.1"


def test_records_of_other_groups_and_foreign_ones_are_passed_over() -> None:
    headers = ladder().after_failure(Received(ORIGIN, None, None, (), None), OSError("x"), 0).headers
    assert receive(ORIGIN, None, None, headers, "shipping", is_retry=True) is None
    assert receive(ORIGIN, None, None, [], "billing", is_retry=True) is None
    assert receive(ORIGIN, None, None, [("tidelog.origin.topic", b"x")], "billing", is_retry=True) is None
    assert encode(decode(headers) or pytest.fail("no trail"))


def test_with_a_service_a_record_waits_in_one_topic_and_names_where_it_comes_back() -> None:
    steps = ladder(delays=["10s", "1m"], store="service")
    record = Received(ORIGIN, b"k", b"v", (("trace", b"1"),), None)
    seen = []
    for now_ms in (5_000, 50_000, 500_000):
        forward = steps.after_failure(record, OSError("no"), now_ms)
        headers = dict(forward.headers)
        seen.append((forward.topic, headers.get("tidelog.due.ms"), headers.get("tidelog.return.topic")))
        found = receive(Origin("orders", 2, 99, 9), b"k", b"v", forward.headers, "billing", is_retry=False)
        assert found is not None
        record = found
    assert seen == [
        ("orders.retry", b"15000", b"orders"),
        ("orders.retry", b"110000", b"orders"),
        ("orders.dlq", None, None),
    ]
    assert steps.retry_topics == ()
    assert record.attempt == 1, "a dead letter that is read as a record is new"
    assert record.headers == (("trace", b"1"),)


def test_a_record_that_a_service_returned_is_a_retry_of_its_group_and_no_record_of_another() -> None:
    steps = ladder(store="service")
    headers = steps.after_failure(Received(ORIGIN, b"k", b"v", (), None), OSError("no"), 0).headers
    back = Origin("orders", 2, 99, 9)
    found = receive(back, b"k", b"v", headers, "billing", is_retry=False)
    assert found is not None
    assert (found.attempt, found.origin, found.headers) == (2, ORIGIN, ())
    assert receive(back, b"k", b"v", headers, "shipping", is_retry=False) is None
    elsewhere = receive(Origin("copies", 0, 1, 9), b"k", b"v", headers, "shipping", is_retry=False)
    assert elsewhere is not None, "a copy in another topic is a record of that topic"
    assert elsewhere.attempt == 1


def test_a_service_returns_records_to_a_topic_of_their_own_if_asked() -> None:
    steps = ladder(store="service", return_topic="orders.billing")
    forward = steps.after_failure(Received(ORIGIN, b"k", b"v", (), None), OSError("no"), 0)
    assert (forward.topic, dict(forward.headers)["tidelog.return.topic"]) == ("orders.retry", b"orders.billing")
    assert steps.retry_topics == ("orders.billing",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"delays": "10s"}, "is one text"),
        ({"delays": ["soon"]}, "'soon' is not a duration"),
        ({"delays": [-1]}, "negative"),
        ({"delays": [float("nan")]}, "delays"),
        ({"attempts": 0}, "attempts=0"),
        ({"delays": [], "attempts": 2}, "needs delays"),
        ({"store": "mongodb://x"}, "mongodb"),
        ({"store": "redis://x", "keep_order_by_key": True}, "keep_order_by_key"),
        ({"store": "service", "keep_order_by_key": True}, "keep_order_by_key"),
        ({"return_topic": "orders.billing"}, "return_topic"),
    ],
)
def test_what_makes_no_policy_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientConfigError, match=text):
        RetryPolicy(**given)
