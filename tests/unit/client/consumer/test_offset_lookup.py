"""Resets, and positions that a new leader must confirm."""

import asyncio
from typing import Any, cast

import pytest

from tests.unit.client.consumer.clusters import metadata_with
from tests.unit.client.consumer.network import FakeNetwork
from tests.unit.virtual_time import run
from tidelog.client.aio.consumer.errors import LogTruncated, NoOffset
from tidelog.client.aio.consumer.offset_lookup import OffsetLookup
from tidelog.client.aio.consumer.offset_reset import EARLIEST, LATEST, NONE, parse_offset_reset
from tidelog.client.aio.consumer.partition_state import FetchState, Leader, Position
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.waits import Wait
from tidelog.client.errors import ApiError, ConnectionLost, DeadlinePassed
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000


class World:
    """One partition, led by broker 1 in epoch 4."""

    def __init__(self, policy=EARLIEST, committed=None):
        self.settings = ConsumerSettings(retry_backoff_ms=1)
        self.network = cast(Any, FakeNetwork(self.settings, metadata_with({"t": [(1, 4)]})))
        self.subscription = SubscriptionState(policy)
        self.subscription.assign([T0])
        self.subscription.follow_leaders(self.network.metadata)
        self.state = self.subscription.state_of(T0)
        self.lookup = OffsetLookup(self.network, self.settings, self.subscription, lambda: NOW_MS, committed)

    def offsets(self, **by_time):
        """ListOffsets is answered by time (`at_`), or with an error, one after another."""
        self.network.answers[ListOffsetsRequest] = lambda request, node_id: listed(by_time, request)
        return self

    def ends(self, **end):
        result = EpochEndOffset(partition=0, **end)
        self.network.answers[OffsetForLeaderEpochRequest] = lambda request, node_id: OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=[result])]
        )
        return self

    async def reset(self, policy):
        self.state.request_reset(policy)
        self.lookup.ask_due()
        await self.network.idle()

    async def validate(self):
        self.state.seek(Position(100, 3))
        self.state.follow_leader(Leader(2, 5))
        self.lookup.ask_due()
        await self.network.idle()


def committed(offsets, asked=None):
    """What the group answers; the partitions of each question go to `asked`."""

    async def read(partitions, _until_ms):
        await asyncio.sleep(0)
        if asked is not None:
            asked.append(list(partitions))
        return {each: offsets[each] for each in partitions if each in offsets}

    return read


def listed(by_time, request):
    (asked,) = request.topics[0].partitions
    outcome = by_time[f"at_{asked.timestamp}".replace("-", "m")]
    if isinstance(outcome, Exception):
        return outcome
    error, offset = (outcome, -1) if isinstance(outcome, ErrorCode) else (ErrorCode.NONE, outcome)
    result = ListOffsetsPartitionResponse(
        partition_index=0, error_code=error, offset=offset, timestamp=5, leader_epoch=4
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[result])])


