"""The parts of a backfill: every offset in one part, and the same parts after a restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline import DeadLetters, Pipeline, PipelineError, RetryLadder, delta, parquet, topic
from tidelog.spark.pipeline.running.backfill import why_no_backfill
from tidelog.spark.pipeline.running.backfill_plan import BackfillState, Bound, new_plan, parse_bound

ASKED = {"--from": "0", "--to": None, "--path": None}
SPANS = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda each: (each[0], sum(each)))


@given(st.dictionaries(st.integers(0, 5), SPANS, max_size=4), st.integers(1, 20))
def test_every_offset_is_in_one_part(partitions, batch_offsets):
    plan = new_plan(ASKED, {"t": partitions}, batch_offsets)
    found = [
        (partition, offset)
        for number in range(plan.parts)
        for partition, (start, end) in plan.part(number).get("t", {}).items()
        for offset in range(start, end)
    ]
    expected = [(partition, offset) for partition, (start, end) in partitions.items() for offset in range(start, end)]
    assert sorted(found) == sorted(expected)
    assert plan.total == len(expected) == sum(map(plan.size, range(plan.parts)))


def test_a_restart_finds_the_same_plan(tmp_path):
    state = BackfillState(tmp_path / "b")
    assert state.plan(ASKED) is None
    assert state.done == 0
    plan = new_plan(ASKED, {"t": {0: (3, 20), 2: (0, 5)}}, 7)
    state.keep(plan)
    state.keep_done(2)
    again = BackfillState(tmp_path / "b")
    assert again.plan(ASKED) == plan
    assert again.done == 2
    with pytest.raises(PipelineError, match="choose another --name"):
        again.plan({**ASKED, "--to": "9"})


def test_bounds_are_times_or_offsets():
    assert parse_bound("17") == Bound(offset=17)
    assert parse_bound("1970-01-02") == Bound(time_ms=86_400_000)
    assert parse_bound("1970-01-01T01:00:00+01:00") == Bound(time_ms=0)
    assert parse_bound(None) == Bound()
    with pytest.raises(ValueError, match="yesterday"):
        parse_bound("yesterday")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"on_failure": DeadLetters()}, None),
        ({"source": parquet("/x", schema="id long")}, "only topics"),
        ({"sink": parquet("/x")}, "exactly once"),
        ({"output_mode": "update"}, "state"),
        ({"streams": {"other": topic("other")}}, "state"),
        ({"on_failure": RetryLadder(delays=["1s"], keep_order_by_key=True)}, "in order"),
    ],
)
def test_what_cannot_be_backfilled_is_refused_with_the_reason(changed, reason):
    settings = {"source": topic("t"), "sink": delta("/x"), **changed}
    found = why_no_backfill(Pipeline("p", **settings))
    assert found is None if reason is None else reason in str(found)
