"""Dead letters of share groups (KIP-1191) over sockets: what is rejected or exhausted, with its origin and reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from urllib.request import urlopen

import pytest

from tests.integration.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    ShareMember,
    join_anywhere,
    leader_of,
    set_up,
    until_ready,
    write,
)
from tests.integration.test_broker_metrics import free_port
from tidelog.client import Admin, Consumer, ConsumerRecord, TopicPartition
from tidelog.sharing.dead_letters import EXHAUSTED, REJECTED
from tidelog.testing import Broker, Cluster
from tidelog.wire.errors import ErrorCode

SETTINGS = {"group.share.record.lock.duration.ms": "1000", "share.coordinator.state.topic.num.partitions": "3"}
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
TOPIC = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
_numbers = count(1)


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(metrics_port: int) -> Iterator[Broker]:
    with Broker({**SETTINGS, "metrics.listeners": f"http://127.0.0.1:{metrics_port}"}) as running:
        yield running


def new_topic(broker: Broker) -> str:
    name = f"orders-{next(_numbers)}"
    broker.create_topic(name)
    return name


def member(broker: Broker, topic: str) -> ShareMember:
    found = ShareMember(broker.port, topic, f"group-{topic}", "a").join()
    found.fetch()
    assert not any(found.codes)
    return found


def letters_in(servers: str, topic: str, wanted: int) -> list[ConsumerRecord[bytes, bytes]]:
    """All records of a topic, once there are so many."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    deadline = time.monotonic() + 30
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < wanted:
            assert time.monotonic() < deadline, f"{topic} has {len(found)} of {wanted} dead letters"
            found += consumer.poll(0.3)
    return found


def headers_of(record: ConsumerRecord[bytes, bytes]) -> dict[str, str]:
    return {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in record.headers}


def until_started_at(member: ShareMember, offset: int) -> None:
    """Until the start of the group has moved on: an acknowledgement before it is over is taken, whoever sends it."""
    deadline = time.monotonic() + 30
    while member.acknowledge((offset - 1, offset - 1, [ACCEPT])) is not ErrorCode.NONE:
        assert time.monotonic() < deadline, "the records were not archived"
        time.sleep(0.1)


def test_what_is_rejected_or_delivered_too_often_is_written_with_its_origin(broker: Broker) -> None:
    topic = new_topic(broker)
    broker.create_topic(f"dlq.{topic}", config=ENABLED)
    group = f"group-{topic}"
    set_up(broker, group, **{TOPIC: f"dlq.{topic}", COPY: "true"})
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, "x", "y", "z")
        assert len(ann.fetch()) == 3
        assert ann.acknowledge((0, 2, [REJECT, ACCEPT, RELEASE])) is ErrorCode.NONE
        for delivery in (2, 3, 4, 5):
            assert ann.fetch_some() == [(2, b"z", delivery)]
            assert ann.acknowledge((2, 2, [RELEASE])) is ErrorCode.NONE
        assert ann.fetch() == []
        until_started_at(ann, 3)
    origin = {"topic": topic, "partition": "0", "group": group}
    rejected = {**origin, "offset": "0", "delivery.count": "1", "message": REJECTED}
    exhausted = {**origin, "offset": "2", "delivery.count": "5", "message": EXHAUSTED}
    found = letters_in(broker.bootstrap_servers, f"dlq.{topic}", 2)
    assert [(each.value, headers_of(each)) for each in found] == [(b"x", rejected), (b"z", exhausted)]


def test_metrics_show_what_is_in_flight_and_the_dead_letters(broker: Broker, metrics_port: int) -> None:
    topic = new_topic(broker)
    broker.create_topic(f"dlq.{topic}", config=ENABLED)
    set_up(broker, f"group-{topic}", **{TOPIC: f"dlq.{topic}"})

    def samples() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
            lines = [line.decode().rsplit(" ", 1) for line in page if line.startswith(b"tidelog_sharegroup_")]
        return {name: float(value) for name, value in lines}

    with member(broker, topic) as ann:
        before = samples()["tidelog_sharegroup_dead_letters_total"]
        write(broker.bootstrap_servers, topic, "x", "y", "z")
        assert len(ann.fetch()) == 3
        in_flight = f'tidelog_sharegroup_records_in_flight{{group="group-{topic}",topic="{topic}",partition="0"}}'
        assert samples()[in_flight] == 3
        assert samples()["tidelog_sharegroup_sessions"] >= 1
        assert ann.acknowledge((0, 1, [REJECT])) is ErrorCode.NONE
        until_started_at(ann, 2)
        assert samples()[in_flight] == 1
        assert samples()["tidelog_sharegroup_dead_letters_total"] == before + 2


