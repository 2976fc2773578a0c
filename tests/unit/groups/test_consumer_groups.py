"""Consumer groups (KIP-848): the broker assigns, and members move to their targets one heartbeat at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.unit.groups.consumer_world import REBALANCE_MS, Client, ConsumerWorld, settle
from tests.unit.groups.world import GROUP, Call
from tidelog.groups import Committer, ConsumerTimeouts, Joiner
from tidelog.groups.consumer.group import MemberState
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

ALL = {("t", partition) for partition in range(6)}


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def test_the_first_member_has_everything_with_its_first_heartbeat(world: ConsumerWorld) -> None:
    client = Client(world).join()
    assert (client.code, client.epoch, client.owned) == (ErrorCode.NONE, 1, ALL)
    assert world.group.state_name == "Stable"


def test_a_second_member_gets_what_the_first_has_given_up_and_not_before(world: ConsumerWorld) -> None:
    first = Client(world).join()
    second = Client(world).join()
    assert second.owned == set()
    assert world.group.state_name == "Reconciling"
    first.beat()
    assert len(first.owned) == 3
    assert first.epoch == 1, "it keeps its epoch until it has said that it gave them up"
    assert second.beat().owned == set()
    first.beat()
    assert first.epoch == 2
    assert second.beat().owned == ALL - first.owned
    assert world.group.state_name == "Stable"


def test_a_member_whose_assignment_stays_is_not_disturbed(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world).join()
    settle(first, second)
    held = set(first.owned)
    third = Client(world).join()
    settle(first, second, third)
    assert {len(client.owned) for client in (first, second, third)} == {2}
    assert first.owned < held
    assert first.owned | second.owned | third.owned == ALL


def test_a_member_that_leaves_makes_room_at_once(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world).join()
    settle(first, second)
    assert second.leave() is ErrorCode.NONE
    settle(first)
    assert first.owned == ALL
    assert second.beat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_put_out_after_the_session_timeout(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world).join()
    settle(first, second)
    world.advance(world.settings.consumer_timeouts.session_ms // 2)
    first.beat()
    world.advance(world.settings.consumer_timeouts.session_ms // 2)
    settle(first)
    assert first.owned == ALL


def test_a_member_that_does_not_give_up_its_partitions_is_put_out(world: ConsumerWorld) -> None:
    stubborn = Client(world).join()
    second = Client(world).join()
    stubborn.beat()
    assert world.group.members[stubborn.member_id].state is MemberState.UNREVOKED_PARTITIONS
    stubborn.owned = set(ALL)
    for _ in range(3):
        world.advance(REBALANCE_MS // 3)
        second.beat()
        if stubborn.member_id in world.group.members:
            stubborn.owned = set(ALL)
            stubborn.beat(says_owned=False)
    assert stubborn.member_id not in world.group.members
    settle(second)
    assert second.owned == ALL


def test_a_heartbeat_that_says_nothing_new_is_answered_with_nothing_new(world: ConsumerWorld) -> None:
    client = Client(world).join()
    before = len(world.log.batches)
    reply = world.send(
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=client.member_id, member_epoch=client.epoch)
    ).reply
    assert reply.assignment is None
    assert len(world.log.batches) == before


def test_a_member_that_sends_every_field_gets_every_field(world: ConsumerWorld) -> None:
    client = Client(world).join()
    client.owned = set()
    client.beat(is_full=True)
    assert client.owned == ALL


def test_a_member_may_be_one_epoch_behind_if_an_answer_was_lost(world: ConsumerWorld) -> None:
    first = Client(world).join()
    second = Client(world).join()
    settle(first, second)
    first.epoch = 1
    assert first.beat().code is ErrorCode.NONE
    first.epoch = 1
    first.owned = set(ALL)
    assert first.beat().code is ErrorCode.FENCED_MEMBER_EPOCH, "what it says it has is not its any more"
    first.epoch = 99
    assert first.beat().code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_joins_again_only_if_the_first_answer_was_lost(world: ConsumerWorld) -> None:
    first = Client(world).join()
    assert first.join().code is ErrorCode.NONE
    assert (first.epoch, first.owned) == (1, ALL)
    second = Client(world).join()
    settle(first, second)
    assert first.join().code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_changed_subscription_moves_only_its_member(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world).join()
    settle(first, second)
    first.subscribe("t", "u")
    settle(first, second)
    assert {("u", 0), ("u", 1)} <= first.owned
    assert first.owned | second.owned == ALL | {("u", 0), ("u", 1)}
    assert {len(first.owned), len(second.owned)} == {4}


def test_new_partitions_and_deleted_topics_are_noticed(world: ConsumerWorld) -> None:
    client = Client(world, ("t", "u", "later")).join()
    assert len(client.owned) == 8
    world.topics.put("later", 1)
    world.topics.put("u", 4)
    settle(client)
    assert len(client.owned) == 11
    world.topics.remove("t")
    settle(client)
    assert {name for name, _ in client.owned} == {"u", "later"}


def test_a_pattern_matches_topics_that_come_later(world: ConsumerWorld) -> None:
    client = Client(world, (), regex="[tv].*").join()
    assert {name for name, _ in client.owned} == {"t"}
    world.topics.put("vvv", 1)
    settle(client)
    assert ("vvv", 0) in client.owned


class Reader(Client):
    """A member of a user who may describe some topics."""

    def __init__(self, world: ConsumerWorld, *allowed: str) -> None:
        super().__init__(Limited(world, {*allowed}), (), regex=".*")  # type: ignore[arg-type]


class Limited:
    """The way of one user to the coordinator."""

    def __init__(self, world: ConsumerWorld, allowed: set[str]) -> None:
        self.world = world
        self.topic_filter = Allowed(frozenset(allowed))

    def send(self, request: ConsumerGroupHeartbeatRequest) -> Call:
        return self.world.send(request, topic_filter=self.topic_filter)


class Allowed(NamedTuple):
    topics: frozenset[str]

    def allows(self, topic: str) -> bool:
        return topic in self.topics


def test_a_pattern_matches_only_what_its_member_may_describe(world: ConsumerWorld) -> None:
    stranger = Reader(world).join()
    assert (stranger.code, stranger.owned) == (ErrorCode.NONE, set())
    first, second = Reader(world, "t").join(), Reader(world, "u").join()
    settle(stranger, first, second)
    assert {name for name, _ in first.owned} == {"t"}
    assert {name for name, _ in second.owned} == {"u"}
    assert stranger.owned == set()


def test_a_pattern_follows_the_rights_of_its_member(world: ConsumerWorld) -> None:
    reader = Reader(world, "t").join()
    reader.world.topic_filter = Allowed(frozenset({"u"}))  # type: ignore[union-attr]
    settle(reader)
    assert {name for name, _ in reader.owned} == {"u"}


def test_after_a_load_patterns_match_what_the_group_reads_until_their_members_return(world: ConsumerWorld) -> None:
    first, second = Reader(world, "t").join(), Reader(world, "u").join()
    settle(first, second)
    world.restart()
    world.topics.put("secret", 3)
    settle(first, second)
    assert {name for name, _ in first.owned} == {"t"}
    assert {name for name, _ in second.owned} == {"u"}


def test_a_load_does_not_rebalance_a_group_whose_members_see_the_same(world: ConsumerWorld) -> None:
    clients = [Client(world, (), regex=".*").join() for _ in range(3)]
    settle(*clients)
    world.restart()
    epoch = world.group.epoch
    settle(*clients)
    assert world.group.epoch == epoch


def test_a_topic_that_comes_later_reaches_all_patterns_in_one_rebalance(world: ConsumerWorld) -> None:
    clients = [Client(world, (), regex=".*").join() for _ in range(3)]
    settle(*clients)
    epoch = world.group.epoch
    world.topics.put("later", 6)
    settle(*clients)
    assert world.group.epoch == epoch + 1
    assert all(("later" in {name for name, _ in client.owned}) for client in clients)


def test_members_choose_the_assignor(world: ConsumerWorld) -> None:
    first, second = Client(world, assignor="range").join(), Client(world, assignor="range").join()
    settle(first, second)
    assert {frozenset(client.owned) for client in (first, second)} == {
        frozenset({("t", 0), ("t", 1), ("t", 2)}),
        frozenset({("t", 3), ("t", 4), ("t", 5)}),
    }
    assert world.shard.describe_consumer_group(GROUP).assignor_name == "range"
    assert Client(world, assignor="mine").join().code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_groups_survive_a_restart_of_their_coordinator(world: ConsumerWorld) -> None:
    first = Client(world).join()
    second = Client(world, instance_id="i").join()
    first.beat()
    world.restart()
    assert world.group.epoch == 2
    settle(first, second)
    assert first.owned | second.owned == ALL
    world.advance(world.settings.consumer_timeouts.session_ms)
    assert world.group.members == {}, "who does not come back is put out"


def test_a_group_is_full_at_some_point() -> None:
    world = ConsumerWorld(consumer_max_size=1)
    first = Client(world).join()
    assert Client(world).join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.beat().code is ErrorCode.NONE


# --- static members ---


def test_a_static_member_that_left_for_now_finds_its_partitions_again(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world, instance_id="i").join()
    settle(first, second)
    held, epoch = set(second.owned), world.group.epoch
    assert second.leave(-2) is ErrorCode.NONE
    settle(first)
    back = Client(world, instance_id="i").join()
    assert back.owned == held
    assert back.member_id != second.member_id
    assert world.group.epoch == epoch, "no other member had to move"
    world.restart()
    settle(first, back)
    assert back.owned == held


def test_a_late_heartbeat_does_not_bring_back_a_static_member_that_left(world: ConsumerWorld) -> None:
    member = Client(world, instance_id="i").join()
    epoch = member.epoch
    member.leave(-2)
    assert member.beat().code is ErrorCode.FENCED_MEMBER_EPOCH
    assert member.join().code is ErrorCode.NONE
    assert (member.epoch, member.owned) == (epoch, ALL)


def test_an_instance_id_in_use_is_not_given_away(world: ConsumerWorld) -> None:
    first = Client(world, instance_id="i").join()
    assert Client(world, instance_id="i").join().code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.join().code is ErrorCode.UNRELEASED_INSTANCE_ID, "not even to its own member"
    first.epoch, first.owned = 1, set(ALL)
    stranger = Client(world, instance_id="i")
    stranger.member_id, stranger.epoch = "x", 1
    assert stranger.beat().code is ErrorCode.FENCED_INSTANCE_ID
    assert stranger.leave(-2) is ErrorCode.FENCED_INSTANCE_ID
    assert first.beat().code is ErrorCode.NONE


def test_a_static_member_that_does_not_come_back_is_put_out(world: ConsumerWorld) -> None:
    first, second = Client(world).join(), Client(world, instance_id="i").join()
    settle(first, second)
    second.leave(-2)
    for _ in range(2):
        world.advance(world.settings.consumer_timeouts.session_ms // 2)
        first.beat()
    settle(first)
    assert first.owned == ALL


# --- what cannot be ---


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"topic_partitions": None},
        {"topic_partitions": [TopicPartitions()]},
        {"member_epoch": -3},
        {"member_epoch": 1},
        {"member_epoch": -1},
        {"member_epoch": -2, "member_id": "m"},
    ],
    ids=str,
)
def test_a_heartbeat_that_makes_no_sense_is_refused(world: ConsumerWorld, fields: dict[str, object]) -> None:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    assert world.send(ConsumerGroupHeartbeatRequest(**values)).code is ErrorCode.INVALID_REQUEST
    assert world.log.batches == []


def test_a_pattern_that_is_none_is_refused_with_its_own_code(world: ConsumerWorld) -> None:
    """Fails on 4724f6e, which answered INVALID_REQUEST."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1000, subscribed_topic_regex="([", topic_partitions=[]
    )
    assert world.send(request).code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.log.batches == []


def test_from_version_1_members_bring_their_ids(world: ConsumerWorld) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert world.send(request, gives_own_id=True).code is ErrorCode.INVALID_REQUEST
    request.member_id = "mine"
    assert world.send(request, gives_own_id=True).reply.member_id == "mine"


def test_from_version_1_members_may_be_subscribed_to_nothing(world: ConsumerWorld) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=[], topic_partitions=[]
    )
    assert world.send(request, gives_own_id=True).code is ErrorCode.NONE


