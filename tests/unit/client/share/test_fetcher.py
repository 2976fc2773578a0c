"""What a share fetcher sends to whom, and what becomes of acknowledgements, against brokers that answer by script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.client.consumer.batches import batch
from tests.unit.client.consumer.network import FakeNetwork
from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.share.fetcher import ShareFetcher
from tidelog.client.aio.share.settings import load_share_settings
from tidelog.client.aio.share.types import ACCEPTED, Ack, AcknowledgeType, Origin
from tidelog.client.errors import BrokerUnavailable, ClientError, ConnectionLost
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tidelog.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

T = b"t" * 16
T0, KEY = TopicPartition("t", 0), (T, 0)
ORIGIN = Origin(1, KEY, T0)
RENEWED = Ack(AcknowledgeType.RENEW)


class World:
    """One broker that leads one partition, and the fetcher."""

    def __init__(self) -> None:
        metadata = MetadataCache(max_age_ms=300_000)
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=1)
        topic = MetadataResponseTopic(name="t", topic_id=T, partitions=[partition])
        broker = MetadataResponseBroker(node_id=1, host="h", port=1)
        metadata.update(MetadataResponse(brokers=[broker], topics=[topic]), 0, wanted=None)
        settings = load_share_settings({"bootstrap.servers": "h:1", "group.id": "g"}, {})
        self.network = FakeNetwork(settings, metadata)  # type: ignore[arg-type]
        self.network.answers[ShareFetchRequest] = lambda request, node_id: self._hold()
        self.network.answers[ShareAcknowledgeRequest] = lambda request, node_id: ShareAcknowledgeResponse()
        self.held: list[asyncio.Future[Any]] = []
        self.ended: list[tuple[Mapping[int, Ack], ClientError | None]] = []
        self.fetcher = ShareFetcher(
            self.network,  # type: ignore[arg-type]
            settings,
            "g",
            lambda: "m",
            lambda: {KEY: T0},
            Decoding(),
            lambda origin, acks, error, until: self.ended.append((acks, error)),
            lambda: None,
        )

    def _hold(self) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self.held.append(future)
        return future

    async def answer(self, *ranges: tuple[int, int], error: ErrorCode = ErrorCode.NONE, ack: int = 0) -> None:
        """The fetch under way is answered."""
        data = PartitionData(
            partition_index=0,
            acknowledge_error_code=ack,
            records=batch(0, 10) if ranges else b"",
            acquired_records=[AcquiredRecords(first_offset=a, last_offset=b, delivery_count=1) for a, b in ranges],
        )
        topic = ShareFetchableTopicResponse(topic_id=T, partitions=[data])
        self.held.pop().set_result(ShareFetchResponse(error_code=error, responses=[topic]))
        await asyncio.sleep(0)

    def hungry(self) -> None:
        self.fetcher.records_max = 5
        self.fetcher.send()

    def sent(self) -> list[str]:
        """The requests so far, with their epochs."""
        return [
            f"{type(request).__name__.removesuffix('Request')} {request.share_session_epoch}"
            for _, request in self.network.asked
        ]


def check(work: Callable[[World], Any]) -> None:
    async def run() -> None:
        await work(World())

    asyncio.run(run())


def test_nothing_is_fetched_until_a_poll_waits_and_never_twice_at_once() -> None:
    async def work(world: World) -> None:
        world.fetcher.send()
        assert world.sent() == []
        world.hungry()
        world.hungry()
        assert world.sent() == ["ShareFetch 0"]

    check(work)


def test_no_more_is_locked_before_what_was_fetched_is_taken() -> None:
    """It could only wait, and acknowledgements would wait behind that fetch."""

    async def work(world: World) -> None:
        world.hungry()
        await world.answer((0, 4))
        assert world.sent() == ["ShareFetch 0"]
        (locked,) = world.fetcher.buffer
        assert [each.offset for each in locked.take(9).records] == [0, 1, 2, 3, 4]
        world.fetcher.buffer.clear()
        world.hungry()
        assert world.sent() == ["ShareFetch 0", "ShareFetch 1"]

    check(work)


def test_acknowledgements_go_with_a_fetch_or_alone_or_alone_if_they_renew() -> None:
    async def work(world: World) -> None:
        world.hungry()
        await world.answer()
        world.fetcher.acknowledge({ORIGIN: {3: ACCEPTED}})
        assert world.sent() == ["ShareFetch 0", "ShareFetch 1"], "an empty answer is followed by the next fetch"
        await world.answer()
        assert world.sent()[2:] == ["ShareFetch 2"]
        _, request = world.network.asked[-1]
        (entry,) = request.topics[0].partitions
        assert [each.first_offset for each in entry.acknowledgement_batches] == [3]
        world.fetcher.records_max = 0
        await world.answer()
        assert world.ended == [({3: ACCEPTED}, None)]
        world.fetcher.acknowledge({ORIGIN: {4: ACCEPTED}})
        world.fetcher.send()
        await asyncio.sleep(0)
        assert world.sent()[3:] == ["ShareAcknowledge 3"]
        world.fetcher.acknowledge({ORIGIN: {5: RENEWED}})
        world.hungry()
        await asyncio.sleep(0)
        assert world.sent()[4:] == ["ShareAcknowledge 4", "ShareFetch 5"]
        assert [request.is_renew_ack for _, request in world.network.asked[3:]] == [False, True, False]

    check(work)


def test_the_error_of_a_partition_is_the_error_of_its_acknowledgements() -> None:
    async def work(world: World) -> None:
        world.hungry()
        await world.answer()
        world.fetcher.acknowledge({ORIGIN: {3: ACCEPTED}})
        (receipt,) = world.fetcher.receipts()
        await world.answer()
        await world.answer(ack=ErrorCode.INVALID_RECORD_STATE)
        error = receipt.outcome.result()[T0]
        assert getattr(error, "code", None) is ErrorCode.INVALID_RECORD_STATE

    check(work)


def test_acknowledgements_fail_with_the_session_whose_locks_they_are_for() -> None:
    async def work(world: World) -> None:
        world.hungry()
        await world.answer()
        world.fetcher.acknowledge({ORIGIN: {3: ACCEPTED}})
        await world.answer(error=ErrorCode.SHARE_SESSION_NOT_FOUND)
        (acks, error) = world.ended[0]
        assert acks == {3: ACCEPTED}
        assert getattr(error, "code", None) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert not world.fetcher.errors, "the application sees it with its acknowledgements only"

    check(work)


def test_a_lost_connection_begins_the_session_again_after_a_pause() -> None:
    async def work(world: World) -> None:
        world.hungry()
        await world.answer()
        world.fetcher.acknowledge({ORIGIN: {3: ACCEPTED}})
        world.held.pop().set_exception(ConnectionLost("h:1", "closed"))
        await asyncio.sleep(0)
        assert isinstance(world.ended[0][1], BrokerUnavailable | ClientError)
        async with asyncio.timeout(30):
            while world.sent()[-1] != "ShareFetch 0" or len(world.sent()) < 3:
                await asyncio.sleep(0.005)

    check(work)


def test_records_of_a_partition_that_was_given_up_are_released_at_once() -> None:
    async def work(world: World) -> None:
        world.hungry()
        world.fetcher._assigned = dict  # type: ignore[assignment]
        await world.answer((0, 1))
        assert not world.fetcher.buffer
        _, request = world.network.asked[-1]
        assert isinstance(request, ShareAcknowledgeRequest)
        (entry,) = request.topics[0].partitions[0].acknowledgement_batches
        assert (entry.first_offset, entry.last_offset, entry.acknowledge_types) == (0, 1, [AcknowledgeType.RELEASE])

    check(work)


def test_a_session_ends_with_the_acknowledgements_that_wait() -> None:
    async def work(world: World) -> None:
        world.hungry()
        world.fetcher.records_max = 0
        await world.answer()
        world.fetcher.acknowledge({ORIGIN: {3: ACCEPTED, 4: RENEWED}})
        await world.fetcher.end_sessions()
        assert world.sent() == ["ShareFetch 0", "ShareAcknowledge -1"]
        assert world.ended == [({3: ACCEPTED}, None)]

    check(work)
