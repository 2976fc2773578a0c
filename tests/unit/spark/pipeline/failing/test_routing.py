"""Which topic a failed row goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.durations import DurationError
from tidelog.spark.pipeline import DeadLetters, Pipeline, RetryLadder, topic
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of


def _ladder(**policy: object) -> Ladder:
    return _of(RetryLadder(**policy))  # type: ignore[arg-type]


def _of(policy: RetryLadder | DeadLetters, *names: str) -> Ladder:
    source = topic(*(names or ("orders",)))
    found = ladder_of(Pipeline("p", source=source, sink=topic("clean"), on_failure=policy))
    assert found is not None
    return found


def test_each_failure_is_one_rung_up_and_the_last_is_the_end() -> None:
    ladder = _ladder(delays=["10s", "1m"])
    assert [(rung.topic, rung.delay_ms) for rung in map(ladder.route, (1, 2, 3))] == [
        ("orders.retry.1", 10_000),
        ("orders.retry.2", 60_000),
        ("orders.dlq", None),
    ]


def test_with_more_attempts_than_delays_the_last_delay_repeats() -> None:
    ladder = _ladder(delays=["1s"], attempts=4)
    assert [ladder.route(attempt).topic for attempt in (1, 2, 3, 4)] == [*["orders.retry.1"] * 3, "orders.dlq"]


def test_delays_that_are_never_reached_have_no_topic() -> None:
    ladder = _ladder(delays=["1s", "2s", "3s"], attempts=2)
    assert ladder.retry_topics == ("orders.retry.1",)
    assert ladder.route(2).is_dead


def test_a_row_that_must_not_be_retried_is_dead_at_once() -> None:
    assert _ladder().route(1, retry=False).topic == "orders.dlq"


def test_dead_letters_alone_have_no_retry_topics() -> None:
    ladder = _of(DeadLetters("graveyard"))
    assert ladder.own_topics == ("graveyard",)
    assert ladder.route(1).topic == "graveyard"


def test_topics_are_named_after_the_pipeline_where_there_are_several_sources() -> None:
    assert _of(RetryLadder(delays=["1s"]), "a", "b").retry_topics == ("p.retry.1",)


def test_order_by_key_adds_a_parked_topic_and_one_for_keys() -> None:
    ladder = _ladder(delays=["1s"], keep_order_by_key=True)
    assert ladder.read_back == ("orders.retry.1", "orders.retry.parked")
    assert ladder.keys_topic == "orders.retry.keys"


def test_without_retries_there_is_no_order_to_keep() -> None:
    assert not _ladder(delays=[], keep_order_by_key=True).keeps_order


def test_a_bad_delay_is_named() -> None:
    with pytest.raises(DurationError, match="'soon'"):
        _ladder(delays=["soon"])


def test_no_policy_is_no_ladder() -> None:
    assert ladder_of(Pipeline("p", source=topic("orders"), sink=topic("clean"))) is None


@given(st.lists(st.integers(1, 10**6), max_size=6), st.none() | st.integers(1, 12))
def test_whatever_the_numbers_a_row_that_always_fails_is_dead_after_its_attempts(
    delays_ms: list[int], attempts: int | None
) -> None:
    ladder = _ladder(delays=[f"{delay}ms" for delay in delays_ms], attempts=attempts)
    failures = 1
    while not (rung := ladder.route(failures)).is_dead:
        assert rung.topic in ladder.retry_topics
        assert rung.delay_ms in delays_ms
        failures += 1
    expected = len(delays_ms) + 1 if attempts is None else attempts
    assert failures == (expected if delays_ms else 1)
    assert len(set(ladder.own_topics)) == len(ladder.own_topics)
