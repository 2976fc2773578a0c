"""Static membership (KIP-345): an instance id outlives the process, and only one process may have it."""

from __future__ import annotations

from tests.unit.groups.world import REBALANCE_MS, SESSION_MS, World
from tidelog.groups import GroupState
from tidelog.wire.errors import ErrorCode

OTHER = (("range", b"other"),)


def test_a_static_member_needs_no_second_join_for_its_id() -> None:
    reply = World().join(instance_id="i", needs_member_id=True).reply
    assert reply.error_code == ErrorCode.NONE
    assert reply.member_id.startswith("i-")


def test_a_restarted_static_member_gets_its_partitions_back_without_a_rebalance() -> None:
    world = World()
    leader, follower = world.stable("i", "k")
    reply = world.join(instance_id="k").reply
    assert (reply.generation_id, reply.leader, reply.members) == (2, leader, [])
    assert reply.member_id != follower
    assert world.group.state is GroupState.STABLE
    assert world.sync(reply.member_id, 2, instance_id="k").reply.assignment == f"part of {follower}".encode()
    assert world.heartbeat(leader, 2, instance_id="i") is ErrorCode.NONE


def test_its_new_id_is_stored_before_it_is_sent() -> None:
    world = World()
    world.stable("i", "k")
    world.log.is_slow = True
    call = world.join(instance_id="k")
    assert call.is_waiting
    world.log.commit()
    new_id = call.reply.member_id
    world.log.is_slow = False
    world.restart()
    assert world.heartbeat(new_id, 2, instance_id="k") is ErrorCode.NONE


def test_if_its_new_id_cannot_be_stored_the_old_one_stays() -> None:
    world = World()
    _, follower = world.stable("i", "k")
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join(instance_id="k", protocols=OTHER).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(follower, 2, instance_id="k") is ErrorCode.NONE
    assert world.group.members[follower].protocols != OTHER


def test_a_restarted_leader_has_nothing_to_assign() -> None:
    world = World()
    old_leader, _ = world.stable("i", "k")
    reply = world.join(instance_id="i").reply
    assert reply.leader == reply.member_id
    assert reply.skip_assignment
    assert len(reply.members) == 2
    assert old_leader not in world.group.members


def test_before_version_9_a_restarted_leader_gets_its_old_id_as_leader() -> None:
    """No member has that id any more, so none assigns."""
    world = World()
    old_leader, _ = world.stable("i", "k")
    reply = world.join(instance_id="i", may_skip_assignment=False).reply
    assert (reply.leader, reply.members, reply.skip_assignment) == (old_leader, [], False)


def test_the_old_id_is_fenced_everywhere() -> None:
    world = World()
    _, old_id = world.stable("i", "k")
    world.join(instance_id="k")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old_id, 2, instance_id="k") is fenced
    assert world.sync(old_id, 2, instance_id="k").code is fenced
    assert world.join(old_id, instance_id="k").code is fenced
    assert world.leave((old_id, "k")) == [fenced]
    assert world.commit(1, member_id=old_id, generation=2, instance_id="k") is fenced


def test_a_duplicate_that_waits_is_fenced_at_once() -> None:
    world = World()
    leader, old_id = world.stable("i", "k")
    waiting_join = world.join(old_id, instance_id="k", protocols=OTHER)
    newcomer = world.join(instance_id="k", protocols=OTHER)
    assert waiting_join.code is ErrorCode.FENCED_INSTANCE_ID
    world.join(leader, instance_id="i")
    waiting_sync = world.sync(newcomer.reply.member_id, 3, instance_id="k")
    world.join(instance_id="k", protocols=OTHER)
    assert waiting_sync.code is ErrorCode.FENCED_INSTANCE_ID


def test_in_completing_rebalance_everybody_starts_over() -> None:
    """The leader may be assigning to the old id at this moment."""
    world = World()
    leader, _ = world.stable("i", "k")
    calls = [world.join(leader, instance_id="i"), world.join(instance_id="k")]
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    again = world.join(instance_id="k")
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.join(calls[0].reply.member_id, instance_id="i")
    assert again.code is ErrorCode.NONE


def test_another_protocol_choice_needs_a_rebalance() -> None:
    world = World()
    (_,) = world.stable("i", protocols=(("a", b""), ("b", b"")))
    world.join(instance_id="i", protocols=(("b", b""), ("a", b"")))
    assert world.group.generation == 2
    assert world.group.protocol_name == "b"


def test_an_absent_static_member_is_waited_for_until_its_session_ends() -> None:
    world = World()
    leader, absent = world.stable("i", "k", session_timeout_ms=REBALANCE_MS * 2)
    rejoined = world.join(leader, instance_id="i")
    world.advance(REBALANCE_MS)
    assert [member.member_id for member in rejoined.reply.members] == [leader, absent]
    world.sync(leader, 3, {leader: b"L", absent: b"A"})
    for _ in range(2):
        world.advance(REBALANCE_MS)
        world.heartbeat(leader, 3)
    assert absent not in world.group.members


def test_if_only_absent_static_members_are_left_the_group_waits_for_their_sessions() -> None:
    world = World()
    leader, follower = world.stable("i", "k", rebalance_timeout_ms=1_000)
    assert world.join(leader, instance_id="i", protocols=OTHER).is_waiting
    assert world.leave((leader, "i")) == [ErrorCode.NONE]
    world.advance(5_000)
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert list(world.group.members) == [follower]
    world.advance(SESSION_MS)
    assert world.group.state is GroupState.EMPTY


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    world = World()
    leader, follower = world.stable("i", "k")
    assert world.leave(("", "k"), ("", "unknown"), ("", None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert world.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unknown_instance_id_with_a_known_member_id_is_unknown() -> None:
    world = World()
    (member,) = world.stable(None)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(member, 1, instance_id="i") is unknown
    assert world.join(member, instance_id="i").code is unknown


def test_one_that_comes_back_twice_while_the_log_is_slow_is_fenced_once() -> None:
    world = World()
    world.stable("i", "k")
    world.log.is_slow = True
    first, second = world.join(instance_id="k"), world.join(instance_id="k")
    world.log.commit()
    assert first.code is ErrorCode.FENCED_INSTANCE_ID
    assert second.code is ErrorCode.NONE


def test_one_that_leaves_while_its_new_id_is_stored_is_no_member() -> None:
    world = World()
    world.stable("i", "k")
    world.log.is_slow = True
    call = world.join(instance_id="k")
    world.execute(lambda shard, _, now_ms: shard.leave(_leave("k"), now_ms))
    world.log.commit()
    assert call.code is ErrorCode.UNKNOWN_MEMBER_ID


def _leave(instance_id: str):  # type: ignore[no-untyped-def]
    from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

    return LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id=instance_id)])
