"""A stream's way through its partitions: every trap of Spark's Python sources is a test here."""

import json
import logging

import pytest

from tests.unit.spark.source.fakes import FakeView, offsets, stream_settings, tp
from tidelog.spark.options import OptionError
from tidelog.spark.source.data_loss import DataLossError
from tidelog.spark.source.offsets import from_json, origin_of, to_json, topic_ids_of
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.stream_plan import StreamPlan


def _plan(view, monotonic=lambda: 0.0, sizes=None, **options):
    settings = stream_settings(**{"startingOffsets": "earliest", **options})
    return StreamPlan(settings, view, sizes or (lambda starts: dict.fromkeys(starts, 100.0)), monotonic)


def _again(shown):
    """Offsets as they come back out of the checkpoint."""
    return json.loads(json.dumps(shown))


def _text(shown):
    return json.dumps(shown)


def _next(plan, start, *, is_unlimited=False):
    return _again(plan.latest(_again(start), is_unlimited=is_unlimited))


def _grow(view, **ends):
    for where, end in offsets(**ends).items():
        view.logs[where] = (view.logs.get(where, (0, 0))[0], end)


# Trap 1: Spark does not keep the initial offset.


def test_the_initial_offset_is_the_same_however_often_it_is_asked():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, startingOffsets="latest")
    first = plan.initial()
    _grow(view, t_0=105)
    assert plan.initial() == first
    assert from_json(first) == offsets(t_0=100)


def test_a_first_batch_that_is_repeated_reads_what_it_was_to_read():
    """The query stops before the first commit; after its restart "latest" has moved on, the offset log has not."""
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, startingOffsets="latest")
    start = plan.initial()
    _grow(view, t_0=105)
    end = _next(plan, start)
    _grow(view, t_0=110)
    after = _plan(view, startingOffsets="latest")
    assert from_json(after.initial()) == offsets(t_0=110)
    assert after.ranges(after.initial(), end) == [OffsetRange("t", 0, 100, 105)]
    assert after.ranges(end, _next(after, end)) == [OffsetRange("t", 0, 105, 110)]


def test_an_empty_first_batch_that_is_repeated_stays_empty_and_loses_nothing():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, startingOffsets="latest")
    end = _next(plan, plan.initial())
    _grow(view, t_0=110)
    after = _plan(view, startingOffsets="latest")
    assert after.ranges(after.initial(), end) == []
    assert after.ranges(end, _next(after, end)) == [OffsetRange("t", 0, 100, 110)]


def test_only_the_first_offsets_carry_where_the_query_began():
    view = FakeView(t_0=(0, 10))
    plan = _plan(view)
    first = _next(plan, plan.initial())
    assert origin_of(first) == offsets(t_0=0)
    _grow(view, t_0=20)
    assert _text(_next(plan, first)) == '{"t": {"0": 20}, "$id:t:69696969696969696969696969696969": {}}'


def test_a_query_that_began_without_any_partition_reads_all_of_the_first_ones():
    view = FakeView()
    plan = _plan(view, startingOffsets="latest")
    start = plan.initial()
    _grow(view, t_0=5)
    end = _next(plan, start)
    after = _plan(view, startingOffsets="latest")
    assert after.ranges(after.initial(), end) == [OffsetRange("t", 0, 0, 5)]


# Trap 2: offsets are compared as text.


def test_an_idle_query_answers_with_the_very_offset_it_was_given():
    view = FakeView(t_0=(0, 10), t_1=(0, 0))
    plan = _plan(view, maxOffsetsPerTrigger="100")
    start = _next(plan, plan.initial())
    assert _text(_next(plan, start)) == _text(start)
    given = _again(start)
    assert plan.latest(given, is_unlimited=False) is given
    assert plan.latest(given, is_unlimited=True) is given


# Admission.


def test_batches_are_limited_unless_the_engine_wants_everything():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, maxOffsetsPerTrigger="30")
    first = _next(plan, plan.initial())
    assert from_json(first) == offsets(t_0=30)
    assert from_json(_next(plan, first)) == offsets(t_0=60)
    assert from_json(_next(plan, first, is_unlimited=True)) == offsets(t_0=100)


def test_bytes_limit_batches():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, maxBytesPerTrigger="1000")
    assert from_json(_next(plan, plan.initial())) == offsets(t_0=10)


