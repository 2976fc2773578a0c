"""A member's way through rebalances, against a coordinator that answers by script."""

import asyncio
from typing import Any, cast

import pytest

from tests.unit import virtual_time
from tests.unit.client.consumer.clusters import metadata_with
from tests.unit.client.consumer.network import FakeNetwork
from tidelog.client.aio.consumer.coordinator import GroupCoordinator
from tidelog.client.aio.consumer.listeners import RebalanceListener, call_here
from tidelog.client.aio.consumer.membership import MemberState
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.partition_state import Position
from tidelog.client.aio.consumer.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.errors import ApiError
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Diary(RebalanceListener):
    def __init__(self):
        self.entries = []

    def on_assigned(self, partitions):
        self.entries.append(("assigned", list(partitions)))

    def on_revoked(self, partitions):
        self.entries.append(("revoked", list(partitions)))

    def on_lost(self, partitions):
        self.entries.append(("lost", list(partitions)))


class World:
    """A subscriber of topic t, and a coordinator that takes it in as a follower by default."""

    def __init__(self, strategy="range", **settings):
        settings = {"group_id": "g", "enable_auto_commit": False, "retry_backoff_ms": 1, **settings}
        self.settings = ConsumerSettings(partition_assignment_strategy=(strategy,), **settings)
        self.network = cast(Any, FakeNetwork(self.settings, metadata_with({"t": [(1, 0), (1, 0)]})))
        self.subscription = SubscriptionState(EARLIEST)
        self.diary = Diary()
        self.subscription.subscribe(["t"], self.diary)
        self.coordinator = GroupCoordinator(
            self.network,
            self.settings,
            self.subscription,
            self.subscription.consumed,
            lambda offsets: None,
            call_here,
            lambda: None,
        )
        self.assigns = (T0, T1)
        self.join_errors = []
        self.sync_errors = []
        self.heartbeat = ErrorCode.NONE
        self.leads = False
        self.others = {}
        self.generation = 0
        answers = self.network.answers
        answers[JoinGroupRequest] = self._join
        answers[SyncGroupRequest] = self._sync
        answers[HeartbeatRequest] = lambda request, node_id: HeartbeatResponse(error_code=self.heartbeat)
        answers[LeaveGroupRequest] = lambda request, node_id: LeaveGroupResponse()
        answers[OffsetCommitRequest] = lambda request, node_id: OffsetCommitResponse()
        self.strategy = strategy

    def _join(self, request, node_id):
        if self.join_errors:
            return JoinGroupResponse(error_code=self.join_errors.pop(0), member_id="given")
        self.generation += 1
        mine = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
        others = [
            JoinGroupResponseMember(member_id=name, metadata=encode_subscription(each))
            for name, each in self.others.items()
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            member_id="m",
            leader="m" if self.leads else "other",
            protocol_type="consumer",
            protocol_name=self.strategy,
            members=[mine, *others] if self.leads else [],
        )

    def _sync(self, request, node_id):
        if self.sync_errors:
            return SyncGroupResponse(error_code=self.sync_errors.pop(0))
        mine = {each.member_id: each.assignment for each in request.assignments}.get("m")
        assignment = mine if mine is not None else encode_assignment(Assignment(self.assigns))
        return SyncGroupResponse(assignment=assignment, protocol_name=self.strategy)

    def sent(self, kind):
        return [request for _, request in self.network.asked if isinstance(request, kind)]

    async def step_until(self, condition):
        async with asyncio.timeout(5):
            while not condition():
                await self.coordinator.step()
                await asyncio.sleep(0.001)

    async def join(self, generation=1):
        await self.step_until(lambda: self.generation >= generation and not self.coordinator.is_rebalancing)
        for state in self.subscription:
            state.seek(Position(10))

    async def end(self):
        self.coordinator.heartbeats.stop()
        await self.network.idle()


def run(world_settings, scenario):
    async def main():
        world = World(**world_settings)
        try:
            await scenario(world)
        finally:
            await world.end()

    virtual_time.run(main())


class TestJoining:
    def test_a_follower_takes_what_it_is_given(self):
        async def scenario(world):
            await world.join()
            assert set(world.subscription.partitions) == {T0, T1}
            assert world.diary.entries == [("assigned", [T0, T1])]
            assert [each.assignments for each in world.sent(SyncGroupRequest)] == [[]]

        run({}, scenario)

    def test_a_leader_decides_for_all(self):
        async def scenario(world):
            world.leads = True
            world.others = {"other": Subscription(("t",))}
            await world.join()
            (sync,) = world.sent(SyncGroupRequest)
            plan = {each.member_id: decode_assignment(each.assignment).partitions for each in sync.assignments}
            assert plan == {"m": (T0,), "other": (T1,)}
            assert set(world.subscription.partitions) == {T0}

        run({}, scenario)

    def test_the_id_that_is_given_is_used(self):
        async def scenario(world):
            world.join_errors = [ErrorCode.MEMBER_ID_REQUIRED]
            await world.join()
            assert [each.member_id for each in world.sent(JoinGroupRequest)] == ["", "given"]

        run({}, scenario)

    @pytest.mark.parametrize(
        "passing",
        [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ],
    )
    def test_what_passes_is_outlasted(self, passing):
        async def scenario(world):
            world.join_errors = [passing]
            await world.join()
            assert set(world.subscription.partitions) == {T0, T1}

        run({}, scenario)

    def test_so_it_is_between_join_and_sync(self):
        async def scenario(world):
            world.sync_errors = [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]
            await world.join()
            assert world.generation == 3

        run({}, scenario)

    def test_what_does_not_pass_is_raised_and_the_next_poll_tries_again(self):
        async def scenario(world):
            world.join_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
            with pytest.raises(ApiError) as raised:
                await world.join()
            assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
            await world.join()

        run({}, scenario)

    def test_an_assignment_of_what_is_no_longer_wanted_is_not_taken(self):
        async def scenario(world):
            world.assigns = (TopicPartition("old", 0),)
            await world.coordinator.step()
            await asyncio.sleep(0.01)
            await world.coordinator.step()
            assert world.subscription.partitions == {}
            world.assigns = (T0,)
            await world.join(generation=2)
            assert set(world.subscription.partitions) == {T0}

        run({}, scenario)


