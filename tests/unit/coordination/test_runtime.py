"""Decide, append, replay: what the runtime promises to shards and to those who ask them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.coordination.fakes import Numbers, World
from tidelog.coordination import Answer, CancelTimer, Decision, ProducerEpoch, SetTimer, ShardState
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.wire.errors import ApiError, ErrorCode


@pytest.fixture
def world() -> World:
    world = World()
    world.runtime.load(0, [])
    return world


def test_a_partition_is_not_here_then_loading_then_active() -> None:
    world = World()
    world.ask(lambda shard: shard.get(b"a"))
    loading = world.runtime.begin_load(0)
    world.ask(lambda shard: shard.get(b"a"))
    assert world.codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert world.runtime.state_of(0) is ShardState.LOADING
    world.runtime.finish_load(loading)
    assert world.runtime.state_of(0) is ShardState.ACTIVE
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies[-1] == b""


def test_a_reply_waits_for_its_records_but_the_next_decision_sees_them(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    assert world.replies == []
    assert world.runtime.shard(0).values == {b"a": b"1"}
    world.log.commit()
    assert world.replies == ["set"]


def test_a_reply_that_may_tell_of_uncommitted_records_waits_for_them(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == []
    world.log.commit()
    assert world.replies == ["set", b"1"]
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies[-1] == b"1"


def test_an_append_that_commits_at_once_is_replayed_before_it_is_answered(world: World) -> None:
    world.log.commits_at_once = True
    seen: list[object] = []
    world.runtime.execute(
        0, lambda shard, _: shard.set(b"a", b"1"), lambda _: seen.append(dict(world.runtime.shard(0).values))
    )
    assert seen == [{b"a": b"1"}]


def test_an_error_of_the_operation_is_its_answer(world: World) -> None:
    def refuse(shard: Numbers) -> Decision[str]:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)

    world.ask(refuse)
    assert world.codes == [ErrorCode.INVALID_GROUP_ID]
    assert world.log.batches == []


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_log_that_is_lost_takes_its_shard_with_it(world: World, refusal: ErrorCode, reported: ErrorCode) -> None:
    world.log.refusal = refusal
    world.ask(lambda shard: shard.set(b"a", b"1"))
    assert world.codes == [reported]
    assert world.runtime.state_of(0) is ShardState.NOT_HERE
    assert world.lost == [0]


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_refused_batch_changes_nothing(world: World, refusal: ErrorCode, reported: ErrorCode) -> None:
    world.log.refusal = refusal
    world.ask(lambda shard: shard.set_and_note(b"a", b"1"))
    assert world.codes == [reported]
    shard = world.runtime.shard(0)
    assert shard.values == {}
    assert shard.then == [refusal], "the shard gets the reason"


def test_a_commit_that_times_out_is_answered_and_the_shard_goes_on(world: World) -> None:
    """The records are in the log and will be committed when the followers come back."""
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    assert world.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.runtime.shard(0).values == {b"a": b"1"}


def test_a_reply_that_may_tell_of_records_whose_commit_timed_out_waits_for_them(world: World) -> None:
    """Otherwise the next coordinator could know nothing of what this one has confirmed."""
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    world.replies.clear()
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == []
    world.log.commit()
    assert world.replies == [b"1"]
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == [b"1", b"1"], "what is committed needs no more waiting"


def test_a_reply_gets_an_error_as_long_as_the_commit_times_out(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    for _ in range(2):
        world.replies.clear()
        world.ask(lambda shard: shard.get(b"a"))
        world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
        assert world.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_commit_of_later_records_ends_the_uncertainty(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    world.ask(lambda shard: shard.set(b"b", b"2"))
    world.log.commit()
    world.replies.clear()
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == [b"1"]


def test_a_reply_that_waits_gets_the_error_of_a_log_that_is_lost(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    world.replies.clear()
    world.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.ask(lambda shard: shard.get(b"a"))
    assert world.codes == [ErrorCode.NOT_COORDINATOR]
    assert world.lost == [0]


def test_replies_wait_for_records_that_were_loaded_and_are_not_committed() -> None:
    world = World()
    world.runtime.finish_load(world.runtime.begin_load(0), is_committed=False)
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == []
    world.log.commit()
    assert world.replies == [b""]


def test_what_follows_a_commit_happens_before_the_answer(world: World) -> None:
    world.ask(lambda shard: shard.set_and_note(b"a", b"1"))
    shard = world.runtime.shard(0)
    assert shard.then == []
    world.log.commit()
    assert shard.then == [ErrorCode.NONE]
    assert world.replies == ["set"]


def test_unloading_answers_everybody_who_waits(world: World) -> None:
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.runtime.shard(0).waiting.append(world.replies.append)
    world.runtime.unload(0)
    assert world.codes == [ErrorCode.NOT_COORDINATOR] * 2
    world.log.commit()
    assert len(world.replies) == 2, "no request is answered twice"
    world.advance(1000)
    assert world.runtime.state_of(0) is ShardState.NOT_HERE


def test_a_load_that_was_overtaken_does_not_become_active() -> None:
    world = World()
    first = world.runtime.begin_load(0)
    second = world.runtime.begin_load(0)
    assert first.is_cancelled
    world.runtime.finish_load(first)
    assert world.runtime.state_of(0) is ShardState.LOADING
    world.runtime.finish_load(second)
    assert world.runtime.active_partitions() == [0]


def test_timers_are_set_moved_cancelled_and_fired(world: World) -> None:
    world.ask(lambda _: Decision("set", timers=(SetTimer("a", 50), SetTimer("b", 60))))
    world.ask(lambda _: Decision("moved", timers=(SetTimer("a", 80), CancelTimer("b"), CancelTimer("c"))))
    world.advance(79)
    shard: Any = world.runtime.shard(0)
    assert shard.fired == []
    world.advance(21)
    assert [key for key, _ in shard.fired] == ["a", "loaded"]


def test_a_timer_answers_those_who_wait(world: World) -> None:
    world.runtime.shard(0).waiting.append(world.replies.append)
    world.advance(100)
    assert world.replies == ["loaded"]


def test_what_was_appended_can_be_loaded(world: World) -> None:
    world.log.commits_at_once = True
    world.ask(lambda shard: shard.set(b"a", b"1"))
    world.ask(lambda shard: shard.set(b"b", b"2"))
    world.ask(lambda shard: shard.set(b"a", None))
    world.runtime.load(0, [b"".join(world.log.batches[:2]), world.log.batches[2]])
    assert world.runtime.shard(0).values == {b"b": b"2"}


@pytest.mark.parametrize("is_commit", [True, False])
def test_records_of_a_transaction_take_effect_when_it_ends(world: World, is_commit: bool) -> None:
    world.log.commits_at_once = True
    producer = ProducerEpoch(7, 1)
    world.ask(lambda _: Decision("pending", ((b"a", b"1"),), producer=producer))
    header = read_header(world.log.batches[0])
    assert (header.is_transactional, header.producer_id, header.base_sequence) == (True, 7, -1)
    assert world.runtime.shard(0).values == {}
    world.runtime.end_transaction(0, producer, 3, is_commit, world.replies.append)
    assert world.replies == ["pending", None]
    expected = {b"a": b"1"} if is_commit else {}
    assert world.runtime.shard(0).values == expected
    assert read_header(world.log.batches[1]).is_control
    world.runtime.load(0, world.log.batches)
    assert world.runtime.shard(0).values == expected


def test_records_carry_the_wall_clock(world: World) -> None:
    world.clock.set_wall_ms(123_456)
    world.ask(lambda shard: shard.set(b"a", b"1"))
    assert [record.timestamp for record in iterate_records(world.log.batches[0])] == [123_456]


class Broken:
    """Replies, records and follow-ups that fail, and the errors that were reported."""

    def __init__(self, world: World) -> None:
        self.errors: list[Exception] = []
        world.timer.on_error = lambda _, error: self.errors.append(error)

    def respond(self, _reply: object) -> None:
        raise ZeroDivisionError

    def then(self, _code: ErrorCode, _now_ms: int) -> Decision[object]:
        raise ZeroDivisionError


def test_a_reply_that_fails_holds_up_no_other_of_the_shard(world: World) -> None:
    """Otherwise nothing of the partition would be answered any more."""
    broken = Broken(world)
    world.runtime.execute(0, lambda shard, _: shard.set(b"a", b"1"), broken.respond)
    world.ask(lambda shard: shard.get(b"a"))
    world.ask(lambda shard: shard.set(b"b", b"2"))
    world.log.commit()
    assert world.replies == [b"1", "set"]
    world.runtime.execute(0, lambda shard, _: shard.get(b"a"), broken.respond)
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies[-1] == b"1"
    assert [type(error) for error in broken.errors] == [ZeroDivisionError] * 2


def test_an_answer_to_an_earlier_request_that_fails_holds_up_no_other(world: World) -> None:
    broken = Broken(world)
    answers = (Answer(broken.respond, 1), Answer(world.replies.append, 2))
    world.runtime.execute(0, lambda _shard, _: Decision(answers=answers), None)
    assert world.replies == [2]
    assert len(broken.errors) == 1


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_a_follow_up_that_fails_holds_up_no_reply(world: World, outcome: ErrorCode) -> None:
    broken = Broken(world)
    world.ask(lambda shard: shard.set(b"a", b"1")._replace(then=broken.then))
    world.ask(lambda shard: shard.set(b"b", b"2"))
    world.log.commit(outcome)
    assert len(world.replies) == 2
    assert len(broken.errors) == 1


def test_records_that_cannot_be_replayed_fail_their_request_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the replies behind them would wait for ever."""
    broken = Broken(world)
    with monkeypatch.context() as patch:
        patch.setattr(Numbers, "replay", lambda *_: 1 // 0)
        world.ask(lambda shard: shard.set(b"a", b"1"))
    world.ask(lambda shard: shard.set(b"b", b"2"))
    world.log.commit()
    assert world.codes == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert world.replies[-1] == "set"
    assert len(broken.errors) == 1


@pytest.mark.parametrize("waits_for", ["a commit", "an event"])
def test_a_reply_that_fails_when_the_partition_leaves_holds_up_no_other(world: World, waits_for: str) -> None:
    broken = Broken(world)
    for respond in (broken.respond, world.replies.append):
        if waits_for == "a commit":
            world.runtime.execute(0, lambda shard, _: shard.set(b"a", b"1"), respond)
        else:
            world.runtime.shard(0).waiting.append(respond)
    world.runtime.unload(0)
    assert world.codes == [ErrorCode.NOT_COORDINATOR]
    assert len(broken.errors) == 1


def test_a_reply_that_fails_because_the_log_refused_holds_up_no_other(world: World) -> None:
    broken = Broken(world)
    world.runtime.execute(0, lambda shard, _: shard.set(b"a", b"1"), broken.respond)
    world.ask(lambda shard: shard.get(b"a"))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    assert world.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert len(broken.errors) == 1
