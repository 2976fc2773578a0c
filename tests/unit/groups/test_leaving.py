"""Heartbeats, LeaveGroup and members that are not heard of any more."""

from __future__ import annotations

from tests.unit.groups.world import GROUP, SESSION_MS, World
from tidelog.groups import GroupState
from tidelog.groups.schemas import group_key, read_group_value
from tidelog.wire.errors import ErrorCode


def test_heartbeats_keep_a_member_alive() -> None:
    world = World()
    (member,) = world.stable(None)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        assert world.heartbeat(member, 1) is ErrorCode.NONE
    world.advance(SESSION_MS)
    assert world.group.state is GroupState.EMPTY
    assert world.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_crashed_makes_room_after_its_session_timeout() -> None:
    world = World()
    leader, crashed = world.stable(None, None)
    world.advance(SESSION_MS // 2)
    world.heartbeat(leader, 2)
    world.advance(SESSION_MS // 2)
    assert crashed not in world.group.members
    assert world.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(leader).reply.generation_id == 3


def test_a_commit_is_a_sign_of_life_too() -> None:
    world = World()
    (member,) = world.stable(None)
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        assert world.commit(1, member_id=member, generation=1) is ErrorCode.NONE


def test_a_heartbeat_names_its_generation() -> None:
    world = World()
    (member,) = world.stable(None)
    assert world.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(member, 1, group_id="none") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_may_send_heartbeats_before_it_has_its_assignment() -> None:
    world = World()
    member = world.join().reply.member_id
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    assert world.heartbeat(member, 1) is ErrorCode.NONE


def test_leaving_starts_a_rebalance_at_once() -> None:
    world = World()
    leader, follower = world.stable(None, None)
    assert world.leave((follower, None)) == [ErrorCode.NONE]
    assert world.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_several_leave_with_one_request() -> None:
    world = World()
    first, second = world.stable(None, None)
    assert world.leave((first, None), ("unknown", None), (second, None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert world.group.state is GroupState.EMPTY


def test_no_member_leaves_a_group_that_does_not_exist() -> None:
    assert World().leave(("a", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_without_members_is_stored_as_empty() -> None:
    world = World()
    (member,) = world.stable(None)
    world.leave((member, None))
    key, value = world.log.records()[-1]
    assert key == group_key(GROUP)
    assert value is not None
    stored = read_group_value(value)
    assert (stored.generation, stored.members, stored.protocol_name, stored.leader_id) == (2, [], None, None)
    world.restart()
    assert world.group.state is GroupState.EMPTY
    assert world.join().reply.generation_id == 3


def test_the_last_that_leaves_lets_those_who_wait_go_on() -> None:
    world = World()
    (leader,) = world.stable(None)
    newcomer = world.join()
    world.leave((leader, None))
    assert newcomer.reply.generation_id == 2


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = World()
    leader, follower = world.stable(None, None)
    world.join(leader), world.join(follower)
    waiting = world.sync(follower, 3)
    world.leave((follower, None))
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_leaves_another_member_leads() -> None:
    world = World()
    leader, follower = world.stable(None, None)
    world.leave((leader, None))
    assert world.join(follower).reply.leader == follower


def test_a_describe_shows_members_and_their_assignments_only_in_stable() -> None:
    world = World()
    leader, follower = world.stable(None, "i")
    described = world.shard.describe(GROUP)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    by_id = {member.member_id: member for member in described.members}
    assert by_id[leader].member_assignment == f"part of {leader}".encode()
    assert (by_id[follower].group_instance_id, by_id[follower].client_host) == ("i", "/127.0.0.1")
    world.join(leader)
    described = world.shard.describe(GROUP)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert {member.member_assignment for member in described.members} == {b""}
    assert world.shard.describe("none").group_state == "Dead"
