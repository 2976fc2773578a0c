"""What a coordinator's refusals mean to who commits."""

import asyncio
from typing import Any, cast

import pytest

from tests.unit import virtual_time
from tests.unit.client.consumer.clusters import metadata_with, topic_id
from tests.unit.client.consumer.network import FakeNetwork
from tests.unit.client.consumer.test_membership import newcomer, stable
from tests.unit.present import present
from tidelog.client.aio.consumer.auto_commit import AutoCommit
from tidelog.client.aio.consumer.commits import OffsetCommits
from tidelog.client.aio.consumer.errors import CommitFailed, RebalanceInProgress
from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.membership import MemberState
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.errors import ApiError, ConnectionLost, DeadlinePassed, InvalidReply
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

T0 = TopicPartition("t", 0)
SEVEN = {T0: OffsetAndMetadata(7, "note", 2)}


class World:
    """A member, or a stranger, that commits."""

    def __init__(self, member=None, *, assigned=False):
        self.settings = ConsumerSettings(group_id="g", retry_backoff_ms=1)
        self.network = cast(Any, FakeNetwork(self.settings, metadata_with({"t": [(1, 0)]})))
        self.subscription = SubscriptionState(EARLIEST)
        if assigned:
            self.subscription.assign([T0])
        else:
            self.subscription.subscribe(["t"], None)
        self.member = member or stable()
        self.committed: list[Any] = []
        link = GroupLink(self.network, "g")
        self.commits = OffsetCommits(
            self.network, self.settings, self.subscription, self.member, link, self.committed.append
        )

    def answer(self, *codes):
        """Answer the next commits with these codes, and the last one for ever."""
        left = list(codes)

        def reply(request, node_id):
            code = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(code, Exception):
                return code
            partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])

        self.network.answers[OffsetCommitRequest] = reply
        return self

    async def commit(self, within_ms=1000):
        await self.commits.commit(SEVEN, self.network.now_ms() + within_ms)


def run(work):
    return virtual_time.run(work())


