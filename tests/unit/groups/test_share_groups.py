"""Share groups: members, their assignments, and the partitions whose state is there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.unit.groups.consumer_world import ConsumerWorld, topic_id, topic_name
from tests.unit.groups.world import Call
from tidelog.groups import Joiner
from tidelog.groups.share.assignor import assign_simple
from tidelog.groups.share.group import ShareGroup, StateTopic
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP = "work"


class ShareMember:
    """A member as a client library has it."""

    def __init__(self, world: ConsumerWorld, member_id: str, topics: Iterable[str] = ("t",)) -> None:
        self.world = world
        self.member_id = member_id
        self.topics: list[str] | None = list(topics)
        self.epoch = 0
        self.assigned: dict[str, list[int]] | None = None
        self.code = ErrorCode.NONE

    def beat(self, *, epoch: int | None = None) -> ShareMember:
        """Initialize what is missing, as the edge does, then send a heartbeat."""
        epoch = self.epoch if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if epoch == 0 else None,
        )
        runtime = self.world.runtime
        call = Call()
        try:
            _, missing = self.world.shard.shares.missing_states(request)
        except ApiError as error:
            self.code = error.code
            return self
        if missing:
            runtime.execute(0, lambda shard, now_ms: shard.shares.initialized(GROUP, missing, now_ms), Call())
        runtime.execute(0, lambda shard, now_ms: shard.share_heartbeat(request, "client", "/127.0.0.1", now_ms), call)
        self.code = call.code
        if self.code is ErrorCode.NONE:
            self.epoch = call.reply.member_epoch
            if call.reply.assignment is not None:
                self.assigned = {
                    topic_name(entry.topic_id): entry.partitions for entry in call.reply.assignment.topic_partitions
                }
        return self


def group_of(world: ConsumerWorld) -> ShareGroup:
    return world.shard.shares.known(GROUP)


def test_the_first_member_gets_every_partition_with_its_first_heartbeat() -> None:
    member = ShareMember(ConsumerWorld(), "a", ["t", "u"]).beat()
    assert member.assigned == {"t": [0, 1, 2, 3, 4, 5], "u": [0, 1]}
    assert group_of(member.world).state_name == "Stable"


def test_members_divide_the_partitions_and_follow_with_their_next_heartbeats() -> None:
    world = ConsumerWorld()
    first, second = ShareMember(world, "a").beat(), ShareMember(world, "b").beat()
    assert second.assigned == {"t": [1, 3, 5]}
    assert first.beat().assigned == {"t": [0, 2, 4]}
    assert first.epoch == second.epoch == group_of(world).epoch


def test_more_members_than_partitions_share_them() -> None:
    world = ConsumerWorld()
    members = [ShareMember(world, name, ["u"]).beat() for name in "abcde"]
    for member in members:
        member.beat()
    assert [member.assigned for member in members] == [{"u": [index % 2]} for index in range(5)]


def test_a_partition_without_stored_state_is_not_assigned() -> None:
    assert assign_simple({"a": frozenset({b"t"})}, {}) == {"a": {}}
    world = ConsumerWorld()
    member = ShareMember(world, "a").beat()
    world.topics.put("t", 8)
    assert world.shard.shares.missing_states(
        ShareGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=member.epoch)
    )[1] == {topic_id("t"): StateTopic("t", frozenset({6, 7}))}
    assert member.beat().assigned == {"t": list(range(8))}


def test_a_member_that_leaves_or_times_out_gives_its_partitions_to_the_others() -> None:
    world = ConsumerWorld()
    first, second = ShareMember(world, "a").beat(), ShareMember(world, "b").beat()
    second.beat(epoch=-1)
    assert second.epoch == -1
    assert first.beat().assigned == {"t": [0, 1, 2, 3, 4, 5]}
    world.advance(44_000)
    assert group_of(world).members
    world.advance(2_000)
    assert not group_of(world).members
    assert first.beat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_the_same_after_a_restart() -> None:
    world = ConsumerWorld()
    first, second = ShareMember(world, "a").beat(), ShareMember(world, "b").beat()
    first.beat()
    before = group_of(world)
    world.restart()
    after = group_of(world)
    assert after is not before
    for name in ("epoch", "assignment_epoch", "members", "target", "initialized"):
        assert getattr(after, name) == getattr(before, name), name
    epochs = first.epoch, second.epoch
    assert (first.beat().epoch, second.beat().epoch) == epochs


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ShareGroupHeartbeatRequest(group_id=GROUP, member_id="", subscribed_topic_names=["t"]), "INVALID_REQUEST"),
        (ShareGroupHeartbeatRequest(group_id=GROUP, member_id="a"), "INVALID_REQUEST"),
        (ShareGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=-2), "INVALID_REQUEST"),
        (ShareGroupHeartbeatRequest(group_id="other", member_id="a", member_epoch=3), "GROUP_ID_NOT_FOUND"),
        (ShareGroupHeartbeatRequest(group_id=GROUP, member_id="b", member_epoch=3), "UNKNOWN_MEMBER_ID"),
        (ShareGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=99), "FENCED_MEMBER_EPOCH"),
    ],
)
def test_a_heartbeat_that_is_not_the_member_s_is_refused(request_: ShareGroupHeartbeatRequest, code: str) -> None:
    world = ConsumerWorld()
    ShareMember(world, "a").beat()
    call = Call()
    world.runtime.execute(0, lambda shard, now_ms: shard.share_heartbeat(request_, "c", "/h", now_ms), call)
    assert call.code is ErrorCode[code]


def test_a_name_belongs_to_one_kind_of_group() -> None:
    world = ConsumerWorld()
    ShareMember(world, "a").beat()
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert world.send(consumer).code is ErrorCode.GROUP_ID_NOT_FOUND
    joining = Call()
    classic = JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer")
    joiner = Joiner("client", "/h", False)
    world.runtime.execute(0, lambda shard, now_ms: shard.join(classic, joiner, joining, now_ms), joining)
    assert joining.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_only_a_group_without_members_is_reset_or_deleted() -> None:
    world = ConsumerWorld()
    member = ShareMember(world, "a").beat()
    refused = Call()
    world.runtime.execute(0, lambda shard, now_ms: shard.shares.begin_epoch(GROUP, now_ms), refused)
    assert refused.code is ErrorCode.NON_EMPTY_GROUP
    member.beat(epoch=-1)
    epoch = group_of(world).epoch
    begun = Call()
    world.runtime.execute(0, lambda shard, now_ms: shard.shares.begin_epoch(GROUP, now_ms), begun)
    assert begun.reply == epoch + 1
    world.runtime.execute(0, lambda shard, _now_ms: shard.shares.delete(GROUP), Call())
    world.restart()
    assert world.shard.shares.get(GROUP) is None


def test_the_state_of_a_deleted_topic_is_forgotten() -> None:
    world = ConsumerWorld()
    ShareMember(world, "a", ["t", "u"]).beat()
    world.runtime.execute(0, lambda shard, now_ms: shard.forget_topics({"t"}, now_ms), None)
    assert set(group_of(world).initialized) == {topic_id("u")}
