"""Our share consumers over sockets: alone, beside confluent-kafka's, and in a cluster whose leader dies."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import ShareConsumer as OtherShareConsumer

from tests.integration.client_support import SECONDS, run, unique
from tests.integration.writers import wait_until
from tidelog.client import (
    AcknowledgeType,
    Admin,
    AsyncShareConsumer,
    ConcurrentAccess,
    DeserializationFailed,
    IllegalState,
    Producer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    Woken,
)
from tidelog.testing import Broker, Cluster
from tidelog.wire.errors import ErrorCode

LOCK_S = 2.0
SETTINGS = {
    "group.share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "share.coordinator.state.topic.num.partitions": "3",
}
EXPLICIT = {"share_acknowledgement_mode": "explicit", "fetch_max_wait_ms": 100}
Records = list[ShareRecord[bytes, bytes]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


def member(servers: str, topic: str, **settings: object) -> ShareConsumer[bytes, bytes]:
    """A member of the topic's group. A new group begins at the end: when this returns, it has begun."""
    group = f"group-{topic}"
    settings = {"group_id": group, "fetch_max_wait_ms": 100, **settings}
    consumer = ShareConsumer[bytes, bytes](bootstrap_servers=servers, **settings)  # type: ignore[arg-type]
    consumer.subscribe([topic])
    with Admin(bootstrap_servers=servers) as admin:
        count = len(admin.describe_topics([topic])[topic].partitions)
        known = {each.group_id for each in admin.list_groups(types=["Share"])}

        def has_begun() -> bool:
            assert consumer.poll(0.1) == []
            is_there = group in {each.group_id for each in admin.list_groups(types=["Share"])}
            return is_there and len(admin.list_share_group_offsets(group)) == count

        if group not in known:
            wait_until(has_begun, f"{group} begins")
    return consumer