def test_a_heartbeat_for_no_group_or_from_a_stranger_is_refused(world: ConsumerWorld) -> None:
    stranger = Client(world)
    stranger.member_id, stranger.epoch = "x", 1
    assert stranger.beat().code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.leave() is ErrorCode.GROUP_ID_NOT_FOUND
    Client(world).join()
    assert stranger.beat().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() is ErrorCode.UNKNOWN_MEMBER_ID


# --- offsets, and the classic protocol ---


def commit(world: ConsumerWorld, member_id: str = "", epoch: int = -1) -> ErrorCode:
    topics = [("t", [(0, 7, -1, None, -1)])]
    outcomes: list[object] = []
    world.runtime.execute(
        0,
        lambda shard, now_ms: shard.commit_offsets(GROUP, Committer(epoch, member_id), topics, lambda _: 100, now_ms),
        outcomes.append,
    )
    (outcome,) = outcomes
    return outcome.code if isinstance(outcome, ApiError) else outcome[0][1][0][1]  # type: ignore[index]


def test_a_member_commits_in_its_epoch(world: ConsumerWorld) -> None:
    client = Client(world).join()
    assert commit(world, client.member_id, client.epoch) is ErrorCode.NONE
    assert commit(world, client.member_id, 99) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world) is ErrorCode.UNKNOWN_MEMBER_ID
    client.leave()
    assert commit(world) is ErrorCode.NONE


