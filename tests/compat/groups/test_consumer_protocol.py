"""The newer group protocol (KIP-848) with the clients that implement it: librdkafka and Java's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from tests.compat.groups.conftest import PARTITIONS, Produce, produce_to
from tests.compat.groups.java import java_member
from tests.compat.groups.members import (
    ConfluentMember,
    ConsumerProtocolMember,
    Readings,
    running,
    share,
    wait_for_commits,
    wait_until,
)
from tidelog.testing import Broker

SETTINGS = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.session.timeout.ms": 2_000}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as running_broker:
        yield running_broker


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go_and_share_the_partitions(
    broker: Broker, topic: str, produce: Produce, assignor: str
) -> None:
    readings = Readings()
    first, second, third = (
        ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, readings, name, strategy=assignor)
        for name in ("first", "second", "third")
    )
    with running(first):
        readings.wait_for(produce(60))
        with running(second, third):
            wait_until(lambda: share([first, second, third], PARTITIONS), "three members share")
            readings.wait_for(produce(60, 60))
        wait_until(lambda: share([first], PARTITIONS), "the first member has all partitions again")
        readings.wait_for(produce(60, 120))
    assert readings.by("second")


def test_a_new_member_goes_on_where_the_group_stopped(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    with running(
        ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, readings, "before", strategy="uniform")
    ):
        readings.wait_for(produce(60))
    after = produce(60, 60)
    with running(ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, readings, "after", strategy="uniform")):
        readings.wait_for(after)
    assert readings.by("after") == set(after)


def test_a_static_member_comes_back_to_its_partitions(broker: Broker, topic: str) -> None:
    readings = Readings()

    def member(name: str, instance_id: str) -> ConsumerProtocolMember:
        return ConsumerProtocolMember(
            broker.bootstrap_servers, topic, topic, readings, name, strategy="uniform", instance_id=instance_id
        )

    stays, restarts = member("stays", "a"), member("restarts", "b")
    with running(stays):
        with running(restarts):
            wait_until(lambda: share([stays, restarts], PARTITIONS), "both share")
            held = restarts.assignment
        with running(back := member("back", "b")):
            wait_until(lambda: back.assignment == held, "it has its partitions again")


def test_an_empty_group_changes_from_one_protocol_to_the_other(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    for number, kind in enumerate((ConfluentMember, ConsumerProtocolMember, ConfluentMember)):
        strategy = "uniform" if kind is ConsumerProtocolMember else "range"
        member = kind(
            broker.bootstrap_servers, topic, topic, readings, f"m{number}", strategy=strategy, session_ms=6_000
        )
        with running(member):
            readings.wait_for(produce(60, number * 60))
            wait_for_commits(broker.bootstrap_servers, topic, topic)
    assert readings.repeated() == 0, "offsets stay with the group"


def test_the_coordinator_restarts_in_the_middle() -> None:
    with Broker(config=SETTINGS, process=True) as process:
        process.create_topic("t", PARTITIONS)
        servers = process.bootstrap_servers
        readings = Readings()
        members = [ConsumerProtocolMember(servers, "g", "t", readings, name, strategy="uniform") for name in ("a", "b")]
        with running(*members):
            wait_until(lambda: share(members, PARTITIONS), "both share")
            readings.wait_for(produce_to(servers, "t", 60))
            process.restart()
            readings.wait_for(produce_to(servers, "t", 60, 60))
            wait_until(lambda: share(members, PARTITIONS), "both share again")


@pytest.mark.java
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
def test_javas_consumer_shares_a_group_with_librdkafka(broker: Broker, topic: str, produce: Produce) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    readings = Readings()
    member = ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, readings, "librdkafka", strategy="uniform")
    with running(member):
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions")
        with java_member(broker.bootstrap_servers, topic, "group.protocol=consumer") as java:
            wait_until(lambda: len(member.assignment) == PARTITIONS // 2, "Java has its share", 60)
            produced = produce(600)
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions again")
        readings.wait_for(set(produced) - java.values)
