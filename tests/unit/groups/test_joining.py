"""JoinGroup: who becomes a member, and when everybody hears of the next generation."""

from __future__ import annotations

import pytest

from tests.unit.groups.world import RANGE, REBALANCE_MS, SESSION_MS, World
from tidelog.groups import GroupState
from tidelog.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from tidelog.wire.errors import ErrorCode

PREFERS_A = (("a", b"1"), ("b", b"2"))
PREFERS_B = (("b", b"3"), ("a", b"4"))


def test_the_first_member_leads_and_learns_what_all_said() -> None:
    world = World()
    reply = world.join(client_id="consumer").reply
    assert reply.error_code == ErrorCode.NONE
    assert reply.member_id == reply.leader == "consumer-1"
    assert (reply.generation_id, reply.protocol_type, reply.protocol_name) == (1, "consumer", "range")
    assert [(member.member_id, member.metadata) for member in reply.members] == [("consumer-1", RANGE[0][1])]
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_member_id_of_a_long_name_fits_into_a_string() -> None:
    """Client ids and instance ids may have 32,767 bytes, and then there was no room for the rest of the member id."""
    world = World()
    assert len(world.join(client_id="c" * 32_767).reply.member_id) < 1_100
    static = world.join(instance_id="i" * 32_767)
    assert len(world.group.static_members["i" * 32_767]) < 1_100
    assert static.is_waiting


def test_a_dynamic_member_gets_its_id_first_and_joins_with_it() -> None:
    """KIP-394: a client that retries its first JoinGroup does not leave a member behind each time."""
    world = World()
    first = world.join(needs_member_id=True)
    assert first.code is ErrorCode.MEMBER_ID_REQUIRED
    member_id = first.reply.member_id
    assert world.group.members == {}
    assert world.join(member_id, needs_member_id=True).reply.member_id == member_id