def test_a_member_fetches_in_its_epoch_and_others_at_any_time(world: ConsumerWorld) -> None:
    client = Client(world).join()
    assert world.shard.fetch_offsets(GROUP, None, False) == {}
    assert world.shard.fetch_offsets(GROUP, None, False, Committer(client.epoch, client.member_id)) == {}
    for reader, code in (
        (Committer(99, client.member_id), ErrorCode.STALE_MEMBER_EPOCH),
        (Committer(1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as caught:
            world.shard.fetch_offsets(GROUP, None, False, reader)
        assert caught.value.code is code


def test_a_group_without_members_is_deleted_and_one_with_members_is_not(world: ConsumerWorld) -> None:
    client = Client(world).join()
    commit(world, client.member_id, client.epoch)
    with pytest.raises(ApiError) as caught:
        world.shard.delete_group(GROUP, lambda _: None, 0)
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    client.leave()
    world.runtime.execute(0, lambda shard, now_ms: shard.delete_group(GROUP, lambda _: None, now_ms), None)
    assert world.shard.group(GROUP) is None
    world.restart()
    assert world.shard.group(GROUP) is None


def join_classic(world: ConsumerWorld) -> ErrorCode:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    outcomes: list[object] = []
    respond = outcomes.append
    world.runtime.execute(0, lambda shard, now_ms: shard.join(request, Joiner("c", "/h"), respond, now_ms), respond)
    world.advance(3_000)
    return ErrorCode(outcomes[0].error_code)  # type: ignore[attr-defined]


def test_an_empty_group_changes_hands_from_one_protocol_to_the_other(world: ConsumerWorld) -> None:
    client = Client(world).join()
    commit(world, client.member_id, client.epoch)
    client.leave()
    assert join_classic(world) is ErrorCode.NONE
    assert Client(world).join().code is ErrorCode.GROUP_ID_NOT_FOUND
    world.advance(60_000)
    assert Client(world).join().code is ErrorCode.NONE
    found = world.shard.fetch_offsets(GROUP, [("t", [0])], False)["t"][0].committed
    assert found is not None
    assert found.offset == 7, "offsets stay, with any members"
    world.restart()
    assert world.group.state_name == "Stable"


def test_a_describe_shows_targets_and_what_members_have(world: ConsumerWorld) -> None:
    first = Client(world).join()
    Client(world, instance_id="i").join()
    described = world.shard.describe_consumer_group(GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    members = {member.member_id: member for member in described.members}
    (has,) = members[first.member_id].assignment.topic_partitions
    (target,) = members[first.member_id].target_assignment.topic_partitions
    assert (has.topic_name, len(has.partitions), len(target.partitions)) == ("t", 6, 3)
    assert world.shard.describe(GROUP).group_state == "Dead", "it is none of the classic protocol"
    with pytest.raises(ApiError) as failure:
        world.shard.describe_consumer_group("none")
    assert failure.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_groups_own_timeouts_hold_from_the_next_heartbeat_on(world: ConsumerWorld) -> None:
    client = Client(world).join()
    assert client.interval_ms == 5_000
    world.timeouts[GROUP] = ConsumerTimeouts(50_000, 7_000)
    client.beat()
    assert client.interval_ms == 7_000
    world.advance(49_999)
    assert client.beat().code is ErrorCode.NONE
    world.timeouts[GROUP] = ConsumerTimeouts(20_000, 7_000)
    world.restart()
    world.advance(20_000)
    assert client.beat().code is ErrorCode.UNKNOWN_MEMBER_ID, "after a load the timers are those of now"
