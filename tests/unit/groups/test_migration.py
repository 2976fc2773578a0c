"""Classic and consumer members in one group: how it changes its protocol, and how each is answered meanwhile."""

from __future__ import annotations

import pytest

from tests.unit.groups.consumer_world import Client, topic_id
from tests.unit.groups.mixed_world import COOPERATIVE, EAGER, ClassicClient, MixedWorld, group_of, settle_all
from tests.unit.groups.world import GROUP, RANGE, REBALANCE_MS, SESSION_MS
from tidelog.groups import Committer
from tidelog.groups.classic.states import GroupState
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.group import MemberState
from tidelog.groups.schemas import group_key
from tidelog.wire.errors import ApiError, ErrorCode

ALL = {("t", partition) for partition in range(6)}
STYLES = [(EAGER,), (COOPERATIVE,)]


@pytest.fixture
def world() -> MixedWorld:
    return MixedWorld()


def held(*clients: Client | ClassicClient) -> list[tuple[str, int]]:
    return sorted(partition for client in clients for partition in client.owned)


# --- upgrade ---


@pytest.mark.parametrize("style", STYLES)
def test_a_consumer_joins_a_classic_group_and_they_share(world: MixedWorld, style: tuple[str, ...]) -> None:
    classic = ClassicClient(world, protocols=style)
    group_of(classic)
    assert classic.owned == ALL
    consumer = Client(world).join()
    assert world.kind == "consumer"
    assert consumer.owned == set(), "nothing is free before the classic member has given it up"
    settle_all(classic, consumer)
    assert (len(classic.owned), len(consumer.owned)) == (3, 3)
    assert held(classic, consumer) == sorted(ALL)
    assert world.consumer.state_name == "Stable"