def test_too_little_is_waited_for_and_too_long_is_not():
    now = [0.0]
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, lambda: now[0], minOffsetsPerTrigger="50", maxTriggerDelay="10s")
    first = _next(plan, plan.initial())
    _grow(view, t_0=149)
    assert plan.latest(first, is_unlimited=False) is first
    _grow(view, t_0=150)
    second = _next(plan, first)
    assert from_json(second) == offsets(t_0=150)
    _grow(view, t_0=151)
    now[0] = 10.0
    assert from_json(_next(plan, second)) == offsets(t_0=151)


# Trigger.AvailableNow.


def test_available_now_ends_where_it_began_to_look():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, maxOffsetsPerTrigger="60")
    plan.freeze()
    _grow(view, t_0=500)
    start = plan.initial()
    ends = []
    while True:
        end = _next(plan, start)
        if end == start:
            break
        ends.append(from_json(end)[tp("t-0")])
        start = end
    assert ends == [60, 100]
    assert plan.report() == {"t": {"0": 100}}


def test_available_now_with_latest_begins_where_it_ends():
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, startingOffsets="latest")
    plan.freeze()
    _grow(view, t_0=105)
    assert from_json(plan.initial()) == offsets(t_0=100)


def test_available_now_does_not_wait_for_a_minimum():
    """It would end without having read what there was."""
    view = FakeView(t_0=(0, 100))
    plan = _plan(view, minOffsetsPerTrigger="1000")
    plan.freeze()
    first = _next(plan, plan.initial())
    assert from_json(first) == offsets(t_0=100)


@pytest.mark.parametrize("fatal", ["true", "false"])
def test_available_now_fails_when_what_it_promised_vanishes(fatal):
    view = FakeView(t_0=(0, 100), t_1=(0, 100))
    plan = _plan(view, failOnDataLoss=fatal)
    plan.freeze()
    start = plan.initial()
    end = _next(plan, start)
    del view.logs[tp("t-1")]
    with pytest.raises(DataLossError, match="t-1 disappeared while"):
        plan.ranges(start, end)
    _grow(view, t_1=50)
    with pytest.raises(DataLossError, match="t-1 up to offset 100, it ends at 50"):
        plan.ranges(start, end)


# Partitions that come and go.


def test_new_partitions_are_read_from_their_beginning_wherever_the_query_began():
    view = FakeView(t_0=(0, 10))
    plan = _plan(view, startingOffsets="latest", maxOffsetsPerTrigger="100")
    start = _next(plan, plan.initial())
    _grow(view, t_1=7)
    end = _next(plan, start)
    assert plan.ranges(start, end) == [OffsetRange("t", 1, 0, 7)]


def test_a_new_partition_that_has_lost_its_beginning_is_a_loss(caplog):
    view = FakeView(t_0=(0, 10))
    start = to_json(offsets(t_0=10))
    view.logs[tp("t-1")] = (4, 9)
    with pytest.raises(
        DataLossError, match=r"4 offsets are lost in t-1: offsets 0 to 3; .*retention.*failOnDataLoss=false"
    ):
        _plan(view).ranges(start, to_json(offsets(t_0=10, t_1=9)))
    with caplog.at_level(logging.WARNING):
        ranges = _plan(view, failOnDataLoss="false").ranges(start, to_json(offsets(t_0=10, t_1=9)))
    assert ranges == [OffsetRange("t", 1, 4, 9)]
    assert "(4 offsets lost so far)" in caplog.text


def test_a_new_partition_that_is_gone_again_is_a_loss(caplog):
    view = FakeView(t_0=(0, 10))
    start, end = to_json(offsets(t_0=5)), to_json(offsets(t_0=10, t_1=9))
    with pytest.raises(DataLossError, match="t-1 cannot be read from the beginning"):
        _plan(view).ranges(start, end)
    assert _plan(view, failOnDataLoss="false").ranges(start, end) == [OffsetRange("t", 0, 5, 10)]