class TestResets:
    @pytest.mark.parametrize(("policy", "offset"), [(EARLIEST, 3), (LATEST, 90)])
    def test_the_leader_names_the_offset(self, policy, offset):
        async def main():
            world = World().offsets(at_m2=3, at_m1=90)
            await world.reset(policy)
            assert world.state.position == Position(offset)
            assert world.state.state is FetchState.FETCHING

        run(main())

    def test_a_duration_is_counted_back_from_now(self):
        async def main():
            world = World().offsets(at_940000=42)
            await world.reset(parse_offset_reset("by_duration:PT1M"))
            assert world.state.position == Position(42)

        run(main())

    def test_where_nothing_is_that_young_it_is_the_end(self):
        async def main():
            world = World().offsets(at_940000=-1, at_m1=90)
            await world.reset(parse_offset_reset("by_duration:PT1M"))
            assert world.state.position == Position(90)

        run(main())

    def test_one_question_at_a_time(self):
        async def main():
            world = World().offsets(at_m2=3)
            world.state.request_reset(EARLIEST)
            world.lookup.ask_due()
            world.lookup.ask_due()
            await world.network.idle()
            assert len(world.network.asked) == 1

        run(main())

    def test_a_seek_that_came_meanwhile_is_kept(self):
        async def main():
            world = World().offsets(at_m2=3)
            world.state.request_reset(EARLIEST)
            world.lookup.ask_due()
            world.state.seek(Position(77))
            await world.network.idle()
            assert world.state.position == Position(77)

        run(main())

    @pytest.mark.parametrize("passing", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ConnectionLost("h:1", "gone")], ids=str)
    def test_what_passes_is_tried_again_later(self, passing):
        async def main():
            world = World().offsets(at_m2=passing)
            await world.reset(EARLIEST)
            assert world.state.state is FetchState.AWAIT_RESET
            assert world.state.retry_at_ms > world.network.now_ms() - 1000
            assert world.network.refreshes
            world.lookup.ask_due()

        run(main())

    def test_what_does_not_is_raised_by_poll(self):
        async def main():
            world = World().offsets(at_m2=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            await world.reset(EARLIEST)
            with pytest.raises(ApiError, match="t-0"):
                world.lookup.ask_due()

        run(main())


class TestCommitted:
    """Where the group left off; `auto.offset.reset` where it never was."""

    def test_the_committed_offset_is_validated_without_another_event(self):
        """The leader is known already when the offset comes: nothing else would start the validation."""

        async def main():
            world = World(committed=committed({T0: OffsetAndMetadata(10, "", 3)})).ends(leader_epoch=3, end_offset=150)
            world.lookup.ask_due()
            await world.network.idle()
            assert world.state.state is FetchState.AWAIT_VALIDATION
            world.lookup.ask_due()
            await world.network.idle()
            assert world.state.position == Position(10, 3)
            assert world.state.is_fetchable

        run(main())

    @pytest.mark.parametrize("group", [None, {}])
    def test_without_one_the_policy_decides(self, group):
        async def main():
            world = World(committed=None if group is None else committed(group)).offsets(at_m2=3)
            world.lookup.ask_due()
            await world.network.idle()
            world.lookup.ask_due()
            await world.network.idle()
            assert world.state.position == Position(3)

        run(main())

    @pytest.mark.parametrize("group", [None, {}])
    def test_without_a_policy_either_poll_raises(self, group):
        async def main():
            world = World(NONE, committed=None if group is None else committed(group))
            if group is not None:
                world.lookup.ask_due()
                await world.network.idle()
            with pytest.raises(NoOffset, match="t-0"):
                world.lookup.ask_due()

        run(main())

    def test_a_seek_that_came_first_is_kept(self):
        async def main():
            world = World(committed=committed({T0: OffsetAndMetadata(10)}))
            world.lookup.ask_due()
            world.state.seek(Position(77))
            await world.network.idle()
            assert world.state.position == Position(77)

        run(main())

    def test_a_partition_that_is_assigned_while_others_are_asked_for_is_asked_for_too(self):
        async def main():
            asked: list[list[TopicPartition]] = []
            world = World(committed=committed({T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}, asked))
            world.lookup.ask_due()
            world.subscription.assign([T0, T1])
            world.lookup.ask_due()
            await world.network.idle()
            assert asked == [[T0], [T1]]
            assert world.subscription.has_all_positions

        run(main())

    def test_a_reply_that_lacks_a_partition_is_asked_for_again_later(self):
        async def main():
            world = World()
            world.network.answers[OffsetForLeaderEpochRequest] = lambda *_: OffsetForLeaderEpochResponse(topics=[])
            await world.validate()
            assert world.state.wait(world.network.now_ms()) is Wait.POSITION_RETRY

        run(main())


class TestValidation:
    def test_a_log_that_still_holds_the_position_confirms_it(self):
        async def main():
            world = World().ends(leader_epoch=3, end_offset=150)
            await world.validate()
            ((node_id, request),) = world.network.asked
            assert node_id == 2
            (asked,) = request.topics[0].partitions
            assert (asked.leader_epoch, asked.current_leader_epoch, request.replica_id) == (3, 5, -1)
            assert world.state.position == Position(100, 3)
            assert world.state.is_fetchable

        run(main())

    def test_a_shorter_one_moves_it_to_where_both_agree(self):
        async def main():
            world = World().ends(leader_epoch=2, end_offset=60)
            await world.validate()
            assert world.state.position == Position(60, 2)
            assert world.state.is_fetchable

        run(main())

    def test_one_that_knows_nothing_of_the_epoch_leaves_it_to_the_policy(self):
        async def main():
            world = World().ends(leader_epoch=-1, end_offset=-1)
            await world.validate()
            assert world.state.state is FetchState.AWAIT_RESET

        run(main())

    def test_without_a_policy_truncation_is_raised_with_the_last_common_offset(self):
        async def main():
            world = World(NONE).ends(leader_epoch=2, end_offset=60)
            await world.validate()
            with pytest.raises(LogTruncated) as raised:
                world.lookup.ask_due()
            assert raised.value.offsets == {T0: 100}
            assert raised.value.divergent == {T0: OffsetAndMetadata(60, "", 2)}

        run(main())

    def test_a_leader_that_moved_on_is_asked_again_later(self):
        async def main():
            world = World().ends(error_code=ErrorCode.FENCED_LEADER_EPOCH)
            await world.validate()
            assert world.state.state is FetchState.AWAIT_VALIDATION
            assert world.state.retry_at_ms
            assert world.network.refreshes

        run(main())

    def test_a_seek_that_came_meanwhile_makes_the_answer_meaningless(self):
        async def main():
            world = World().ends(leader_epoch=2, end_offset=60)
            world.state.seek(Position(100, 3))
            world.state.follow_leader(Leader(2, 5))
            world.lookup.ask_due()
            world.state.seek(Position(500))
            await world.network.idle()
            assert world.state.position == Position(500)

        run(main())


class TestAsking:
    def test_offsets_are_asked_for_until_the_time_is_up(self):
        async def main():
            world = World().offsets(at_m1=ErrorCode.LEADER_NOT_AVAILABLE)
            with pytest.raises(DeadlinePassed, match="t-0"):
                await world.lookup.find({T0: -1}, world.network.now_ms() + 30)
            assert len(world.network.asked) > 1

        run(main())

    def test_the_end_of_a_partition_is_looked_up_for_its_lag(self):
        async def main():
            world = World().offsets(at_m1=90)
            world.lookup.start_finding_end(world.state)
            world.lookup.start_finding_end(world.state)
            await world.network.idle()
            assert world.state.high_watermark == 90
            assert len(world.network.asked) == 1

        run(main())