class TestCommitting:
    def test_a_member_commits_in_its_name(self):
        async def main():
            world = World(stable("instance")).answer(ErrorCode.NONE)
            await world.commit()
            ((_, request),) = world.network.asked
            assert (request.generation_id_or_member_epoch, request.member_id) == (1, "m")
            assert request.group_instance_id == "instance"
            (partition,) = request.topics[0].partitions
            assert (partition.committed_offset, partition.committed_metadata) == (7, "note")
            assert partition.committed_leader_epoch == 2
            assert world.committed == [SEVEN]

        run(main)

    def test_a_consumer_that_assigned_partitions_itself_commits_without_a_member_id(self):
        async def main():
            world = World(newcomer("instance"), assigned=True).answer(ErrorCode.NONE)
            await world.commit()
            ((_, request),) = world.network.asked
            assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
            assert request.group_instance_id is None

        run(main)

    def test_topics_are_named_by_the_ids_that_they_have_at_the_first_attempt(self):
        """A topic made again in between takes nothing that was read from the old one."""

        async def main():
            world = World().answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_ID)
            committing = asyncio.ensure_future(world.commit(within_ms=3))
            await asyncio.sleep(0)
            metadata_with({}, into=world.network.metadata)
            with pytest.raises(DeadlinePassed):
                await committing
            assert len(world.network.asked) > 1
            assert {request.topics[0].topic_id for _, request in world.network.asked} == {topic_id("t")}

        run(main)

    def test_an_answer_by_id_is_understood(self):
        async def main():
            world = World()
            partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=9)
            topics = [OffsetFetchResponseTopics(name="", topic_id=topic_id("t"), partitions=[partition])]
            world.network.answers[OffsetFetchRequest] = lambda _request, _node: OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(topics=topics)]
            )
            found = await world.commits.committed([T0], world.network.now_ms() + 10)
            assert found[T0].offset == 9
            topics[0].topic_id = topic_id("other")
            with pytest.raises(InvalidReply):
                await world.commits.committed([T0], world.network.now_ms() + 10)

        run(main)

    def test_nothing_to_commit_sends_nothing(self):
        async def main():
            world = World()
            await world.commits.commit({}, world.network.now_ms())
            assert world.network.asked == []

        run(main)

    @pytest.mark.parametrize(
        "passing",
        [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ConnectionLost("h:1", "gone"),
        ],
        ids=str,
    )
    def test_what_passes_is_tried_again(self, passing):
        async def main():
            world = World().answer(passing, ErrorCode.NONE)
            await world.commit()
            assert len(world.network.asked) == 2
            assert world.committed == [SEVEN]

        run(main)

    def test_before_partitions_are_given_up_a_deleted_topic_is_not_waited_for(self):
        """It would hold up the rebalance, or the end of the consumer, for as long as that may take."""

        async def main():
            world = World().answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            automatic = AutoCommit(world.network, world.settings, world.commits, lambda: SEVEN)
            await automatic.commit_now(world.network.now_ms() + 60_000)
            assert len(world.network.asked) == 1
            world.answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)
            await automatic.commit_now(world.network.now_ms() + 60_000)
            assert world.committed == [SEVEN]

        run(main)

    def test_while_an_automatic_commit_is_under_way_the_next_has_no_time(self):
        """A time that has passed would keep the waiting poll looking without pause."""

        async def main():
            world = World().answer(ErrorCode.NONE)
            automatic = AutoCommit(world.network, world.settings, world.commits, lambda: SEVEN)
            due_ms = present(automatic.next_ms)
            automatic.run_if_due(due_ms)
            assert automatic.next_ms is None
            await world.network.idle()
            assert present(automatic.next_ms) > due_ms

        run(main)

    def test_a_wrong_coordinator_is_forgotten(self):
        async def main():
            world = World().answer(ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
            await world.commit()
            assert world.network.forgotten == 1

        run(main)

    def test_but_not_for_ever(self):
        async def main():
            world = World().answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            with pytest.raises(DeadlinePassed, match="the commit timed out"):
                await world.commit(within_ms=20)
            assert world.committed == []

        run(main)

    @pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
    def test_who_is_no_longer_a_member_has_failed_and_must_join_again(self, code):
        async def main():
            world = World().answer(code)
            with pytest.raises(CommitFailed) as raised:
                await world.commit()
            assert not isinstance(raised.value, RebalanceInProgress)
            assert world.member.state is MemberState.UNJOINED
            assert world.member.is_rejoin_needed

        run(main)

    def test_during_a_rebalance_the_commit_may_be_repeated_after_the_next_poll(self):
        async def main():
            world = World().answer(ErrorCode.REBALANCE_IN_PROGRESS)
            with pytest.raises(RebalanceInProgress):
                await world.commit()
            assert world.member.is_rejoin_needed

        run(main)

    def test_while_joining_nothing_is_sent(self):
        async def main():
            joining = newcomer()
            joining.join_request([])
            world = World(joining)
            with pytest.raises(RebalanceInProgress):
                await world.commit()
            assert world.network.asked == []

        run(main)

    @pytest.mark.parametrize("code", [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.GROUP_AUTHORIZATION_FAILED])
    def test_other_refusals_are_final(self, code):
        async def main():
            world = World().answer(code)
            with pytest.raises(ApiError, match="commit of t-0") as raised:
                await world.commit()
            assert raised.value.code is code

        run(main)


class TestReadingBack:
    def world(self, *partitions, group_error=ErrorCode.NONE):
        world = World()
        world.network.answers[OffsetFetchRequest] = lambda request, node_id: OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id="g",
                    error_code=group_error,
                    topics=[OffsetFetchResponseTopics(name="t", partitions=list(partitions))],
                )
            ]
        )
        return world

    def read(self, world, within_ms=1000):
        return world.commits.committed([T0], world.network.now_ms() + within_ms)

    def test_offsets_come_with_metadata_and_epoch(self):
        async def main():
            partition = OffsetFetchResponsePartitions(
                partition_index=0, committed_offset=7, committed_leader_epoch=2, metadata="note"
            )
            assert await self.read(self.world(partition)) == SEVEN

        run(main)

    def test_a_partition_without_a_commit_is_left_out(self):
        async def main():
            assert await self.read(self.world(OffsetFetchResponsePartitions(committed_offset=-1))) == {}

        run(main)

    def test_silence_is_not_taken_for_nothing_committed(self):
        """The group would be sent back to the beginning, or skip to the end."""

        async def main():
            with pytest.raises(InvalidReply, match="t-0"):
                await self.read(self.world())

        run(main)

    def test_offsets_of_an_open_transaction_are_waited_for(self):
        async def main():
            unstable = OffsetFetchResponsePartitions(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            world = self.world(unstable)
            with pytest.raises(DeadlinePassed):
                await self.read(world, within_ms=20)
            assert len(world.network.asked) > 1
            assert world.network.asked[0][1].require_stable

        run(main)
