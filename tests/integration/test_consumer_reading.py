"""The consumer on its own: what it reads, from where, in which order, and how it is interrupted."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.integration.consumer_support import Cluster, at, read, values
from tests.unit.present import present
from tidelog.client import Admin, AsyncConsumer, Consumer, OffsetAndMetadata
from tidelog.client.aio.consumer.errors import (
    ConcurrentAccess,
    DeserializationFailed,
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
    Woken,
)
from tidelog.client.errors import ClientClosed, DeadlinePassed, IllegalState
from tidelog.records.batch import iterate_batches
from tidelog.records.compression import Codec
from tidelog.testing import Broker
from tidelog.wire.errors import ApiError, ErrorCode


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        yield Cluster(broker.bootstrap_servers)


class TestOrder:
    def test_every_partition_is_read_in_order_and_once(self, cluster: Cluster) -> None:
        topic = cluster.topic(3)
        for partition in range(3):
            cluster.write(topic, range(partition * 1000, partition * 1000 + 1000), partition=partition)

        async def main() -> None:
            async with cluster.consumer() as consumer:
                await consumer.assign([at(topic, partition) for partition in range(3)])
                records = await read(consumer, 3000)
                for partition in range(3):
                    mine = [record for record in records if record.partition == partition]
                    assert [record.offset for record in mine] == list(range(1000))
                    assert values(mine) == [str(partition * 1000 + number) for number in range(1000)]

        asyncio.run(main())

    def test_a_poll_returns_no_more_than_it_may_and_skips_nothing(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(1000))

        async def main() -> None:
            async with cluster.consumer(max_poll_records=7) as consumer:
                await consumer.assign([at(topic)])
                offsets: list[int] = []
                while len(offsets) < 1000:
                    records = await consumer.poll(5)
                    assert 0 < len(records) <= 7
                    assert records.next_offsets[at(topic)].offset == records.of(at(topic))[-1].offset + 1
                    offsets += [record.offset for record in records]
                assert offsets == list(range(1000))

        asyncio.run(main())

    @pytest.mark.parametrize("codec", list(Codec))
    def test_codecs_make_no_difference(self, cluster: Cluster, codec: Codec) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(500), codec=codec)
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            seen: list[str] = []
            while len(seen) < 500:
                seen += values(consumer.poll(5))
        assert seen == [str(number) for number in range(500)]

    def test_new_records_come_without_delay(self, cluster: Cluster) -> None:
        """A fetch waits at the broker and is answered the moment there is something."""
        topic = cluster.topic()

        async def main() -> None:
            async with cluster.consumer(fetch_max_wait_ms=10_000) as consumer:
                await consumer.assign([at(topic)])
                assert not await consumer.poll(0.1)
                waiting = asyncio.create_task(consumer.poll(10))
                began = time.monotonic()
                await asyncio.to_thread(cluster.write, topic, ["now"])
                assert values(await waiting) == ["now"]
                assert time.monotonic() - began < 5

        asyncio.run(main())


class TestPositions:
    def test_seeking_and_asking_where_we_are(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(100))
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            assert consumer.position(at(topic)) == 0
            consumer.seek(at(topic), 90)
            assert values(consumer.poll(5))[0] == "90"
            assert consumer.position(at(topic)) == 100
            assert consumer.lag(at(topic)) == 0
            consumer.seek_to_beginning()
            assert values(consumer.poll(5))[0] == "0"
            consumer.seek_to_end(at(topic))
            assert consumer.position(at(topic)) == 100
            consumer.seek(at(topic), OffsetAndMetadata(50, "", 0))
            assert values(consumer.poll(5))[0] == "50"

    def test_reading_again_from_what_was_committed(self, cluster: Cluster) -> None:
        """Partitions without a commit begin where auto.offset.reset says."""
        topic = cluster.topic(partitions=2)
        for partition in (0, 1):
            cluster.write(topic, range(5), partition=partition)

        async def test() -> None:
            async with cluster.consumer(group_id=cluster.group()) as consumer:
                await consumer.assign([at(topic), at(topic, 1)])
                await read(consumer, 10)
                await consumer.commit({at(topic): 3})
                assert await consumer.seek_to_committed() == {at(topic): OffsetAndMetadata(3)}
                assert values(await read(consumer, 7)) in (list("3401234"), list("0123434"))
                with pytest.raises(IllegalState, match="not assigned"):
                    await consumer.seek_to_committed(at("other"))
            async with cluster.consumer(group_id=cluster.group(), auto_offset_reset="none") as consumer:
                await consumer.assign([at(topic)])
                with pytest.raises(NoOffset):
                    await consumer.seek_to_committed(at(topic))

        asyncio.run(test())
        with Consumer(**cluster.settings(group_id=cluster.group())) as blocking:
            blocking.assign([at(topic)])
            blocking.commit({at(topic): 4})
            assert blocking.seek_to_committed(at(topic)) == {at(topic): OffsetAndMetadata(4)}
            assert blocking.position(at(topic)) == 4

    def test_paused_partitions_wait_with_what_was_fetched(self, cluster: Cluster) -> None:
        topic = cluster.topic(2)
        for partition in range(2):
            cluster.write(topic, range(100), partition=partition)
        with Consumer(**cluster.settings(max_poll_records=10)) as consumer:
            consumer.assign([at(topic, 0), at(topic, 1)])
            first = consumer.poll(5).partitions[0]
            consumer.pause(first)
            assert consumer.paused == {first}
            others = [record for _ in range(15) for record in consumer.poll(0.1)]
            assert {record.topic_partition for record in others} == {at(topic, 1 - first.partition)}
            consumer.resume(first)
            assert consumer.poll(5).of(first)[0].offset == 10

    def test_offsets_by_time_and_at_the_ends(self, cluster: Cluster) -> None:
        topic = cluster.topic(2)
        for second in range(5):
            cluster.write(topic, [second], partition=0, timestamp_ms=1_000_000 + second * 1000)
        with Consumer(**cluster.settings()) as consumer:
            assert consumer.beginning_offsets(at(topic)) == {at(topic): 0}
            assert consumer.end_offsets(at(topic, 0), at(topic, 1)) == {at(topic, 0): 5, at(topic, 1): 0}
            found = consumer.offsets_for_times({at(topic, 0): 1_001_500, at(topic, 1): 0})
            assert found[at(topic, 0)] is not None
            assert present(found[at(topic, 0)])[:2] == (2, 1_002_000)
            assert found[at(topic, 1)] is None
            assert [each.partition for each in consumer.partitions_for(topic)] == [0, 1]
            assert topic in consumer.list_topics()

    def test_an_unknown_partition_is_given_up_in_time(self, cluster: Cluster) -> None:
        with Consumer(**cluster.settings()) as consumer:
            with pytest.raises(DeadlinePassed, match="nowhere-0"):
                consumer.end_offsets(at("nowhere"), timeout_s=0.3)
            assert consumer.partitions_for("nowhere") == ()

    def test_leaving_an_iteration_skips_nothing(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(100))
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            for record in consumer:
                if record.offset == 9:
                    break
            assert consumer.position(at(topic)) == 10
            assert values(consumer.poll(5))[0] == "10"

    def test_nor_does_leaving_one_under_asyncio(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(100))

        async def main() -> None:
            async with cluster.consumer() as consumer:
                await consumer.assign([at(topic)])
                async for record in consumer:
                    if record.offset == 9:
                        break
                assert await consumer.position(at(topic)) == 10
                assert values(await consumer.poll(5))[0] == "10"

        asyncio.run(main())


class TestResets:
    def read_first(self, cluster: Cluster, topic: str, policy: str) -> str | None:
        with Consumer(**cluster.settings(auto_offset_reset=policy)) as consumer:
            consumer.assign([at(topic)])
            consumer.position(at(topic))
            cluster.write(topic, ["newest"])
            return values(consumer.poll(5))[0]

    def test_each_policy_begins_where_it_says(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        now_ms = int(time.time() * 1000)
        cluster.write(topic, ["old"], timestamp_ms=now_ms - 7_200_000)
        cluster.write(topic, ["recent"], timestamp_ms=now_ms - 60_000)
        assert self.read_first(cluster, topic, "earliest") == "old"
        assert self.read_first(cluster, topic, "by_duration:PT1H") == "recent"
        assert self.read_first(cluster, topic, "latest") == "newest"

    def test_a_duration_younger_than_every_record_is_the_end(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, ["old"], timestamp_ms=1000)
        assert self.read_first(cluster, topic, "by_duration:PT1M") == "newest"

    def test_without_a_policy_there_must_be_a_position(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        with Consumer(**cluster.settings(auto_offset_reset="none")) as consumer:
            consumer.assign([at(topic)])
            with pytest.raises(NoOffset, match=topic):
                consumer.poll(1)
            consumer.seek(at(topic), 0)
            assert not consumer.poll(0.05)

    def test_records_deleted_under_us_make_the_policy_decide(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(100))
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.delete_records({at(topic): 40})
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            consumer.seek(at(topic), 10)
            assert values(consumer.poll(5))[0] == "40"
        with Consumer(**cluster.settings(auto_offset_reset="none")) as consumer:
            consumer.assign([at(topic)])
            consumer.seek(at(topic), 10)
            with pytest.raises(OffsetOutOfRange) as raised:
                consumer.poll(5)
            assert raised.value.offsets == {at(topic): 10}
            consumer.seek(at(topic), 99)
            assert values(consumer.poll(5)) == ["99"]


class TestInterrupts:
    """Ctrl-C, or any handler of a signal that raises, at the worst of moments."""

    @pytest.mark.parametrize("poll", [Consumer.poll, Consumer.poll_batches])
    def test_what_a_poll_took_when_its_caller_was_interrupted_is_read_again(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, poll: Callable[[Consumer, float], Iterable[Any]]
    ) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(100), partition=0)
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            run = consumer._caller.run

            def run_and_interrupt(work: Coroutine[Any, Any, Any]) -> None:
                monkeypatch.undo()
                run(work)
                raise KeyboardInterrupt

            monkeypatch.setattr(consumer._caller, "run", run_and_interrupt)
            with pytest.raises(KeyboardInterrupt):
                poll(consumer, 5)
            assert values(consumer.poll(5)) == [str(each) for each in range(100)]

    def test_a_poll_that_is_interrupted_before_it_began_takes_nothing_back(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(10), partition=0)
        with Consumer(**cluster.settings(max_poll_records=5)) as consumer:
            consumer.assign([at(topic)])
            assert len(consumer.poll(5)) == 5

            def interrupt(work: Coroutine[Any, Any, Any]) -> None:
                monkeypatch.undo()
                work.close()
                raise KeyboardInterrupt

            monkeypatch.setattr(consumer._caller, "run", interrupt)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(5)
            assert values(consumer.poll(5)) == ["5", "6", "7", "8", "9"]


class TestRecords:
    def test_deserializers_make_of_bytes_what_they_mean(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, [b'{"a": 1}', b"{", b'{"a": 2}'], partition=0)
        decode = {"value_deserializer": json.loads}
        with Consumer(**cluster.settings(**decode)) as consumer:
            consumer.assign([at(topic)])
            assert [record.value for record in consumer.poll(5)] == [{"a": 1}]
            for _ in range(2):
                with pytest.raises(DeserializationFailed) as raised:
                    consumer.poll(5)
            consumer.seek(raised.value.partition, raised.value.offset + 1)
            assert [record.value for record in consumer.poll(5)] == [{"a": 2}]

    def test_interceptors_see_records_first(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, ["a"])
        seen: list[str] = []

        class Watching:
            def on_consume(self, records):  # type: ignore[no-untyped-def]
                seen.append(f"consumed {len(records)}")
                return records

            def on_commit(self, offsets):  # type: ignore[no-untyped-def]
                seen.append(f"committed {[place.offset for place in offsets.values()]}")

            def close(self) -> None:
                seen.append("closed")

        with Consumer(**cluster.settings(group_id=cluster.group(), interceptor_classes=[Watching()])) as consumer:
            consumer.assign([at(topic)])
            assert len(consumer.poll(5)) == 1
            consumer.commit()
        assert seen == ["consumed 1", "committed [1]", "committed [1]", "closed"]

    def test_whole_batches_can_be_had_undecoded(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, range(2000))
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(topic)])
            consumer.seek(at(topic), 5)
            count, expected = 0, 5
            while expected < 2000:
                for taken in consumer.poll_batches(5):
                    assert (taken.topic, taken.partition, taken.first_offset) == (topic, 0, expected)
                    headers = [header for _, header in iterate_batches(taken.data)]
                    count += sum(header.record_count for header in headers)
                    assert headers[-1].next_offset == taken.next_offset
                    expected = taken.next_offset
            assert count == 2000
            assert consumer.position(at(topic)) == 2000


class TestTransactions:
    """With read_committed only what was committed is returned, and nothing behind what is still open."""

    def producer(self, cluster: Cluster) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": cluster.group(), "log_level": 0}
        )
        producer.init_transactions(20)
        return producer

    def write(self, producer: confluent_kafka.Producer, topic: str, *texts: str) -> None:
        producer.begin_transaction()
        for text in texts:
            producer.produce(topic, text, partition=0)
        producer.flush(20)

    def read(self, cluster: Cluster, topic: str, count: int, isolation: str) -> tuple[list[str], int]:
        with Consumer(**cluster.settings(isolation_level=isolation)) as consumer:
            consumer.assign([at(topic)])
            seen: list[str] = []
            while len(seen) < count:
                seen += values(consumer.poll(5))
            seen += values(consumer.poll(0.1))
            return seen, consumer.position(at(topic))

    def test_aborted_records_are_left_out_and_markers_passed_over(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        producer = self.producer(cluster)
        self.write(producer, topic, "a", "b")
        producer.commit_transaction(20)
        self.write(producer, topic, "lost", "gone")
        producer.abort_transaction(20)
        cluster.write(topic, ["plain"])
        self.write(producer, topic, "c")
        producer.commit_transaction(20)
        # Two records and a marker, twice, the plain one, one record and a marker.
        assert self.read(cluster, topic, 4, "read_committed") == (["a", "b", "plain", "c"], 9)
        assert self.read(cluster, topic, 6, "read_uncommitted")[0] == ["a", "b", "lost", "gone", "plain", "c"]

    def test_what_is_open_holds_back_all_that_follows(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        producer = self.producer(cluster)
        cluster.write(topic, ["before"])
        self.write(producer, topic, "open")
        cluster.write(topic, ["after"])
        settings = {"isolation_level": "read_committed"}
        with Consumer(**cluster.settings(**settings)) as consumer:
            consumer.assign([at(topic)])
            assert values(consumer.poll(5)) == ["before"]
            assert not consumer.poll(0.2)
            assert consumer.end_offsets(at(topic)) == {at(topic): 1}
            assert consumer.lag(at(topic)) == 0
            producer.commit_transaction(20)
            seen: list[str] = []
            while len(seen) < 2:
                seen += values(consumer.poll(5))
            assert seen == ["open", "after"]


class TestCallers:
    def test_a_second_thread_is_refused(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        with Consumer(**cluster.settings()) as consumer, ThreadPoolExecutor(1) as pool:
            consumer.assign([at(topic)])
            polling = pool.submit(consumer.poll, 30)
            while consumer._owner is None:
                time.sleep(0.001)
            with pytest.raises(ConcurrentAccess, match="one thread at a time"):
                consumer.poll(0)
            consumer.wakeup()
            with pytest.raises(Woken):
                polling.result(5)

    def test_a_second_task_is_refused(self, cluster: Cluster) -> None:
        topic = cluster.topic()

        async def main() -> None:
            async with cluster.consumer() as consumer:
                await consumer.assign([at(topic)])
                polling = asyncio.create_task(consumer.poll(30))
                await asyncio.sleep(0)
                with pytest.raises(ConcurrentAccess, match="one task at a time"):
                    await consumer.position(at(topic))
                consumer.wakeup()
                with pytest.raises(Woken):
                    await polling
                assert not await consumer.poll(0.01), "one wakeup ends one call"

        asyncio.run(main())

    def test_a_consumer_can_be_made_before_there_is_a_loop(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.write(topic, ["value"])
        consumer = AsyncConsumer(**cluster.settings())
        assert consumer.assignment == frozenset()
        with pytest.raises(IllegalState, match="no event loop is running"):
            consumer.seek(at(topic), 0)

        async def test() -> None:
            assert await consumer.start() is consumer
            await consumer.assign([at(topic)])
            assert values(await read(consumer, 1)) == ["value"]
            await consumer.stop()
            with pytest.raises(ClientClosed):
                await consumer.poll(0)

        asyncio.run(test())

    def test_one_that_was_never_used_is_closed_anywhere(self) -> None:
        asyncio.run(AsyncConsumer(bootstrap_servers="127.0.0.1:1").close())

    def test_a_wakeup_that_comes_early_is_kept(self, cluster: Cluster) -> None:
        with Consumer(**cluster.settings()) as consumer:
            consumer.assign([at(cluster.topic())])
            consumer.wakeup()
            with pytest.raises(Woken):
                consumer.poll(30)

    def test_closing_ends_the_background_thread(self, cluster: Cluster) -> None:
        before = threading.active_count()
        consumer = Consumer(**cluster.settings())
        consumer.assign([at(cluster.topic())])
        consumer.poll(0.05)
        consumer.close()
        consumer.close()
        assert threading.active_count() == before
        with pytest.raises(ClientClosed):
            consumer.poll(0)

    def test_calls_that_make_no_sense_say_so(self, cluster: Cluster) -> None:
        topic = cluster.topic()
        with Consumer(**cluster.settings()) as consumer:
            with pytest.raises(IllegalState, match="has no subscription"):
                consumer.poll(0)
            with pytest.raises(IllegalState, match=r"needs a group\.id"):
                consumer.subscribe([topic])
            with pytest.raises(IllegalState, match=r"needs a group\.id"):
                consumer.commit()
            with pytest.raises(IllegalState, match="is not assigned"):
                consumer.seek(at(topic), 0)
            consumer.assign([at(topic)])
            with pytest.raises(ValueError, match="-5 is not an offset"):
                consumer.seek(at(topic), -5)

    def test_an_illegal_topic_name_is_an_error(self, cluster: Cluster) -> None:
        with Consumer(**cluster.settings(group_id=cluster.group())) as consumer:
            consumer.subscribe(["no/such"])
            with pytest.raises(ApiError) as raised:
                consumer.poll(5)
            assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


class TestTrouble:
    def test_without_a_broker_a_poll_ends_in_time_and_goes_on_when_there_is_one(self) -> None:
        with Broker(process=True) as broker:
            cluster = Cluster(broker.bootstrap_servers)
            topic = cluster.topic()
            cluster.write(topic, range(10))
            broker.kill()
            with Consumer(**cluster.settings(reconnect_backoff_max_ms=100)) as consumer:
                consumer.assign([at(topic)])
                began = time.monotonic()
                assert not consumer.poll(0.3)
                assert time.monotonic() - began < 5
                broker.start()
                assert len(consumer.poll(10)) == 10

    @pytest.mark.parametrize("policy", ["earliest", "none"])
    def test_a_log_that_lost_its_tail_is_noticed(self, policy: str) -> None:
        """KIP-320: the new leader epoch gives it away, though the log soon reaches the old position again."""
        with Broker(process=True) as broker:
            cluster = Cluster(broker.bootstrap_servers)
            topic = cluster.topic()
            for number in range(10):
                cluster.write(topic, [f"old-{number}"])
            settings = {"auto_offset_reset": policy, "reconnect_backoff_max_ms": 50}
            with Consumer(**cluster.settings(**settings)) as consumer:
                consumer.assign([at(topic)])
                consumer.seek(at(topic), 0)
                seen: list[str] = []
                while len(seen) < 10:
                    seen += values(consumer.poll(5))
                broker.kill()
                (segment,) = Path(broker.data_dir, f"{topic}-0").glob("*.log")
                batch_bytes = segment.stat().st_size // 10
                os.truncate(segment, 4 * batch_bytes)
                broker.start()
                cluster.write(topic, [f"new-{number}" for number in range(20)])
                if policy == "none":
                    with pytest.raises(LogTruncated) as raised:
                        consumer.poll(10)
                    assert raised.value.offsets == {at(topic): 10}
                    assert raised.value.divergent[at(topic)].offset == 4
                else:
                    assert values(consumer.poll(10))[0] == "new-0"

    def test_a_broker_that_dies_while_we_read_costs_no_record(self) -> None:
        with Broker({"log.flush.interval.messages": "1"}, process=True) as broker:
            cluster = Cluster(broker.bootstrap_servers)
            topic = cluster.topic(2)
            for partition in range(2):
                cluster.write(topic, range(3000), partition=partition)

            async def main() -> None:
                more = {"max_poll_records": 100, "max_partition_fetch_bytes": 20_000, "reconnect_backoff_max_ms": 100}
                async with AsyncConsumer(**cluster.settings(**more)) as consumer:
                    await consumer.assign([at(topic, 0), at(topic, 1)])
                    records = await read(consumer, 1500)
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
                    records += await read(consumer, 6000 - len(records))
                    for partition in range(2):
                        mine = [record.offset for record in records if record.partition == partition]
                        assert mine == list(range(3000))

            asyncio.run(main())