def test_a_classic_member_hears_of_the_upgrade_with_its_next_heartbeat(world: MixedWorld) -> None:
    classic = ClassicClient(world)
    group_of(classic)
    Client(world).join()
    assert world.heartbeat(classic.member_id, classic.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(classic.member_id, classic.generation).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_keeps_what_it_had_until_it_joins_again(world: MixedWorld) -> None:
    first, second = ClassicClient(world), ClassicClient(world)
    group_of(first, second)
    before = {client.member_id: set(client.owned) for client in (first, second)}
    Client(world).join()
    for member_id, partitions in before.items():
        member = world.consumer.members[member_id]
        assert world.consumer.named(member.assigned) == {"t": frozenset(index for _, index in partitions)}
        assert (member.member_epoch, member.state) == (first.generation, MemberState.STABLE)
        assert member.classic is not None
        assert member.classic.session_timeout_ms == SESSION_MS


def test_a_cooperative_member_goes_on_reading_what_stays_its_own(world: MixedWorld) -> None:
    classic, consumer = ClassicClient(world, protocols=(COOPERATIVE,)), Client(world)
    group_of(classic)
    consumer.join()
    classic.beat().beat()
    assert world.consumer.members[classic.member_id].state is MemberState.UNREVOKED_PARTITIONS
    kept = set(classic.beat().owned)
    assert len(kept) == 3
    settle_all(classic, consumer)
    assert classic.owned == kept


def test_members_that_wait_in_a_rebalance_are_sent_to_join_again(world: MixedWorld) -> None:
    first = ClassicClient(world)
    group_of(first)
    waits = world.join()
    assert waits.is_waiting
    Client(world).join()
    assert waits.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join().code is ErrorCode.NONE, "in a consumer group no member waits for others"


def test_a_member_that_waits_for_its_assignment_is_sent_to_join_again(world: MixedWorld) -> None:
    leader = ClassicClient(world)
    group_of(leader)
    follower = world.join()
    world.join(leader.member_id, protocols=RANGE)
    waits = world.sync(follower.reply.member_id, follower.reply.generation_id)
    assert waits.is_waiting
    Client(world).join()
    assert waits.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_is_stored_too_late_changes_nothing(world: MixedWorld) -> None:
    """The leader's assignment is under way when a consumer makes another kind of group of it."""
    join = world.join()
    world.log.is_slow = True
    world.sync(join.reply.member_id, join.reply.generation_id, {join.reply.member_id: b""})
    world.send(Client(world).full())
    world.log.commit()
    assert world.kind == "consumer"
    assert world.group.state is GroupState.EMPTY


def test_partitions_of_a_failed_rebalance_stay_with_the_cooperative_member_that_reads_them(world: MixedWorld) -> None:
    """The coordinator forgets assignments when a rebalance starts over; the member says what it has when it joins."""
    classic = ClassicClient(world, protocols=(COOPERATIVE,))
    group_of(classic)
    world.join(protocols=[(COOPERATIVE, ClassicClient(world).metadata())])
    classic.beat()
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    world.join(protocols=[(COOPERATIVE, ClassicClient(world).metadata())])
    assert world.group.members[classic.member_id].assignment == b""
    assert Client(world).join().owned == set()
    assert len(world.consumer.owners) == 6


@pytest.mark.parametrize("policy", [{"can_upgrade": False}, {"can_upgrade": False, "can_downgrade": False}])
def test_without_leave_to_upgrade_a_classic_group_is_no_consumer_group(policy: dict[str, int]) -> None:
    world = MixedWorld(**policy)
    group_of(ClassicClient(world))
    assert Client(world).join().code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.kind == "classic"


def test_only_groups_of_consumers_are_upgraded(world: MixedWorld) -> None:
    world.stable(None, protocol_type="connect")
    assert Client(world).join().code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_members_cannot_be_read_is_not_upgraded(world: MixedWorld) -> None:
    world.stable(None, protocols=(("range", b"no subscription"),))
    assert Client(world).join().code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.group.state is GroupState.STABLE


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    world = MixedWorld(consumer_max_size=1)
    group_of(ClassicClient(world), ClassicClient(world))
    assert Client(world).join().code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_consumer_that_finds_no_room_leaves_the_group_as_it_was() -> None:
    world = MixedWorld(consumer_max_size=2)
    group_of(ClassicClient(world))
    waits = world.join()
    assert Client(world).join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert waits.is_waiting
    assert world.kind == "classic"


def test_a_heartbeat_that_does_not_join_upgrades_nothing(world: MixedWorld) -> None:
    group_of(ClassicClient(world))
    stranger = Client(world)
    stranger.member_id, stranger.epoch = "stranger", 3
    assert stranger.beat().code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.leave() is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_upgrade_that_the_log_refuses_leaves_a_classic_group_that_goes_on(world: MixedWorld) -> None:
    classic = ClassicClient(world)
    group_of(classic)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert Client(world).join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = None
    assert world.kind == "classic"
    settle_all(classic)
    assert classic.owned == ALL


# --- classic members of a consumer group ---


@pytest.mark.parametrize("style", STYLES)
def test_a_classic_member_joins_a_group_of_consumers(style: tuple[str, ...]) -> None:
    """Whatever the policy: it is about groups that change their protocol."""
    world = MixedWorld(can_upgrade=False, can_downgrade=False)
    consumer, classic = Client(world), ClassicClient(world, protocols=style, needs_member_id=True)
    group_of(consumer, classic)
    assert held(consumer, classic) == sorted(ALL)
    assert len(classic.owned) == 3


def test_a_classic_member_waits_for_what_a_consumer_has_not_given_up(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer)
    classic.join().beat().beat()
    assert classic.owned == set()
    assert classic.beat().code is ErrorCode.NONE, "there is nothing to be had by joining again"
    consumer.beat().beat()
    assert classic.beat().code is ErrorCode.REBALANCE_IN_PROGRESS
    settle_all(consumer, classic)
    assert held(consumer, classic) == sorted(ALL)


def test_a_join_is_answered_with_the_epoch_and_the_protocol_the_member_likes_best(world: MixedWorld) -> None:
    Client(world).join()
    metadata = ClassicClient(world).metadata()
    reply = world.join(protocols=[("roundrobin", metadata), ("range", metadata)]).reply
    assert (reply.generation_id, reply.protocol_type, reply.protocol_name) == (2, "consumer", "roundrobin")
    assert (reply.leader, reply.members) == ("", [])
    assert world.sync(reply.member_id, 2, protocol_type="consumer", protocol_name="roundrobin").code is ErrorCode.NONE
    for kind, name in (("consumer", "range"), ("connect", "roundrobin")):
        call = world.sync(reply.member_id, 2, protocol_type=kind, protocol_name=name)
        assert call.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_has_to_share_a_protocol_with_the_others(world: MixedWorld) -> None:
    """Once the consumers have gone, the classic members have to agree on one again."""
    Client(world).join()
    metadata = ClassicClient(world).metadata()
    assert world.join(protocols=[("range", metadata), ("sticky", metadata)]).code is ErrorCode.NONE
    assert world.join(protocols=[("roundrobin", metadata)]).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocols=[]).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocols=[("sticky", metadata)]).code is ErrorCode.NONE


def test_a_subscription_that_cannot_be_read_is_refused(world: MixedWorld) -> None:
    Client(world).join()
    assert world.join(protocols=[("range", b"\0")]).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(world.consumer.members) == 1