def test_a_lock_that_ends_for_the_last_time_leaves_a_letter_without_a_copy(broker: Broker) -> None:
    """Kafka copies nothing unless it is told to."""
    topic = new_topic(broker)
    broker.create_topic(f"dlq.{topic}", config=ENABLED)
    set_up(broker, f"group-{topic}", **{TOPIC: f"dlq.{topic}", "share.delivery.count.limit": "2"})
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, "x")
        assert ann.fetch_some() == [(0, b"x", 1)]
        assert ann.fetch_some() == [(0, b"x", 2)]
        (letter,) = letters_in(broker.bootstrap_servers, f"dlq.{topic}", 1)
    assert (letter.key, letter.value) == (None, None)
    assert headers_of(letter)["delivery.count"] == "2"


@pytest.mark.parametrize(
    ("name", "config"), [("dlq.{}", None), ("dlq.{}", {}), ("letters.{}", ENABLED), ("__dlq.{}", None)]
)
def test_a_topic_that_may_not_have_letters_gets_none_and_stops_nobody(
    broker: Broker, name: str, config: dict[str, str] | None
) -> None:
    """It does not exist, is not meant for them, or is named otherwise: the records are archived, as in Kafka."""
    topic = new_topic(broker)
    name = name.format(topic)
    if config is not None:
        broker.create_topic(name, config=config)
    set_up(broker, f"group-{topic}", **{TOPIC: name})
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, "x")
        assert len(ann.fetch()) == 1
        assert ann.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
        until_started_at(ann, 1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert (name in [each.name for each in admin.list_topics()]) == (config is not None)


def test_a_missing_topic_is_created_if_the_brokers_may() -> None:
    settings = {**SETTINGS, "errors.deadletterqueue.auto.create.topics.enable": "true"}
    with Broker(settings) as broker:
        broker.create_topic("orders")
        set_up(broker, "group-orders", **{TOPIC: "dlq.new", COPY: "true"})
        with member(broker, "orders") as ann:
            write(broker.bootstrap_servers, "orders", *"abc")
            assert len(ann.fetch()) == 3
            assert ann.acknowledge((0, 2, [REJECT])) is ErrorCode.NONE
            found = letters_in(broker.bootstrap_servers, "dlq.new", 3)
        assert [each.value for each in found] == [b"a", b"b", b"c"]


@pytest.mark.long
def test_a_letter_is_written_on_the_broker_that_has_its_topic_and_once_though_leaders_die() -> None:
    config = {**SETTINGS, "share.coordinator.state.topic.min.isr": "1", "min.insync.replicas": "1"}
    with Cluster(3, config) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("work")
        cluster.create_topic("dlq.work", config=ENABLED)
        set_up(cluster, "group", **{TOPIC: "dlq.work", COPY: "true"})
        rejected = 0
        for turn in range(2):
            leader = leader_of(cluster)
            port = int(cluster.address_of(leader).rpartition(":")[2])
            with ShareMember(port, "work", "group", f"m{turn}").join(has_coordinator=False) as ann:
                join_anywhere(cluster, f"m{turn}")
                ann.fetch(epoch=0)
                until_ready(ann)
                write(servers, "work", *[f"{turn}-{each}" for each in range(20)])
                for offset, _, _ in ann.fetch_some():
                    rejected += ann.acknowledge((offset, offset, [REJECT])) is ErrorCode.NONE
            cluster.kill(leader)
            cluster.restart(leader)
        leader = leader_of(cluster)
        port = int(cluster.address_of(leader).rpartition(":")[2])
        with ShareMember(port, "work", "group", "last").join(has_coordinator=False) as eve:
            join_anywhere(cluster, "last")
            eve.fetch(epoch=0)
            until_ready(eve)
            found = letters_in(servers, "dlq.work", rejected)
    offsets = [headers_of(each)["offset"] for each in found]
    assert len(set(offsets)) == len(offsets) >= rejected > 0