def test_vanished_partitions_are_a_loss_reported_once(caplog):
    view = FakeView(t_0=(0, 10), t_1=(0, 10))
    start = to_json(offsets(t_0=5, t_1=5))
    del view.logs[tp("t-1")]
    fatal = _plan(view)
    with pytest.raises(DataLossError, match="unread records of t-1 are lost: the topic or the partition was deleted"):
        fatal.ranges(start, _next(fatal, start))
    plan = _plan(view, failOnDataLoss="false")
    end = _next(plan, start)
    assert plan.ranges(start, end) == [OffsetRange("t", 0, 5, 10)]
    assert len(caplog.records) == 1
    assert plan.latest(end, is_unlimited=False) is end


def test_a_log_that_ends_before_what_was_read_is_a_loss(caplog):
    view = FakeView(t_0=(0, 3))
    start = to_json(offsets(t_0=10))
    fatal = _plan(view)
    with pytest.raises(DataLossError, match="t-0 ends at offset 3, but the query continues from 10"):
        fatal.ranges(start, _next(fatal, start))
    plan = _plan(view, failOnDataLoss="false")
    end = _next(plan, start)
    assert plan.ranges(start, end) == []
    _grow(view, t_0=5)
    assert plan.ranges(end, _next(plan, end)) == [OffsetRange("t", 0, 3, 5)]


def test_a_topic_created_again_is_another_topic_even_if_it_has_grown_past_the_old_one(caplog):
    view = FakeView(t_0=(0, 10))
    plan = _plan(view, failOnDataLoss="false")
    start = _next(plan, plan.initial())
    view.ids["t"] = b"j" * 16
    _grow(view, t_0=30)
    end = _next(plan, start)
    assert plan.ranges(start, end) == [OffsetRange("t", 0, 0, 30)]
    assert "recreated" in caplog.text
    _grow(view, t_0=40)
    assert plan.ranges(end, _next(plan, end)) == [OffsetRange("t", 0, 30, 40)]


def test_a_topic_created_again_stops_the_query_at_every_start():
    view = FakeView(t_0=(0, 10))
    plan = _plan(view)
    start = _next(plan, plan.initial())
    view.ids["t"] = b"j" * 16
    for _ in range(2):
        with pytest.raises(DataLossError, match="recreated under the same name"):
            plan.latest(start, is_unlimited=False)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_topic_created_again_between_two_runs_is_recognised_by_its_id_in_the_checkpoint(is_frozen):
    view = FakeView(t_0=(0, 10))
    before = _plan(view)
    end = json.loads(json.dumps(_next(before, before.initial())))
    view.ids["t"] = b"j" * 16
    _grow(view, t_0=30)

    for fails in ("true", "false"):
        after = _plan(view, failOnDataLoss=fails)
        if is_frozen:
            after.freeze()
        if fails == "true":
            with pytest.raises(DataLossError, match=r"unread records of t-0 are lost: .* recreated"):
                after.latest(end, is_unlimited=False)
        else:
            assert after.ranges(end, _next(after, end)) == [OffsetRange("t", 0, 0, 30)]


def test_a_batch_that_is_repeated_must_be_of_the_topic_it_was_planned_for():
    view = FakeView(t_0=(0, 10))
    before = _plan(view)
    start = before.initial()
    end = _next(before, start)
    assert _plan(view).ranges(start, end) == [OffsetRange("t", 0, 0, 10)]
    view.ids["t"] = b"j" * 16
    with pytest.raises(DataLossError, match="recreated under the same name"):
        _plan(view).ranges(start, end)


def test_a_checkpoint_without_ids_goes_on_and_gets_them():
    view = FakeView(t_0=(0, 10))
    end = _next(_plan(view), to_json(offsets(t_0=5)))
    assert topic_ids_of(end) == {"t": b"i" * 16}


def test_a_new_query_on_a_topic_that_is_not_there_is_refused():
    view = FakeView()
    view.absent = ["topic 't'"]
    with pytest.raises(OptionError, match="the cluster has no topic 't'"):
        _plan(view).initial()
    frozen = _plan(view)
    frozen.freeze()
    with pytest.raises(OptionError, match="the cluster has no topic 't'"):
        frozen.initial()


def test_nothing_is_reported_before_anything_is_known():
    assert _plan(FakeView(t_0=(0, 1))).report() is None


def test_ranges_are_split_as_the_options_say():
    view = FakeView(t_0=(0, 10))
    plan = _plan(view, minPartitions="2")
    start = plan.initial()
    assert [each.size for each in plan.ranges(start, _next(plan, start))] == [5, 5]
