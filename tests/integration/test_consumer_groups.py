"""Members of groups: who reads what, what is committed when, and what happens when one of them falters."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.effort import usually
from tests.integration.consumer_support import (
    GROUP_SETTINGS,
    Cluster,
    Diary,
    at,
    eventually,
    polling_until,
    read,
    values,
)
from tidelog.client import Admin, AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from tidelog.client.aio.consumer.errors import CommitFailed
from tidelog.testing import Broker
from tidelog.wire.errors import ApiError, ErrorCode

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker({**GROUP_SETTINGS, "auto.create.topics.enable": "false"}) as broker:
        yield Cluster(broker.bootstrap_servers)


def sizes(*members: AsyncConsumer) -> list[int]:
    return [len(member.assignment) for member in members]


class TestSharing:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_members_share_partitions_and_every_record_is_read_once(self, cluster: Cluster, strategy: str) -> None:
        """No member fails, so with commits before every hand-over nothing is read twice."""
        topic, group = cluster.topic(4), cluster.group()
        cluster.write(topic, range(400))
        settings = {"group_id": group, "partition_assignment_strategy": strategy, "max_poll_records": 50}

        async def main() -> None:
            async with cluster.consumer(**settings) as first, cluster.consumer(**settings) as second:
                await first.subscribe([topic])
                came = await read(first, 100)
                assert sizes(first) == [4]
                await second.subscribe([topic])
                came += await polling_until([first, second], lambda: sizes(first, second) == [2, 2])
                await asyncio.to_thread(cluster.write, topic, range(400, 800))
                came += await polling_until([first, second], lambda: _read_to(first, second, total=800))
                assert first.assignment | second.assignment == {at(topic, number) for number in range(4)}
                await first.close()
                await asyncio.to_thread(cluster.write, topic, range(800, 1000))
                came += await polling_until([second], lambda: sizes(second) == [4] and _read_to(second, total=1000))
            assert sorted(map(int, values(came))) == list(range(1000))

        asyncio.run(main())

    def test_a_group_goes_on_where_it_left_off(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(2), cluster.group()
        cluster.write(topic, range(100))

        async def session(count: int) -> list[str]:
            async with cluster.consumer(group_id=group, max_poll_records=10) as consumer:
                await consumer.subscribe([topic])
                return values(await read(consumer, count))

        first = asyncio.run(session(30))
        second = asyncio.run(session(100 - len(first)))
        assert sorted(map(int, first + second)) == list(range(100))

    def test_a_pattern_finds_topics_that_come_later(self, cluster: Cluster) -> None:
        prefix = f"p{time.time_ns()}"
        topic = cluster.topic(prefix=f"{prefix}-a")
        cluster.write(topic, ["a"])

        async def main() -> None:
            async with cluster.consumer(group_id=cluster.group(), metadata_max_age_ms=100) as consumer:
                await consumer.subscribe(pattern=f"{prefix}.*")
                assert values(await read(consumer, 1)) == ["a"]
                other = await asyncio.to_thread(cluster.topic, prefix=f"{prefix}-b")
                await asyncio.to_thread(cluster.write, other, ["b"])
                assert values(await read(consumer, 1)) == ["b"]
                assert consumer.subscription == {topic, other}

        asyncio.run(main())

    def test_new_partitions_are_shared_out(self, cluster: Cluster) -> None:
        topic = cluster.topic(1)

        def widen() -> None:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.create_partitions({topic: 3})

        async def main() -> None:
            async with cluster.consumer(group_id=cluster.group(), metadata_max_age_ms=100) as consumer:
                await consumer.subscribe([topic])
                await polling_until([consumer], lambda: sizes(consumer) == [1])
                await asyncio.to_thread(widen)
                await polling_until([consumer], lambda: sizes(consumer) == [3])

        asyncio.run(main())

    def test_subscribing_to_something_else_moves_on(self, cluster: Cluster) -> None:
        old, new = cluster.topic(), cluster.topic()
        diary = Diary()

        async def main() -> None:
            async with cluster.consumer(
                group_id=cluster.group(), partition_assignment_strategy="cooperative-sticky"
            ) as consumer:
                await consumer.subscribe([old], listener=diary)
                await polling_until([consumer], lambda: consumer.assignment == {at(old)})
                await consumer.subscribe([new], listener=diary)
                await polling_until([consumer], lambda: consumer.assignment == {at(new)})
                await consumer.unsubscribe()
                assert consumer.assignment == frozenset()

        asyncio.run(main())
        noted = [each for each in diary.entries if each[1]]
        assert noted == [("assigned", [0]), ("revoked", [0]), ("assigned", [0]), ("revoked", [0])]


def _read_to(*members: AsyncConsumer, total: int) -> bool:
    """Whether the positions of all members add up to `total` records."""
    states = [state for member in members for state in member._engine.subscription]
    return sum(state.position.offset for state in states if state.position is not None) == total


def _at_end(*members: AsyncConsumer) -> bool:
    return all(member.lag(partition) == 0 for member in members for partition in member.assignment)


class TestListeners:
    def test_eager_members_give_everything_up_first(self, cluster: Cluster) -> None:
        assert self.diary_of_first(cluster, "range") == [
            ("assigned", [0, 1]),
            ("revoked", [0, 1]),
            ("assigned", [0]),
            ("revoked", [0]),
        ]

    def test_cooperative_members_keep_what_stays(self, cluster: Cluster) -> None:
        noted = [entry for entry in self.diary_of_first(cluster, "cooperative-sticky") if entry[1]]
        assert noted == [("assigned", [0, 1]), ("revoked", [1]), ("revoked", [0])]

    def diary_of_first(self, cluster: Cluster, strategy: str) -> list[tuple[str, list[int]]]:
        topic = cluster.topic(2)
        settings = {"group_id": cluster.group(), "partition_assignment_strategy": strategy}
        diary = Diary()

        async def main() -> None:
            async with (
                cluster.consumer(**settings, client_id="a") as first,
                cluster.consumer(**settings, client_id="b") as second,
            ):
                await first.subscribe([topic], listener=diary)
                await polling_until([first], lambda: sizes(first) == [2])
                await second.subscribe([topic])
                await polling_until([first, second], lambda: sizes(first, second) == [1, 1])
                await first.close()

        asyncio.run(main())
        return diary.entries

    def test_a_listener_may_commit_what_goes_and_seek_what_comes(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(20))
        calls: list[str] = []

        class Careful(Diary):
            def __init__(self, consumer: Consumer) -> None:
                super().__init__()
                self.consumer = consumer
                self.thread = threading.get_ident()

            def on_assigned(self, partitions: Any) -> None:
                assert threading.get_ident() == self.thread, "listeners run where poll was called"
                for partition in partitions:
                    self.consumer.seek(partition, 15)
                calls.append("sought")

            def on_revoked(self, partitions: Any) -> None:
                self.consumer.commit()
                calls.append("committed")

        with Consumer(**cluster.settings(group_id=group, enable_auto_commit=False, max_poll_records=2)) as consumer:
            consumer.subscribe([topic], listener=Careful(consumer))
            assert values(_first(consumer)) == ["15", "16"]
        assert calls == ["sought", "committed"]
        with Consumer(**cluster.settings(group_id=group)) as consumer:
            assert consumer.committed(at(topic))[at(topic)].offset == 17

    def test_what_a_listener_raises_comes_out_of_poll_and_the_rebalance_goes_on(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, ["a"])

        class Clumsy(Diary):
            def on_assigned(self, partitions: Any) -> None:
                raise ValueError("dropped it")

        with Consumer(**cluster.settings(group_id=cluster.group())) as consumer:
            consumer.subscribe([topic], listener=Clumsy())
            with pytest.raises(ValueError, match="dropped it"):
                _first(consumer)
            assert values(_first(consumer)) == ["a"]


def _first(consumer: Consumer) -> Any:
    deadline = time.monotonic() + 20
    while not (records := consumer.poll(0.5)):
        assert time.monotonic() < deadline
    return records


class TestCommits:
    def test_what_the_last_poll_returned_is_not_committed_before_the_next(self, cluster: Cluster) -> None:
        """The application may be at any of these records when it dies."""
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(100))

        async def main() -> None:
            async with cluster.consumer(group_id=group, enable_auto_commit=False) as watcher:

                async def committed() -> int | None:
                    found = (await watcher.committed(at(topic))).get(at(topic))
                    return None if found is None else found.offset

                settings = {"group_id": group, "auto_commit_interval_ms": 1, "max_poll_records": 10}
                consumer = AsyncConsumer(**cluster.settings(**settings))
                await consumer.subscribe([topic])
                await read(consumer, 10)
                await asyncio.sleep(0.1)
                assert await committed() in (None, 0)
                await consumer.poll(5)

                async def first_ten() -> bool:
                    return await committed() == 10

                await eventually(first_ten)
                await asyncio.sleep(0.1)
                assert await committed() == 10, "of the second ten nothing"
                await consumer.close()
                assert await committed() == 20, "closing says that all of them are done"

        asyncio.run(main())

    def test_committing_by_hand_with_metadata(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(2), cluster.group()
        with Consumer(**cluster.settings(group_id=group, enable_auto_commit=False)) as consumer:
            consumer.assign([at(topic, 0), at(topic, 1)])
            assert consumer.committed(at(topic, 0)) == {}
            consumer.commit({at(topic, 0): OffsetAndMetadata(7, "half way", 0), at(topic, 1): 3})
            assert consumer.committed(at(topic, 0), at(topic, 1)) == {
                at(topic, 0): OffsetAndMetadata(7, "half way", 0),
                at(topic, 1): OffsetAndMetadata(3, "", -1),
            }

    def test_asynchronous_commits_arrive_in_order_and_call_their_callbacks(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        noted: list[tuple[int, Exception | None]] = []

        def callback(offsets: Any, error: Exception | None) -> None:
            noted.append((offsets[at(topic)].offset, error))

        with Consumer(**cluster.settings(group_id=group, enable_auto_commit=False)) as consumer:
            consumer.assign([at(topic)])
            for offset in range(1, 30):
                consumer.commit_async({at(topic): offset}, callback)
            consumer.commit({at(topic): 99})
            assert noted == [(offset, None) for offset in range(1, 30)]
            assert consumer.committed(at(topic))[at(topic)].offset == 99

    def test_records_that_an_iteration_has_not_handed_out_are_not_committed(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(100))
        with Consumer(**cluster.settings(group_id=group, enable_auto_commit=False)) as consumer:
            consumer.subscribe([topic])
            for record in consumer:
                if record.offset == 41:
                    consumer.commit()
                    break
            assert consumer.committed(at(topic))[at(topic)].offset == 42

    def test_offsets_of_a_transaction_can_be_committed_in_the_members_name(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        with Consumer(**cluster.settings(group_id="named", group_instance_id="i")) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + 10
            while not consumer.assignment and time.monotonic() < deadline:
                consumer.poll(0.1)
            metadata = consumer.group_metadata
            assert (metadata.group_id, metadata.group_instance_id) == ("named", "i")
            assert metadata.generation_id >= 1
            assert metadata.member_id


class TestFaltering:
    def test_slow_processing_does_not_end_a_membership(self, cluster: Cluster) -> None:
        """Heartbeats go on beside it; the session is much shorter than the work."""
        topic = cluster.topic()
        cluster.write(topic, range(4))
        diary = Diary()
        settings = {"group_id": cluster.group(), "session_timeout_ms": 200, "max_poll_records": 1}
        with Consumer(**cluster.settings(**settings)) as consumer:
            consumer.subscribe([topic], listener=diary)
            for expected in range(4):
                assert values(_first(consumer)) == [str(expected)]
                time.sleep(0.3)
            consumer.commit()
        assert diary.entries == [("assigned", [0]), ("revoked", [0])]

    def test_who_does_not_poll_loses_its_partitions_and_cannot_commit(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(10))
        diary = Diary()

        async def main() -> None:
            settings = {"group_id": group, "max_poll_interval_ms": 200, "enable_auto_commit": False}
            async with cluster.consumer(**settings) as stuck, cluster.consumer(group_id=group) as other:
                await stuck.subscribe([topic], listener=diary)
                await read(stuck, 10)
                await other.subscribe([topic])
                assert len(await read(other, 10)) == 10, "the other one takes over, from the beginning"
                with pytest.raises(CommitFailed, match="not part of an active group"):
                    await stuck.commit()
                await polling_until([stuck, other], lambda: len(diary.entries) > 1)
            assert diary.entries[:2] == [("assigned", [0]), ("lost", [0])]

        asyncio.run(main())

    def test_a_member_that_vanishes_is_replaced_when_its_session_ends(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(10))

        async def main() -> None:
            settings = {"group_id": group, "session_timeout_ms": 300}
            gone = AsyncConsumer(**cluster.settings(**settings))
            await gone.subscribe([topic])
            await read(gone, 10)
            await gone._engine.client.close()  # as if its machine lost power: no commit, no goodbye
            async with cluster.consumer(**settings) as heir:
                await heir.subscribe([topic])
                assert len(await read(heir, 10)) == 10

        asyncio.run(main())

    def test_a_static_member_that_restarts_in_time_moves_nothing(self, cluster: Cluster) -> None:
        topic, group = cluster.topic(2), cluster.group()
        diary = Diary()

        async def main() -> None:
            settings = {"group_id": group, "session_timeout_ms": 10_000}
            async with cluster.consumer(**settings, group_instance_id="stays") as other:
                restarted = AsyncConsumer(**cluster.settings(**settings, group_instance_id="restarts"))
                await other.subscribe([topic], listener=diary)
                await restarted.subscribe([topic])
                await polling_until([other, restarted], lambda: sizes(other, restarted) == [1, 1])
                mine, generation = restarted.assignment, other.group_metadata.generation_id
                await restarted.close()
                async with cluster.consumer(**settings, group_instance_id="restarts") as again:
                    await again.subscribe([topic])
                    await polling_until([other, again], lambda: again.assignment == mine)
                assert other.group_metadata.generation_id == generation

        asyncio.run(main())
        assert len([entry for entry in diary.entries if entry[0] == "assigned"]) <= 2

    def test_the_second_of_two_static_members_with_one_name_fences_the_first(self, cluster: Cluster) -> None:
        topic = cluster.topic()

        async def main() -> None:
            settings = {"group_id": cluster.group(), "group_instance_id": "one"}
            async with cluster.consumer(**settings) as first, cluster.consumer(**settings) as second:
                await first.subscribe([topic])
                await polling_until([first], lambda: sizes(first) == [1])
                await second.subscribe([topic])
                await polling_until([second], lambda: sizes(second) == [1])
                with pytest.raises(ApiError) as raised:
                    await first.poll(10)
                assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID

        asyncio.run(main())

    def test_a_rebalance_can_be_asked_for(self, cluster: Cluster) -> None:
        topic = cluster.topic()

        async def main() -> None:
            async with cluster.consumer(group_id=cluster.group()) as consumer:
                await consumer.subscribe([topic])
                await polling_until([consumer], lambda: sizes(consumer) == [1])
                before = consumer.group_metadata.generation_id
                consumer.enforce_rebalance("because")
                await polling_until([consumer], lambda: consumer.group_metadata.generation_id > before)

        asyncio.run(main())

    def test_settings_that_the_coordinator_refuses_are_reported(self, cluster: Cluster) -> None:
        with Consumer(**cluster.settings(group_id=cluster.group(), session_timeout_ms=99)) as consumer:
            consumer.subscribe([cluster.topic()])
            with pytest.raises(ApiError) as raised:
                _first(consumer)
            assert raised.value.code is ErrorCode.INVALID_SESSION_TIMEOUT


class TestCoordinatorRestart:
    def test_closing_does_not_hang_when_the_broker_is_gone(self) -> None:
        with Broker(GROUP_SETTINGS, process=True) as broker:
            cluster = Cluster(broker.bootstrap_servers)
            topic = cluster.topic()
            cluster.write(topic, ["a"])
            consumer = Consumer(**cluster.settings(group_id=cluster.group()))
            consumer.subscribe([topic])
            _first(consumer)
            broker.kill()
            began = time.monotonic()
            consumer.close(timeout_s=0.5)
            assert time.monotonic() - began < 5

    @pytest.mark.parametrize("strategy", usually(["range"], ["range", "cooperative-sticky"]))
    def test_a_group_survives_its_coordinator(self, strategy: str) -> None:
        """Each record at least once, and nothing that was committed before the crash again."""
        with Broker(GROUP_SETTINGS, process=True) as broker:
            cluster = Cluster(broker.bootstrap_servers)
            topic, group = cluster.topic(4), cluster.group()
            cluster.write(topic, range(500))
            settings = {
                "group_id": group,
                "partition_assignment_strategy": strategy,
                "reconnect_backoff_max_ms": 100,
                "session_timeout_ms": 5000,
            }

            async def main() -> None:
                async with cluster.consumer(**settings) as first, cluster.consumer(**settings) as second:
                    await first.subscribe([topic])
                    await second.subscribe([topic])
                    before = await polling_until(
                        [first, second], lambda: sizes(first, second) == [2, 2] and _at_end(first, second)
                    )
                    await first.commit()
                    await second.commit()
                    assert sorted(map(int, values(before))) == list(range(500))
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
                    await asyncio.to_thread(cluster.write, topic, range(500, 1000))
                    seen: set[str] = set()

                    async def gather(member: AsyncConsumer) -> None:
                        while len(seen) < 500:
                            seen.update(values(await member.poll(0.1)))

                    async with asyncio.timeout(20):
                        await asyncio.gather(gather(first), gather(second))
                    assert sorted(map(int, seen)) == list(range(500, 1000))

            asyncio.run(main())


def test_a_topic_partition_may_be_a_plain_pair(cluster: Cluster) -> None:
    topic = cluster.topic()
    with Consumer(**cluster.settings(group_id=cluster.group())) as consumer:
        consumer.assign([(topic, 0)])  # type: ignore[list-item]
        assert consumer.assignment == {TopicPartition(topic, 0)}