def write(servers: str, topic: str, *values: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
        for value in values:
            producer.send(topic, value.encode(), partition=0)


def receive(consumer: ShareConsumer[bytes, bytes], count: int = 1) -> Records:
    found: Records = []

    def poll() -> bool:
        found.extend(consumer.poll(0.5))
        return len(found) >= count

    wait_until(poll, f"{count} records")
    return found


def seen(records: Records) -> list[tuple[bytes | None, int]]:
    return [(each.value, each.delivery_count) for each in records]


def new_topic(broker: Broker | Cluster) -> str:
    name = unique("work")
    broker.create_topic(name)
    return name


def test_records_are_accepted_by_the_next_poll_and_released_by_closing(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic, max_poll_records=2, share_acquire_mode="record_limit") as ann:
        write(broker.bootstrap_servers, topic, *"abcd")
        assert seen(ann.poll(SECONDS)) == [(b"a", 1), (b"b", 1)]
        assert seen(ann.poll(SECONDS)) == [(b"c", 1), (b"d", 1)]
    with member(broker.bootstrap_servers, topic) as bob:
        assert seen(receive(bob, 2)) == [(b"c", 1), (b"d", 1)], "closing does not accept them, nor count a delivery"
        assert bob.commit() == {TopicPartition(topic, 0): None}
        write(broker.bootstrap_servers, topic, "e")
        assert seen(receive(bob)) == [(b"e", 1)]


def test_each_record_is_acknowledged_as_the_application_says(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic, **EXPLICIT) as ann:
        write(broker.bootstrap_servers, topic, "done", "again", "never", "longer")
        done, again, never, longer = receive(ann, 4)
        ann.acknowledge(done)
        ann.acknowledge(again, AcknowledgeType.RELEASE, delay_s=0.05)
        ann.acknowledge(never, AcknowledgeType.REJECT)
        with pytest.raises(ValueError, match="RELEASE only"):
            ann.acknowledge(longer, AcknowledgeType.REJECT, delay_s=1)
        with pytest.raises(IllegalState, match="1 records"):
            ann.poll(0)
        ann.acknowledge(longer, AcknowledgeType.RENEW)
        assert ann.commit() == {TopicPartition(topic, 0): None}
        with pytest.raises(IllegalState, match="cannot be acknowledged"):
            ann.acknowledge(done)
        found: Records = []

        def take_and_accept() -> bool:
            for record in ann.poll(0.5):
                found.append(record)
                ann.acknowledge(record)
            return len(found) == 2

        wait_until(take_and_accept, "two records more")
        assert sorted(seen(found)) == [(b"again", 2), (b"longer", 1)]


@pytest.mark.long
def test_a_lock_ends_unless_it_is_renewed_and_late_acknowledgements_are_refused(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic, **EXPLICIT) as ann, member(broker.bootstrap_servers, topic) as bob:
        write(broker.bootstrap_servers, topic, "x")
        (record,) = receive(ann)
        assert ann.acquisition_lock_timeout_s == LOCK_S
        assert seen(receive(bob)) == [(b"x", 2)], "the lock has timed out"
        ann.acknowledge(record)
        outcome = ann.commit()[TopicPartition(topic, 0)]
        assert getattr(outcome, "code", None) is ErrorCode.INVALID_RECORD_STATE
        bob.commit()


def test_an_iteration_accepts_what_it_has_passed_and_releases_where_it_was_left(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic) as ann:
        write(broker.bootstrap_servers, topic, *"abc")
        for record in ann:
            if record.value == b"b":
                break
        assert sorted(seen(receive(ann, 2))) == [(b"b", 2), (b"c", 1)]


def test_outcomes_come_to_a_callback_in_the_calling_thread(broker: Broker) -> None:
    topic = new_topic(broker)
    calls: list[tuple[object, object, int]] = []
    with member(broker.bootstrap_servers, topic) as ann:
        ann.set_acknowledgement_commit_callback(
            lambda offsets, error: calls.append((offsets, error, threading.get_ident()))
        )
        write(broker.bootstrap_servers, topic, "x")
        receive(ann)
        ann.commit_async()
        wait_until(lambda: not ann.poll(0.1) and bool(calls), "the callback")
    assert calls == [({TopicPartition(topic, 0): frozenset({0})}, None, threading.get_ident())]


def test_what_cannot_be_deserialized_is_raised_and_can_be_rejected(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic, value_deserializer=json.loads, **EXPLICIT) as ann:
        write(broker.bootstrap_servers, topic, "1", "{", "2")
        (first,) = receive(ann)
        ann.acknowledge(first)
        with pytest.raises(DeserializationFailed, match="offset 1"):
            ann.poll(SECONDS)
        ann.acknowledge_offset(topic, 0, 1, AcknowledgeType.REJECT)
        (third,) = receive(ann)
        assert (first.value, third.value) == (1, 2)
        ann.acknowledge(third)
        assert ann.commit() == {TopicPartition(topic, 0): None}
        assert ann.poll(0.5) == []


def test_wakeup_ends_a_poll_and_a_second_thread_is_refused(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker.bootstrap_servers, topic) as ann:
        refused: list[type[Exception]] = []

        def interfere() -> None:
            wait_until(lambda: ann._owner is not None, "the other poll")
            try:
                ann.poll(0)
            except ConcurrentAccess as error:
                refused.append(type(error))
            ann.wakeup()

        thread = threading.Thread(target=interfere)
        thread.start()
        with pytest.raises(Woken):
            ann.poll(60)
        thread.join(SECONDS)
        assert refused == [ConcurrentAccess]


def test_a_signal_that_interrupts_a_poll_loses_no_records(broker: Broker) -> None:
    """What the poll took meanwhile is neither accepted nor counted as delivered again."""

    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    topic = new_topic(broker)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with member(broker.bootstrap_servers, topic) as ann:
            sender = threading.Thread(target=signal_once_it_polls, args=(ann,))
            sender.start()
            with pytest.raises(Interrupted):
                ann.poll(60)
            sender.join(SECONDS)
            write(broker.bootstrap_servers, topic, "x")
            assert seen(receive(ann)) == [(b"x", 1)]
    finally:
        signal.signal(signal.SIGUSR1, before)


def signal_once_it_polls(consumer: ShareConsumer[bytes, bytes]) -> None:
    wait_until(lambda: consumer._owner is not None, "the poll")
    os.kill(os.getpid(), signal.SIGUSR1)


def test_under_asyncio(broker: Broker) -> None:
    topic = new_topic(broker)
    member(broker.bootstrap_servers, topic).close()  # the group has its settings now

    async def work() -> list[tuple[bytes | None, int]]:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group-{topic}"}
        async with AsyncShareConsumer[bytes, bytes](settings) as consumer:
            await consumer.subscribe([topic])
            found = []
            async for record in consumer:
                found.append((record.value, record.delivery_count))
                if len(found) == 2:
                    return found
        raise AssertionError("the loop does not end by itself")

    write(broker.bootstrap_servers, topic, "a", "b")
    assert run(work()) == [(b"a", 1), (b"b", 1)]


def test_beside_the_share_consumer_of_confluent_kafka_each_record_is_done_once(broker: Broker) -> None:
    topic = new_topic(broker)
    ours: list[str] = []
    theirs: list[str] = []
    settings = {"max_poll_records": 10, "share_acquire_mode": "record_limit"}
    with (
        member(broker.bootstrap_servers, topic, **settings) as ann,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        # Only now: a member waits for its group to begin, unless another one is in it.
        other = OtherShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group-{topic}"})
        other.subscribe([topic])
        written: list[str] = []

        def turn() -> bool:
            """Both have had records, and all that was written is done. Ours leaves some at each turn."""
            if not (ours and theirs):
                for _ in range(20):
                    written.append(str(len(written)))
                    producer.send(topic, written[-1].encode())
                producer.flush()
            ours.extend((record.value or b"").decode() for record in ann.poll(0.2))
            theirs.extend((message.value() or b"").decode() for message in other.poll(timeout=0.2))
            return bool(ours and theirs) and len(ours) + len(theirs) >= len(written)

        wait_until(turn, "both have records and all are done", 60)
        other.close()
        ann.commit()
    assert sorted([*ours, *theirs]) == sorted(written)


@pytest.mark.long
def test_when_a_leader_dies_nothing_is_lost_and_what_was_confirmed_does_not_come_again() -> None:
    with Cluster(3, SETTINGS) as cluster:
        topic = unique("work")
        cluster.create_topic(topic, partitions=3, replication_factor=3)
        servers = cluster.bootstrap_servers
        confirmed: set[str] = set()
        again: list[str] = []
        with member(servers, topic, **EXPLICIT) as ann, Producer(bootstrap_servers=servers) as producer:
            values = {str(number) for number in range(300)}
            for value in sorted(values):
                producer.send(topic, value.encode(), key=value.encode())
            producer.flush()
            killed = False

            def step() -> bool:
                nonlocal killed
                records = ann.poll(0.5)
                by_partition: dict[TopicPartition, list[str]] = {}
                for record in records:
                    text = (record.value or b"").decode()
                    if text in confirmed:
                        again.append(text)
                    ann.acknowledge(record)
                    by_partition.setdefault(record.topic_partition, []).append(text)
                if records and not killed:
                    killed = True
                    cluster.kill(cluster.leader_of(topic, records[0].partition))
                for where, error in ann.commit(10).items():
                    if error is None:
                        confirmed.update(by_partition.get(where, ()))
                return confirmed == values

            wait_until(step, "every record is confirmed", 60)
            assert killed
        assert again == []
