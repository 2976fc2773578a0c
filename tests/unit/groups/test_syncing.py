"""SyncGroup: the assignment is stored before anybody has it; late and repeated requests."""

from __future__ import annotations

import pytest

from tests.unit.groups.world import GROUP, REBALANCE_MS, SESSION_MS, World
from tidelog.groups import GroupState
from tidelog.groups.schemas import group_key, read_group_value
from tidelog.wire.errors import ErrorCode


def joined(world: World) -> tuple[str, str]:
    """Two members in generation 1 of a new group that waits for its assignment."""
    calls = [world.join(), world.join()]
    world.advance(world.settings.initial_rebalance_delay_ms * 3)
    leader = calls[0].reply.leader
    (follower,) = {call.reply.member_id for call in calls} - {leader}
    return leader, follower


@pytest.fixture
def world() -> World:
    return World(initial_rebalance_delay_ms=10)


def test_followers_wait_for_the_leader(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    assert waiting.is_waiting
    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert (brought.reply.assignment, waiting.reply.assignment) == (b"L", b"F")
    assert world.group.state is GroupState.STABLE


def test_no_member_has_an_assignment_that_is_not_stored(world: World) -> None:
    leader, follower = joined(world)
    world.log.is_slow = True
    calls = [world.sync(follower, 1), world.sync(leader, 1, {leader: b"L", follower: b"F"})]
    assert all(call.is_waiting for call in calls)
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    key, value = world.log.records()[-1]
    assert key == group_key(GROUP)
    assert value is not None
    assert {m.member_id: m.assignment for m in read_group_value(value).members} == {leader: b"L", follower: b"F"}
    world.log.commit()
    assert [call.reply.assignment for call in calls] == [b"F", b"L"]


def test_a_late_follower_gets_its_part_from_a_stable_group(world: World) -> None:
    leader, follower = joined(world)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert world.group.state is GroupState.STABLE
    assert world.sync(follower, 1).reply.assignment == b"F"
    assert world.sync(follower, 1).reply.assignment == b"F", "and again, if the answer was lost"


def test_members_the_leader_forgot_get_nothing_but_are_answered(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.sync(leader, 1, {leader: b"L", "stranger": b"S"})
    assert waiting.reply.assignment == b""


def test_who_joins_while_the_assignment_is_stored_starts_the_next_rebalance(world: World) -> None:
    leader, follower = joined(world)
    world.log.is_slow = True
    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    world.join()
    assert brought.is_waiting, "replies come in the order of the log"
    world.log.commit()
    assert brought.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_not_handed_out(
    world: World, refusal: ErrorCode, reported: ErrorCode
) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.log.refusal = refusal
    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert (brought.code, waiting.code) == (reported, reported)
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_whose_commit_times_out_leads_to_another_rebalance(world: World) -> None:
    leader, follower = joined(world)
    world.log.is_slow = True
    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    assert brought.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_sync_takes_the_place_of_the_one_that_waits(world: World) -> None:
    leader, follower = joined(world)
    first, second = world.sync(follower, 1), world.sync(follower, 1)
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(leader, 1, {follower: b"F"})
    assert second.reply.assignment == b"F"


def test_what_members_say_about_the_protocol_is_compared(world: World) -> None:
    leader, _ = joined(world)
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(leader, 1, protocol_type="connect", protocol_name="range").code is wrong
    assert world.sync(leader, 1, protocol_type="consumer", protocol_name="sticky").code is wrong
    call = world.sync(leader, 1, {leader: b"L"}, protocol_type="consumer", protocol_name="range")
    assert (call.reply.protocol_type, call.reply.protocol_name) == ("consumer", "range")


def test_another_generation_is_refused(world: World) -> None:
    leader, _ = joined(world)
    assert world.sync(leader, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert world.sync(leader, 2).code is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_never_syncs_is_put_out_after_the_rebalance_timeout(world: World) -> None:
    leader, follower = joined(world)
    world.sync(leader, 1, {leader: b"L"})
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        world.advance(SESSION_MS // 2)
        world.heartbeat(leader, 1)
        world.heartbeat(follower, 1)
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_does_not_hold_the_group_up(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.advance(SESSION_MS)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(follower).reply.leader == follower


def test_waiting_for_the_assignment_counts_as_being_alive(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    for _ in range(4):
        world.advance(SESSION_MS // 2)
        assert world.heartbeat(leader, 1) is ErrorCode.NONE
    assert waiting.is_waiting
    world.sync(leader, 1, {follower: b"F"})
    assert waiting.reply.assignment == b"F"
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(follower, 1) is ErrorCode.NONE, "its session begins again with the answer"


def test_a_stable_group_survives_a_restart_of_its_coordinator(world: World) -> None:
    leader, follower = joined(world)
    world.sync(follower, 1)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    world.restart()
    assert world.group.state is GroupState.STABLE
    assert world.heartbeat(follower, 1) is ErrorCode.NONE
    assert world.sync(follower, 1).reply.assignment == b"F"
    world.advance(SESSION_MS)
    assert world.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "those who do not come back are put out"


def test_waiting_members_get_the_error_when_the_coordinator_moves(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.runtime.unload(0)
    assert waiting.code is ErrorCode.NOT_COORDINATOR
    assert world.sync(leader, 1).code is ErrorCode.NOT_COORDINATOR
