"""Members of groups that the broker assigns (`group.protocol=consumer`, KIP-848). Run against Apache Kafka as well."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.consumer_support import Cluster, Diary, at, eventually, polling_until, read, values
from tidelog.client import (
    Admin,
    ApiError,
    AsyncConsumer,
    ClientConfigError,
    CommitFailed,
    Consumer,
    ErrorCode,
    Producer,
)
from tidelog.testing import Broker

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}


class ConsumerProtocolCluster(Cluster):
    """Consumers here use the newer protocol."""

    def settings(self, **more: Any) -> dict[str, Any]:
        settings = super().settings(group_protocol="consumer", **more)
        del settings["heartbeat_interval_ms"]
        return settings


@pytest.fixture(scope="module")
def cluster() -> Iterator[ConsumerProtocolCluster]:
    with Broker(SETTINGS) as broker:
        yield ConsumerProtocolCluster(broker.bootstrap_servers)


def sizes(*members: AsyncConsumer) -> list[int]:
    return [len(member.assignment) for member in members]


class TestHeartbeatGroups:
    @pytest.mark.parametrize("assignor", [None, "uniform", "range"])
    def test_members_share_partitions_and_every_record_is_read_once(
        self, cluster: ConsumerProtocolCluster, assignor: str | None
    ) -> None:
        topic = cluster.topic(4)
        cluster.write(topic, range(400))
        settings = {"group_id": cluster.group(), "group_remote_assignor": assignor, "max_poll_records": 50}

        async def main() -> None:
            came: list[Any] = []
            async with cluster.consumer(**settings) as first, cluster.consumer(**settings) as second:
                await first.subscribe([topic])
                came += await read(first, 100)
                assert sizes(first) == [4]
                await second.subscribe([topic])
                came += await polling_until([first, second], lambda: sizes(first, second) == [2, 2])
                await asyncio.to_thread(cluster.write, topic, range(400, 800))
                came += await polling_until([first, second], lambda: _at_end(first, second))
                assert first.assignment | second.assignment == {at(topic, number) for number in range(4)}
                await first.close()
                came += await polling_until([second], lambda: sizes(second) == [4])
                await asyncio.to_thread(cluster.write, topic, range(800, 1000))
                while len(came) < 1000:
                    came += await read(second, 1)
            assert sorted(map(int, values(came))) == list(range(1000))

        asyncio.run(main())

    def test_a_group_goes_on_where_it_left_off(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group = cluster.topic(2), cluster.group()
        cluster.write(topic, range(100))

        async def session(count: int) -> list[str]:
            async with cluster.consumer(group_id=group, max_poll_records=10) as consumer:
                await consumer.subscribe([topic])
                return values(await read(consumer, count))

        first = asyncio.run(session(30))
        second = asyncio.run(session(100 - len(first)))
        assert sorted(map(int, first + second)) == list(range(100))

    def test_members_keep_what_stays_and_hear_what_moves(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group, diary = cluster.topic(2), cluster.group(), Diary()

        async def main() -> None:
            async with cluster.consumer(group_id=group) as first, cluster.consumer(group_id=group) as second:
                await first.subscribe([topic], listener=diary)
                await polling_until([first], lambda: sizes(first) == [2])
                await second.subscribe([topic])
                await polling_until([first, second], lambda: sizes(first, second) == [1, 1])
                await first.close()

        asyncio.run(main())
        kinds = [kind for kind, _ in diary.entries]
        assert kinds == ["assigned", "revoked", "revoked"]
        assert sorted(diary.entries[1][1] + diary.entries[2][1]) == [0, 1]

    def test_a_pattern_finds_topics_that_come_later(self, cluster: ConsumerProtocolCluster) -> None:
        prefix = cluster.group()
        topic = cluster.topic(prefix=f"{prefix}-a")
        cluster.write(topic, ["a"])

        async def main() -> None:
            async with cluster.consumer(group_id=cluster.group(), metadata_max_age_ms=100) as consumer:
                await consumer.subscribe(pattern=f"{prefix}.*")
                assert values(await read(consumer, 1)) == ["a"]
                other = await asyncio.to_thread(cluster.topic, prefix=f"{prefix}-b")
                await asyncio.to_thread(cluster.write, other, ["b"])
                assert values(await read(consumer, 1)) == ["b"]

        asyncio.run(main())

    def test_subscribing_to_something_else_moves_on(self, cluster: ConsumerProtocolCluster) -> None:
        old, new = cluster.topic(), cluster.topic()

        async def main() -> None:
            async with cluster.consumer(group_id=cluster.group()) as consumer:
                await consumer.subscribe([old])
                await polling_until([consumer], lambda: consumer.assignment == {at(old)})
                await consumer.subscribe([new])
                await polling_until([consumer], lambda: consumer.assignment == {at(new)})
                await consumer.unsubscribe()
                assert consumer.assignment == frozenset()

        asyncio.run(main())

    def test_new_partitions_are_shared_out(self, cluster: ConsumerProtocolCluster) -> None:
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

    def test_who_does_not_poll_loses_its_partitions_and_cannot_commit(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group, diary = cluster.topic(), cluster.group(), Diary()
        cluster.write(topic, range(10))

        async def main() -> None:
            settings = {"group_id": group, "max_poll_interval_ms": 300, "enable_auto_commit": False}
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

    def test_a_member_that_vanishes_is_replaced_when_its_session_ends(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(10))

        async def main() -> None:
            gone = AsyncConsumer(**cluster.settings(group_id=group))
            await gone.subscribe([topic])
            await read(gone, 10)
            await gone._engine.client.close()  # as if its machine lost power: no commit, no goodbye
            async with cluster.consumer(group_id=group) as heir:
                await heir.subscribe([topic])
                assert len(await read(heir, 10)) == 10

        asyncio.run(main())

    def test_a_static_member_that_restarts_gets_its_partitions_back(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group = cluster.topic(2), cluster.group()

        async def main() -> None:
            settings: dict[str, Any] = {"group_id": group}
            async with cluster.consumer(**settings, group_instance_id="stays") as other:
                restarted = AsyncConsumer(**cluster.settings(**settings, group_instance_id="restarts"))
                await other.subscribe([topic])
                await restarted.subscribe([topic])
                await polling_until([other, restarted], lambda: sizes(other, restarted) == [1, 1])
                mine = restarted.assignment
                await restarted.close()
                async with cluster.consumer(**settings, group_instance_id="restarts") as again:
                    await again.subscribe([topic])
                    await polling_until([other, again], lambda: again.assignment == mine)
                    assert sizes(other) == [1]

        asyncio.run(main())

    def test_a_name_that_is_in_use_is_refused(self, cluster: ConsumerProtocolCluster) -> None:
        topic = cluster.topic()

        async def main() -> None:
            settings = {"group_id": cluster.group(), "group_instance_id": "one"}
            async with cluster.consumer(**settings) as first, cluster.consumer(**settings) as second:
                await first.subscribe([topic])
                await polling_until([first], lambda: sizes(first) == [1])
                await second.subscribe([topic])
                with pytest.raises(ApiError) as raised:
                    await second.poll(10)
                assert raised.value.code is ErrorCode.UNRELEASED_INSTANCE_ID

        asyncio.run(main())

    def test_an_assignor_that_the_broker_does_not_have_is_refused(self, cluster: ConsumerProtocolCluster) -> None:
        topic = cluster.topic()
        settings = cluster.settings(group_id=cluster.group(), group_remote_assignor="dice")
        with Consumer(**settings) as consumer:
            consumer.subscribe([topic])
            with pytest.raises(ApiError) as raised:
                consumer.poll(10)
            assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR

    def test_offsets_go_with_a_transaction_in_the_members_name(self, cluster: ConsumerProtocolCluster) -> None:
        topic, group = cluster.topic(), cluster.group()
        cluster.write(topic, range(5))
        with (
            Consumer(**cluster.settings(group_id=group, enable_auto_commit=False)) as consumer,
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group) as producer,
        ):
            consumer.subscribe([topic])
            producer.init_transactions()
            count = 0
            while count < 5:
                records = consumer.poll(1.0)
                if records:
                    count += len(records)
                    with producer.transaction():
                        producer.send_offsets_to_transaction(records.next_offsets, consumer.group_metadata)
            assert consumer.group_metadata.generation_id >= 1
            assert consumer.committed(at(topic))[at(topic)].offset == 5

    def test_a_commit_that_crosses_a_new_epoch_is_sent_again(self, cluster: ConsumerProtocolCluster) -> None:
        """Members come and go while one commits all the time; none of its commits fails."""
        topic, group = cluster.topic(4), cluster.group()
        cluster.write(topic, range(100))

        async def main() -> None:
            async with cluster.consumer(group_id=group, enable_auto_commit=False) as steady:
                await steady.subscribe([topic])
                await read(steady, 100)
                done = False

                async def commit() -> None:
                    while not done:
                        await steady.poll(0.01)
                        await steady.commit()

                committing = asyncio.create_task(commit())
                for _ in range(3):
                    async with cluster.consumer(group_id=group) as passing:
                        await passing.subscribe([topic])
                        await polling_until([passing], lambda: bool(passing.assignment))
                done = True
                await committing

                async def everything_is_back() -> bool:
                    await steady.poll(0.05)
                    return len(steady.assignment) == 4

                await eventually(everything_is_back)

        asyncio.run(main())


def _at_end(*members: AsyncConsumer) -> bool:
    return all(member.lag(partition) == 0 for member in members for partition in member.assignment)


def test_settings_of_the_other_protocol_are_refused() -> None:
    for name in ("session_timeout_ms", "heartbeat_interval_ms"):
        settings: dict[str, Any] = {name: 10_000}
        with pytest.raises(ClientConfigError, match=f"{name.replace('_', '.')} has no effect with group.protocol"):
            Consumer(bootstrap_servers="localhost:1", group_id="g", group_protocol="consumer", **settings)
    with pytest.raises(ClientConfigError, match=r"group.remote.assignor needs group.protocol=consumer"):
        Consumer(bootstrap_servers="localhost:1", group_id="g", group_remote_assignor="range")


def test_a_broker_without_the_protocol_is_named() -> None:
    with Broker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        cluster = ConsumerProtocolCluster(broker.bootstrap_servers)
        topic = cluster.topic()
        with Consumer(**cluster.settings(group_id="g")) as consumer:
            consumer.subscribe([topic])
            with pytest.raises(ApiError) as raised:
                consumer.poll(10)
            assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