def test_an_id_that_is_not_used_is_forgotten_after_the_session_timeout() -> None:
    world = World()
    member_id = world.join(needs_member_id=True).reply.member_id
    world.advance(SESSION_MS)
    assert world.join(member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_given_out_until_it_expires() -> None:
    world = World()
    (leader,) = world.stable(None)
    world.join(needs_member_id=True)
    other = world.join()
    rejoined = world.join(leader)
    assert other.is_waiting
    world.advance(SESSION_MS)
    assert other.reply.generation_id == rejoined.reply.generation_id == 2


def test_an_id_that_was_given_out_can_leave_and_is_not_waited_for() -> None:
    world = World()
    (leader,) = world.stable(None)
    pending = world.join(needs_member_id=True).reply.member_id
    other, rejoined = world.join(), world.join(leader)
    assert world.leave((pending, None)) == [ErrorCode.NONE]
    assert not other.is_waiting
    assert not rejoined.is_waiting


def test_an_id_that_was_never_given_out_is_refused() -> None:
    world = World()
    assert world.join("mine").code is ErrorCode.UNKNOWN_MEMBER_ID
    world.stable(None)
    assert world.join("mine").code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_are_bounded(session_timeout_ms: int) -> None:
    world = World()
    assert world.join(session_timeout_ms=session_timeout_ms).code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.shard.group("g") is None, "a refused join leaves no group behind"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_the_first_member_must_name_a_protocol(protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    world = World()
    call = world.join(protocol_type=protocol_type, protocols=protocols)
    assert call.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_with_nothing_in_common_is_refused() -> None:
    world = World()
    world.stable(None)
    assert world.join(protocols=(("sticky", b""),)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group.state is GroupState.STABLE


def test_the_protocol_most_members_like_best_is_chosen_among_those_all_support() -> None:
    world = World(initial_rebalance_delay_ms=1_000)
    calls = [world.join(protocols=wishes) for wishes in (PREFERS_A, PREFERS_B, PREFERS_B)]
    world.advance(3_000)
    assert {call.reply.protocol_name for call in calls} == {"b"}
    assert [member.metadata for member in calls[0].reply.members] == [b"2", b"3", b"3"]
    assert calls[1].reply.members == [], "only the leader assigns"


def test_a_protocol_that_one_member_lacks_is_no_candidate() -> None:
    world = World(initial_rebalance_delay_ms=1_000)
    calls = [world.join(protocols=wishes) for wishes in (PREFERS_B, PREFERS_B, (("a", b""),))]
    world.advance(3_000)
    assert {call.reply.protocol_name for call in calls} == {"a"}


# --- the first rebalance waits for company ---


def test_a_new_group_waits_for_more_members() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    first = world.join()
    world.advance(2_999)
    assert first.is_waiting
    world.advance(1)
    assert first.reply.generation_id == 1


def test_each_newcomer_puts_the_first_rebalance_off_until_the_rebalance_timeout() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    first = world.join(rebalance_timeout_ms=7_000)
    for _ in range(3):
        world.advance(2_000)
        world.join(rebalance_timeout_ms=7_000)
    assert first.is_waiting
    world.advance(10_000)
    assert len(first.reply.members) == 4
    assert first.reply.generation_id == 1


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    assert not World(initial_rebalance_delay_ms=0).join().is_waiting


# --- late and repeated joins ---


def test_the_second_member_waits_until_the_first_has_joined_again() -> None:
    world = World()
    (leader,) = world.stable(None)
    second = world.join()
    assert second.is_waiting
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = world.join(leader)
    assert rejoined.reply.generation_id == second.reply.generation_id == 2
    assert len(rejoined.reply.members) == 2


def test_who_does_not_join_in_time_is_left_behind() -> None:
    """The join phase is forced to an end by the rebalance timeout, and only those who came are answered."""
    world = World()
    (slow,) = world.stable(None, session_timeout_ms=60_000)
    second = world.join()
    world.advance(REBALANCE_MS - 1)
    assert second.is_waiting
    world.advance(1)
    assert second.reply.leader == second.reply.member_id
    assert world.heartbeat(slow, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_missed_the_answer_to_its_join_gets_it_again() -> None:
    """In CompletingRebalance with nothing changed it gets the same response once more."""
    world = World(initial_rebalance_delay_ms=10)
    leader, follower = world.join(), world.join()
    world.advance(100)
    again = world.join(follower.reply.member_id)
    assert again.reply == follower.reply
    assert world.join(leader.reply.member_id).reply == leader.reply
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_follower_that_missed_a_whole_generation_hears_of_it_in_stable() -> None:
    world = World()
    leader, follower = world.stable(None, None)
    again = world.join(follower)
    assert (again.reply.generation_id, again.reply.leader) == (2, leader)
    assert again.reply.members == []
    assert world.sync(follower, 2).reply.assignment == f"part of {follower}".encode()
    assert world.group.state is GroupState.STABLE


def test_a_leader_that_joins_a_stable_group_wants_a_rebalance() -> None:
    """It saw topics change; its own metadata need not show that."""
    world = World()
    leader, follower = world.stable(None, None)
    call = world.join(leader)
    assert call.is_waiting
    world.join(follower)
    assert call.reply.generation_id == 3


@pytest.mark.parametrize("is_stable", [True, False])
def test_a_member_that_changed_its_wishes_causes_a_rebalance(is_stable: bool) -> None:
    world = World()
    leader, follower = world.stable(None, None)
    if not is_stable:
        world.join(leader), world.join(follower)
    changed = world.join(follower, protocols=(("range", b"other"),))
    assert changed.is_waiting
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.join(leader)
    assert changed.code is ErrorCode.NONE


def test_a_repeated_join_takes_the_place_of_the_one_that_waits() -> None:
    """Its first connection broke; the request there is answered with an error that is retried."""
    world = World()
    leader, follower = world.stable(None, None)
    first = world.join(follower, protocols=(("range", b"other"),))
    second = world.join(follower, protocols=(("range", b"other"),))
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting
    world.join(leader)
    assert second.code is ErrorCode.NONE


def test_a_new_member_that_vanished_is_put_out_after_five_minutes() -> None:
    """It sends no heartbeats while it waits in JoinGroup, so its session cannot tell."""
    world = World(max_session_timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 10)
    timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS * 2
    world.stable(None, session_timeout_ms=timeout_ms, rebalance_timeout_ms=timeout_ms)
    waiting = world.join(session_timeout_ms=timeout_ms, rebalance_timeout_ms=timeout_ms)
    world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.group.members) == 1


# --- size ---


def test_a_group_is_not_larger_than_allowed() -> None:
    world = World(max_size=2)
    first, second = world.stable(None, None)
    assert world.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(first, 2) is ErrorCode.NONE
    rejoined = world.join(first), world.join(second, protocols=(("range", b"other"),))
    assert all(call.code is ErrorCode.NONE for call in rejoined)


def test_while_members_join_those_who_come_last_find_no_room() -> None:
    world = World(max_size=2)
    first, second = world.stable(None, None)
    world.join(first), world.join(second, protocols=(("range", b"other"),))
    assert world.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_loaded_beyond_a_lowered_limit_sheds_its_last_comers() -> None:
    world = World()
    ids = world.stable(None, None, None)
    world.settings = type(world.settings)(initial_rebalance_delay_ms=0, max_size=2)
    world.restart()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    calls = [world.join(member) for member in ids]
    assert calls[2].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(calls[0].reply.members) == 2
