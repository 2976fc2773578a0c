"""Three brokers replicate a partition: leaders, followers, in-sync replicas and failover over real connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.integration.hand_controller import Hand
from tests.integration.servers import member_of
from tests.unit.storage.logs import read_values
from tidelog.client import AsyncProducer
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ErrorCode

SECONDS = 30


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(SECONDS * 2):
            await work

    asyncio.run(limited())


@asynccontextmanager
async def cluster(directory: Path, *broker_ids: int, **config: object) -> AsyncIterator[Hand]:
    hand = Hand(directory, **config)
    await hand.start(*(broker_ids or (1, 2, 3)))
    try:
        yield hand
    finally:
        await hand.close()


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        await asyncio.sleep(0.01)


async def produce(hand: Hand, *values: str) -> None:
    async with AsyncProducer(bootstrap_servers=hand.bootstrap_servers, acks="all") as producer:
        for value in values:
            await producer.send_and_wait("t", value=value.encode())


def content(hand: Hand, broker_id: int) -> list[str]:
    log = hand.partition(broker_id).log
    return [(value or b"").decode() for value in read_values(log, log.log_start_offset)]


def test_records_reach_every_replica_and_survive_a_new_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a", "b", "c")
            assert content(hand, 1) == content(hand, 2) == content(hand, 3) == ["a", "b", "c"]
            await until(
                lambda: all(hand.partition(each).log.high_watermark == 3 for each in (1, 2, 3)),
                "every replica knows the high watermark",
            )
            await hand.stop(1)
            hand.decide(2, 1, (2, 3))
            await hand.tell()
            await produce(hand, "d")
            assert content(hand, 2) == content(hand, 3) == ["a", "b", "c", "d"]
            await hand.start(1)
            hand.decide(2, 2, (2, 3))
            await hand.tell()
            await until(lambda: (2, 3, 1) in hand.altered, "broker 1 is in sync again")
            assert content(hand, 1) == ["a", "b", "c", "d"]

    run(main())


def test_a_follower_that_is_gone_leaves_the_isr_and_writes_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a")
            await hand.stop(3)
            await produce(hand, "b")
            assert (1, 2) in hand.altered
            assert content(hand, 1) == content(hand, 2) == ["a", "b"]

    run(main())


def test_a_leader_that_was_cut_off_gives_up_what_was_not_committed(tmp_path: Path) -> None:
    """It wrote records that no follower has; as a follower it truncates them and takes the new leader's."""

    async def main() -> None:
        async with cluster(tmp_path) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a")
            for broker_id in (2, 3):  # the controller has elected 2; broker 1 does not know
                member_of(hand.servers[broker_id]).replica_fetchers.unfollow([("t", 0)])
            async with AsyncProducer(bootstrap_servers=hand.bootstrap_servers, acks=1) as producer:
                await producer.send_and_wait("t", value=b"lost")
            hand.decide(2, 1, (2, 3))
            await hand.tell(2, 3)
            await hand.tell(1)
            await produce(hand, "b")
            await until(lambda: content(hand, 1) == ["a", "b"], "broker 1 follows")
            assert content(hand, 2) == ["a", "b"]

    run(main())


def test_a_leader_whose_partition_has_moved_away_leads_it_no_longer(tmp_path: Path) -> None:
    """It missed StopReplica, which is sent once, and learns from UpdateMetadata that it has no replica any more."""

    async def main() -> None:
        async with cluster(tmp_path) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a")
            hand.decide(2, 1, (2, 3), (2, 3))
            await hand.tell(2, 3)
            assert hand.partition(1).is_leader
            await hand.inform(1)
            assert not hand.partition(1).is_leader
            await produce(hand, "b")
            assert content(hand, 2) == content(hand, 3) == ["a", "b"]
            assert content(hand, 1) == ["a"]

    run(main())


def test_consumers_may_read_from_followers_and_are_sent_to_those_in_their_rack(tmp_path: Path) -> None:
    async def main() -> None:
        selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
        async with cluster(tmp_path, **selector) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a", "b")
            await until(lambda: hand.partition(2).log.high_watermark == 2, "broker 2 knows the high watermark")
            follower = await hand.fetch(2, rack_id="rack-2")
            assert follower.error_code == ErrorCode.NONE
            assert follower.records, "a follower serves what is committed"
            assert (await hand.fetch(1, rack_id="rack-2")).preferred_read_replica == 2
            assert (await hand.fetch(1, rack_id="rack-1")).preferred_read_replica == -1
            assert (await hand.fetch(1, rack_id="elsewhere")).preferred_read_replica == -1

    run(main())


def test_requests_of_an_earlier_controller_or_for_an_earlier_life_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as hand:
            hand.decide(1, 0, (1,), (1,), is_new=True)
            await hand.tell(controller_epoch=5)
            stale = await hand.lead_and_follow(1, controller_epoch=4)
            assert stale.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
            epoch = member_of(hand.servers[1]).broker_epoch
            stale = await hand.lead_and_follow(1, controller_epoch=5, broker_epoch=epoch - 1)
            assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    run(main())


def test_a_stopped_replica_is_deleted_only_if_asked_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1, 2) as hand:
            hand.decide(1, 3, (1, 2), (1, 2), is_new=True)
            await hand.tell()
            await produce(hand, "a")
            manager = hand.servers[2].node.log_manager
            fenced = await hand.stop_replica(2, "t", 0, 2, is_deleted=True)
            assert fenced.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
            await hand.stop_replica(2, "t", 0, 3, is_deleted=False)
            assert manager.get_log("t", 0) is not None
            await hand.stop_replica(2, "t", 0, -2, is_deleted=True)
            assert manager.get_log("t", 0) is None

    run(main())


def test_a_failed_log_directory_is_reported_to_the_controller(tmp_path: Path) -> None:
    """It finds the notice, asks the broker with LeaderAndIsr what is left, and has others lead."""

    async def main() -> None:
        async with cluster(tmp_path) as hand:
            hand.decide(1, 0, (1, 2, 3), is_new=True)
            await hand.tell()
            await produce(hand, "a")
            directory = hand.partition(1).log.parent_directory
            hand.servers[1].node.replica_manager.fail_log_dir(LogDirFailure(directory, OSError("the disk is gone")))
            await until(lambda: hand.notices() == [1], "the controller is notified")
            response = await hand.lead_and_follow(1)
            assert [each.error_code for each in response.topics[0].partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
            hand.decide(2, 1, (2, 3))
            await hand.inform(1)  # clients ask any broker who leads
            await hand.tell(2, 3)
            await produce(hand, "b")
            assert content(hand, 2) == content(hand, 3) == ["a", "b"]

    run(main())