def test_a_dynamic_member_is_given_its_id_first(world: MixedWorld) -> None:
    Client(world).join()
    asked = world.join(needs_member_id=True)
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    assert len(world.consumer.members) == 1
    assert world.join(asked.reply.member_id, needs_member_id=True).code is ErrorCode.NONE


def test_a_full_group_takes_no_classic_member() -> None:
    world = MixedWorld(consumer_max_size=1)
    Client(world).join()
    assert world.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_unknown_member_or_another_generation_is_an_error(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    generation = classic.generation
    assert world.heartbeat("unknown", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(consumer.member_id, consumer.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(classic.member_id, generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(classic.member_id, generation, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("unknown", generation).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(classic.member_id, generation + 1).code is ErrorCode.ILLEGAL_GENERATION
    assert world.leave(("unknown", None), (consumer.member_id, None), ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


def test_members_commit_with_their_epoch_and_hear_of_a_wrong_one_in_their_own_words(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    assert world.commit(5, member_id=classic.member_id, generation=classic.generation) is ErrorCode.NONE
    assert world.commit(6, member_id=consumer.member_id, generation=consumer.epoch) is ErrorCode.NONE
    assert world.commit(7, member_id=classic.member_id, generation=99) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit(7, member_id=consumer.member_id, generation=99) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit(7) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == 6
    old = Committer(consumer.epoch, consumer.member_id, knows_epochs=False)
    call = world.execute(lambda shard, _, now_ms: shard.commit_offsets(GROUP, old, [], lambda _: 1, now_ms))
    assert call.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ApiError) as refused:
        world.shard.fetch_offsets(GROUP, None, False, Committer(99, classic.member_id))
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_classic_members_leave_together(world: MixedWorld) -> None:
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world, instance_id="i")
    group_of(consumer, one, two)
    epoch = world.consumer.epoch
    codes = world.leave((one.member_id, None), ("", "i"), (one.member_id, None))
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.consumer.epoch == epoch + 1
    settle_all(consumer)
    assert consumer.owned == ALL


def test_new_partitions_reach_classic_members_too(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    world.topics.put("t", 8)
    settle_all(consumer, classic)
    assert len(classic.owned) == len(consumer.owned) == 4


def test_a_describe_shows_which_members_are_classic(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    described = world.shard.describe_consumer_group(GROUP)
    kinds = {member.member_id: member.member_type for member in described.members}
    assert kinds == {consumer.member_id: 1, classic.member_id: 0}
    assert world.shard.describe(GROUP).group_state == "Dead"


# --- static members ---


def test_a_static_classic_member_comes_back_to_its_partitions(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world, instance_id="i")
    group_of(consumer, classic)
    epoch, old_id, had = world.consumer.epoch, classic.member_id, set(classic.owned)
    back = ClassicClient(world, instance_id="i").join().beat().beat()
    assert back.member_id != old_id
    assert back.owned == had
    assert world.consumer.epoch == epoch, "no other member has noticed"
    assert world.heartbeat(old_id, classic.generation, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(old_id, instance_id="i").code is ErrorCode.FENCED_INSTANCE_ID
    assert world.join("stranger", instance_id="new").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_does_not_take_the_place_of_a_static_classic_member(world: MixedWorld) -> None:
    group_of(ClassicClient(world, instance_id="i"))
    assert Client(world, instance_id="i").join().code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.kind == "classic"


def test_a_static_consumer_comes_back_as_a_classic_member(world: MixedWorld) -> None:
    first, second = Client(world), Client(world, instance_id="i")
    group_of(first, second)
    had = set(second.owned)
    second.leave(epoch=-2)
    back = ClassicClient(world, instance_id="i").join().beat().beat()
    assert back.owned == had


# --- time ---


def test_a_silent_classic_member_is_put_out_after_its_own_session_timeout(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world, session_timeout_ms=7_000)
    group_of(consumer, classic)
    world.advance(6_999)
    assert classic.member_id in world.consumer.members
    consumer.beat()
    world.advance(1)
    assert classic.member_id not in world.consumer.members


def test_a_classic_member_that_does_not_join_again_in_time_is_put_out(world: MixedWorld) -> None:
    classic, consumer = ClassicClient(world), Client(world)
    group_of(classic)
    consumer.join()
    for _ in range(REBALANCE_MS // 5_000):
        assert world.heartbeat(classic.member_id, classic.generation) is ErrorCode.REBALANCE_IN_PROGRESS
        consumer.beat()
        world.advance(5_000)
    assert classic.member_id not in world.consumer.members, "the time runs from the first answer, not from the last"
    settle_all(consumer)
    assert consumer.owned == ALL


def test_a_classic_member_that_does_not_ask_for_its_assignment_is_put_out(world: MixedWorld) -> None:
    consumer = Client(world).join()
    reply = world.join().reply
    for _ in range(REBALANCE_MS // 5_000):
        assert world.heartbeat(reply.member_id, reply.generation_id) in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )
        consumer.beat()
        world.advance(5_000)
    assert reply.member_id not in world.consumer.members


def test_a_member_that_does_both_in_time_stays(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    for _ in range(20):
        world.advance(5_000)
        consumer.beat(), classic.beat()
    assert len(world.consumer.members) == 2
    assert held(consumer, classic) == sorted(ALL)


# --- downgrade ---


@pytest.mark.parametrize("style", STYLES)
def test_the_last_consumer_leaves_and_the_classic_members_go_on(world: MixedWorld, style: tuple[str, ...]) -> None:
    consumer, one, two = Client(world), ClassicClient(world, protocols=style), ClassicClient(world, protocols=style)
    group_of(consumer, one, two)
    epoch = world.consumer.epoch
    assert consumer.leave() is ErrorCode.NONE
    assert world.kind == "classic"
    assert (world.group.state, world.group.generation) == (GroupState.PREPARING_REBALANCE, epoch)
    assert world.heartbeat(one.member_id, one.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(one.member_id, one.generation).code is ErrorCode.REBALANCE_IN_PROGRESS
    settle_all(one, two)
    assert held(one, two) == sorted(ALL)
    assert world.group.generation > epoch
    assert world.group.state is GroupState.STABLE


def test_a_member_id_that_was_given_out_before_an_upgrade_holds_up_no_rebalance_after_it(world: MixedWorld) -> None:
    """Its owner never joined with it, and the timer that would remove it fired while the group was a consumer group."""
    ClassicClient(world, needs_member_id=True).join()
    group_of(consumer := Client(world), classic := ClassicClient(world))
    consumer.leave()
    settle_all(classic)
    assert world.kind == "classic"
    assert len(classic.owned) == 6


def test_a_consumer_that_is_not_heard_of_any_more_is_the_last_one_too(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    world.advance(SESSION_MS - 1)
    classic.beat()
    world.advance(1)
    assert world.kind == "classic"
    settle_all(classic)
    assert classic.owned == ALL


def test_members_that_do_not_join_the_classic_group_again_are_left_behind(world: MixedWorld) -> None:
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world)
    group_of(consumer, one, two)
    consumer.leave()
    one.beat()
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(two.member_id, two.generation)
        world.advance(5_000)
    one.beat().beat().beat()
    assert list(world.group.members) == [one.member_id]
    assert one.owned == ALL


def test_a_member_that_is_behind_loses_its_generation(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    Client(world).join().leave()
    consumer.leave()
    assert world.kind == "classic"
    assert world.heartbeat(classic.member_id, classic.generation) is ErrorCode.ILLEGAL_GENERATION


def test_a_downgraded_group_knows_all_protocols_of_its_members(world: MixedWorld) -> None:
    """One that shares the second protocol only is welcome, also before everybody has joined again."""
    consumer, classic = Client(world), ClassicClient(world, protocols=(EAGER, "sticky"))
    group_of(consumer, classic)
    consumer.leave()
    assert world.join(protocols=[("sticky", classic.metadata())]).is_waiting
    settle_all(classic)
    assert world.group.protocol_name == "sticky"


def test_a_consumer_that_comes_right_after_a_downgrade_gets_nothing_that_is_still_read(world: MixedWorld) -> None:
    classic, consumer = ClassicClient(world), Client(world)
    group_of(classic)
    consumer.join().leave()
    assert world.kind == "classic"
    assert Client(world).join().owned == set(), "the classic member has heard of none of this and reads everything"


@pytest.mark.parametrize("settings", [{"can_downgrade": False}, {"max_size": 1}])
def test_a_group_that_may_not_be_downgraded_stays_a_consumer_group(settings: dict[str, int]) -> None:
    world = MixedWorld(**settings)
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world)
    group_of(consumer, one, two)
    consumer.leave()
    assert world.kind == "consumer"
    settle_all(one, two)
    assert held(one, two) == sorted(ALL)
    one.leave(), two.leave()
    assert world.group.is_empty


def test_a_downgrade_that_the_log_refuses_leaves_a_consumer_group(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world)
    group_of(consumer, classic)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert consumer.leave() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = None
    settle_all(consumer, classic)
    assert world.kind == "consumer"
    assert held(consumer, classic) == sorted(ALL)


def test_there_and_back_again_with_every_offset(world: MixedWorld) -> None:
    classic = ClassicClient(world)
    group_of(classic)
    assert world.commit(5, member_id=classic.member_id, generation=classic.generation) is ErrorCode.NONE
    for _ in range(3):
        consumer = Client(world)
        group_of(classic, consumer)
        consumer.leave()
        settle_all(classic)
        assert classic.owned == ALL
        assert world.committed() == 5
    world.restart()
    assert world.committed() == 5


# --- what is stored ---


def test_a_mixed_group_is_loaded_as_it_was(world: MixedWorld) -> None:
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world, protocols=(EAGER, "sticky"))
    group_of(one, two, consumer)
    before, joins = world.consumer, one.rejoins
    world.restart()
    after = world.consumer
    assert after is not before
    assert (after.members, after.target, after.owners) == (before.members, before.target, before.owners)
    assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)
    settle_all(consumer, one, two)
    assert one.rejoins == joins, "no member has to join again"


def test_sessions_of_loaded_classic_members_are_their_own(world: MixedWorld) -> None:
    consumer, classic = Client(world), ClassicClient(world, session_timeout_ms=7_000)
    group_of(consumer, classic)
    world.restart()
    world.advance(7_000)
    assert list(world.consumer.members) == [consumer.member_id]


def test_a_group_in_the_middle_of_an_upgrade_is_loaded_and_goes_on(world: MixedWorld) -> None:
    classic, consumer = ClassicClient(world, protocols=(COOPERATIVE,)), Client(world)
    group_of(classic)
    consumer.join()
    world.restart()
    settle_all(classic, consumer)
    assert held(classic, consumer) == sorted(ALL)


def test_a_downgraded_group_is_loaded_as_a_classic_one_that_rebalances(world: MixedWorld) -> None:
    """Its members are to share what the last consumer had, whether or not they have heard of it before."""
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world)
    group_of(consumer, one, two)
    consumer.leave()
    world.restart()
    assert (world.kind, world.group.state) == ("classic", GroupState.PREPARING_REBALANCE)
    assert set(world.group.members) == {one.member_id, two.member_id}
    settle_all(one, two)
    assert held(one, two) == sorted(ALL)
    world.restart()
    assert world.group.state is GroupState.STABLE, "the next generation is an ordinary one"


def test_members_of_a_loaded_group_that_do_not_join_in_time_are_left_behind(world: MixedWorld) -> None:
    consumer, one, two = Client(world), ClassicClient(world), ClassicClient(world)
    group_of(consumer, one, two)
    consumer.leave()
    world.restart()
    one.beat()
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(two.member_id, two.generation)
        world.advance(5_000)
    assert list(world.group.members) == [one.member_id]


def test_an_empty_consumer_group_that_becomes_classic_is_no_downgrade(world: MixedWorld) -> None:
    Client(world).join().leave()
    classic = ClassicClient(world)
    group_of(classic)
    world.restart()
    assert world.group.state is GroupState.STABLE
    settle_all(classic)
    assert classic.owned == ALL


def test_an_upgrade_removes_the_classic_group_and_a_downgrade_everything_of_the_other(world: MixedWorld) -> None:
    classic = ClassicClient(world)
    group_of(classic)
    consumer = Client(world).join()
    batch = len(world.log.batches)
    latest = dict(world.log.records())
    assert latest[group_key(GROUP)] is None
    consumer.leave()
    assert len(world.log.batches) == batch + 1, "one batch, so that a crash leaves one kind of group or the other"
    latest = dict(world.log.records())
    assert latest[group_key(GROUP)] is not None
    kinds = {schemas.read_key(key).kind for key, value in latest.items() if key and key[1] in schemas.KINDS}
    assert kinds == schemas.KINDS
    assert not [key for key, value in latest.items() if key and key[1] in schemas.KINDS and value is not None]


def test_what_kafka_stores_of_a_classic_member_is_read(world: MixedWorld) -> None:
    """Session timeout and protocols are a tagged field of the member's record."""
    classic = ClassicClient(world, protocols=(EAGER, "sticky"))
    group_of(classic)
    Client(world).join()
    key = schemas.record(schemas.MEMBER, GROUP, classic.member_id, None)[0]
    value = dict(world.log.records())[key]
    assert value is not None
    stored = schemas.read_value(schemas.MEMBER, value)
    assert isinstance(stored, schemas.MemberValue)
    assert stored.classic_member_metadata is not None
    assert stored.classic_member_metadata.session_timeout_ms == SESSION_MS
    assert [protocol.name for protocol in stored.classic_member_metadata.supported_protocols] == [EAGER, "sticky"]
    assert topic_id("t") in {entry for entry, _ in world.consumer.owners}
