"""What the fetcher makes of replies, and when it asks again."""

import asyncio
from typing import Any, cast

import pytest

from tests.unit.client.consumer.batches import batch
from tests.unit.client.consumer.clusters import metadata_with, topic_id
from tests.unit.client.consumer.network import FakeNetwork
from tests.unit.virtual_time import run
from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.consumer.errors import OffsetOutOfRange
from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.fetcher import Fetcher
from tidelog.client.aio.consumer.offset_reset import EARLIEST, NONE
from tidelog.client.aio.consumer.partition_state import FetchState, Leader, Position
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.errors import ApiError, ConnectionLost
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

T0 = TopicPartition("t", 0)


class World:
    """One partition, led by broker 1, at offset 0. Replies are set by the test; then brokers keep silent."""

    def __init__(self, *replies, policy=EARLIEST, **settings):
        self.settings = ConsumerSettings(retry_backoff_ms=5, **settings)
        self.network = cast(Any, FakeNetwork(self.settings, metadata_with({"t": [(1, 4)]})))
        self.subscription = SubscriptionState(policy)
        self.subscription.assign([T0])
        self.subscription.follow_leaders(self.network.metadata)
        self.state = self.subscription.state_of(T0)
        self.state.seek(Position(0))
        self.buffer = FetchBuffer(self.subscription)
        self.notified = 0
        self._replies = list(replies)
        self.network.answers[FetchRequest] = self._reply
        self.fetcher = Fetcher(self.network, self.settings, self.subscription, self.buffer, Decoding(), self._notify)

    def _reply(self, request, node_id):
        return self._replies.pop(0) if self._replies else asyncio.get_running_loop().create_future()

    def _notify(self):
        self.notified += 1

    async def send(self):
        self.fetcher.send()
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def requests(self):
        return [
            (
                node_id,
                [(part.fetch_offset, part.current_leader_epoch) for top in each.topics for part in top.partitions],
            )
            for node_id, each in self.network.asked
        ]

    def offsets(self):
        records = self.buffer.take(100)
        return None if records is None else [record.offset for record in records]


def places(request):
    return [(part.fetch_offset, part.current_leader_epoch) for topic in request.topics for part in topic.partitions]


def reply(error=ErrorCode.NONE, records=None, endpoints=(), **more):
    data = PartitionData(partition_index=0, error_code=error, records=records, **more)
    topic = FetchableTopicResponse(topic="t", topic_id=topic_id("t"), partitions=[data])
    return FetchResponse(session_id=7, responses=[topic], node_endpoints=list(endpoints))


def test_records_are_kept_and_the_next_fetch_goes_out_at_once():
    async def main():
        world = World(reply(records=batch(0, 3), high_watermark=10))
        await world.send()
        assert world.requests == [(1, [(0, 4)]), (1, [(3, 4)])]
        assert world.offsets() == [0, 1, 2]
        assert world.state.high_watermark == 10
        assert world.notified == 1

    run(main())


def test_a_seek_does_not_wait_for_the_fetch_under_way():
    async def main():
        world = World()
        await world.send()
        await world.send()
        assert world.requests == [(1, [(0, 4)])]
        world.state.seek(Position(50))
        await world.send()
        assert world.requests == [(1, [(0, 4)]), (1, [(50, 4)])]

    run(main())


def test_what_arrives_for_a_position_that_was_left_is_dropped():
    async def main():
        world = World()
        late = asyncio.get_running_loop().create_future()
        world._replies = [late]
        await world.send()
        world.state.seek(Position(50))
        late.set_result(reply(records=batch(0, 3)))
        await world.send()
        assert world.offsets() is None

    run(main())


def test_out_of_range_is_reset_by_the_policy():
    async def main():
        world = World(reply(ErrorCode.OFFSET_OUT_OF_RANGE))
        await world.send()
        assert world.state.state is FetchState.AWAIT_RESET

    run(main())


def test_or_raised_if_there_is_none():
    async def main():
        world = World(reply(ErrorCode.OFFSET_OUT_OF_RANGE), policy=NONE)
        await world.send()
        with pytest.raises(OffsetOutOfRange) as raised:
            world.buffer.take(1)
        assert raised.value.offsets == {T0: 0}

    run(main())


def test_a_follower_that_is_behind_sends_us_back_to_the_leader():
    async def main():
        world = World(reply(ErrorCode.OFFSET_OUT_OF_RANGE))
        world.state.prefer_replica(3, until_ms=world.network.now_ms() + 60_000)
        await world.send()
        assert [node for node, _ in world.requests] == [3, 1]
        assert world.state.state is FetchState.FETCHING

    run(main())


def test_the_leader_may_send_us_to_a_replica_nearby():
    async def main():
        world = World(reply(preferred_read_replica=3), client_rack="east")
        await world.send()
        assert [node for node, _ in world.requests] == [1, 3]
        assert world.network.asked[0][1].rack_id == "east"

    run(main())


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_leaders_on_the_move_are_looked_for_and_not_hammered(code):
    async def main():
        world = World(reply(code))
        await world.send()
        assert world.network.refreshes
        assert len(world.requests) == 1
        async with asyncio.timeout(5):
            while len(world.requests) < 2:
                await asyncio.sleep(0.001)

    run(main())


def test_a_reply_that_names_the_new_leader_is_believed_at_once():
    """KIP-951: no metadata has to be asked for first."""

    async def main():
        moved = reply(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=9, leader_epoch=5),
            endpoints=[NodeEndpoint(node_id=9, host="h", port=9)],
        )
        world = World(moved)
        await world.send()
        assert world.state.leader == Leader(9, 5)
        assert world.requests[-1] == (9, [(0, 5)])
        assert not world.network.refreshes

    run(main())


def test_refusals_that_waiting_does_not_cure_are_raised_by_poll():
    async def main():
        world = World(reply(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        await world.send()
        with pytest.raises(ApiError, match="t-0 at offset 0"):
            world.buffer.take(1)

    run(main())


def test_a_lost_connection_begins_a_new_session():
    async def main():
        world = World(reply(), ConnectionLost("h:1", "gone"))
        await world.send()
        epochs = [(each.session_id, each.session_epoch) for _, each in world.network.asked]
        assert epochs == [(0, 0), (7, 1), (7, 0)]

    run(main())


def test_read_committed_asks_for_aborted_transactions_and_leaves_them_out():
    async def main():
        aborted = batch(0, 2, producer=9) + batch(2, 1)
        fetched = reply(records=aborted, aborted_transactions=[AbortedTransaction(producer_id=9, first_offset=0)])
        world = World(fetched, isolation_level="read_committed")
        await world.send()
        assert world.network.asked[0][1].isolation_level == 1
        assert world.offsets() == [2]

    run(main())


def test_nothing_is_sent_after_closing():
    async def main():
        world = World()
        world.fetcher.close()
        await world.send()
        assert world.requests == []

    run(main())