class TestRebalancing:
    def test_an_eager_member_gives_everything_up_before_it_joins(self):
        async def scenario(world):
            await world.join()
            world.assigns = (T1,)
            world.coordinator.request_rejoin("test")
            await world.join(generation=2)
            assert world.diary.entries[1:] == [("revoked", [T0, T1]), ("assigned", [T1])]
            assert decode_subscription(world.sent(JoinGroupRequest)[1].protocols[0].metadata).owned == ()

        run({}, scenario)

    def test_a_cooperative_one_only_what_goes_and_then_joins_once_more(self):
        async def scenario(world):
            await world.join()
            world.assigns = (T1,)
            world.coordinator.request_rejoin("test")
            await world.join(generation=3)
            noted = [entry for entry in world.diary.entries[1:] if entry[1]]
            assert noted == [("revoked", [T0])]
            assert decode_subscription(world.sent(JoinGroupRequest)[1].protocols[0].metadata).owned == (T0, T1)
            assert world.subscription.state_of(T1).position == Position(10)

        run({"strategy": "cooperative-sticky"}, scenario)

    def test_a_heartbeat_that_reports_a_rebalance_leads_to_one(self):
        async def scenario(world):
            await world.join()
            world.heartbeat = ErrorCode.REBALANCE_IN_PROGRESS
            await world.step_until(lambda: world.generation == 2)
            world.heartbeat = ErrorCode.NONE

        run({"heartbeat_interval_ms": 1}, scenario)

    def test_a_member_that_was_thrown_out_has_lost_its_partitions(self):
        async def scenario(world):
            await world.join()
            world.heartbeat = ErrorCode.UNKNOWN_MEMBER_ID
            await world.step_until(lambda: world.coordinator.membership.state is MemberState.UNJOINED)
            world.heartbeat = ErrorCode.NONE
            await world.join(generation=2)
            assert [kind for kind, _ in world.diary.entries] == ["assigned", "lost", "assigned"]

        run({"heartbeat_interval_ms": 1}, scenario)

    def test_a_fenced_member_raises_in_poll(self):
        async def scenario(world):
            await world.join()
            world.heartbeat = ErrorCode.FENCED_INSTANCE_ID
            with pytest.raises(ApiError) as raised:
                await world.step_until(lambda: False)
            assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID

        run({"heartbeat_interval_ms": 1, "group_instance_id": "i"}, scenario)

    def test_more_partitions_make_the_leader_rebalance(self):
        async def scenario(world):
            world.leads = True
            await world.join()
            metadata_with({"t": [(1, 0), (1, 0), (1, 0)]}, into=world.network.metadata)
            await world.join(generation=2)
            assert len(world.subscription.partitions) == 3

        run({}, scenario)

    def test_another_subscription_makes_any_member_rebalance(self):
        async def scenario(world):
            await world.join()
            world.subscription.subscribe(["t", "u"], world.diary)
            await world.join(generation=2)
            noted = decode_subscription(world.sent(JoinGroupRequest)[1].protocols[0].metadata)
            assert noted.topics == ("t", "u")

        run({}, scenario)

    def test_what_was_consumed_is_committed_before_anything_is_given_up(self):
        async def scenario(world):
            await world.join()
            world.coordinator.request_rejoin("test")
            await world.coordinator.step()
            assert all(state.is_revocation_pending for state in world.subscription), "so that nothing more is returned"
            await world.join(generation=2)
            kinds = [type(request) for _, request in world.network.asked]
            assert kinds.index(OffsetCommitRequest) < len(kinds) - 1 - kinds[::-1].index(JoinGroupRequest)

        run({"enable_auto_commit": True}, scenario)


class TestLeaving:
    def test_partitions_are_given_up_and_the_group_is_left(self):
        async def scenario(world):
            await world.join()
            await world.coordinator.leave("done", world.network.now_ms() + 1000)
            assert world.diary.entries[-1] == ("revoked", [T0, T1])
            (request,) = world.sent(LeaveGroupRequest)
            assert request.members[0].reason == "done"
            assert world.subscription.partitions == {}

        run({}, scenario)

    def test_who_does_not_poll_leaves(self):
        async def scenario(world):
            await world.join()
            async with asyncio.timeout(5):
                while not world.sent(LeaveGroupRequest):
                    await asyncio.sleep(0.001)
            await world.join(generation=2)
            assert ("lost", [T0, T1]) in world.diary.entries

        run({"max_poll_interval_ms": 30, "heartbeat_interval_ms": 5}, scenario)
