"""Classic members and members of the newer protocol (KIP-848) in one live group, of clients that know nothing of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Self

import pytest

from benchmarks import apache_kafka
from tests.compat.groups.conftest import PARTITIONS, SETTINGS, Produce, produce_to
from tests.compat.groups.java import java_member
from tests.compat.groups.members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    KafkaPythonMember,
    Member,
    Readings,
    TidelogMember,
    running,
    share,
    wait_for_commits,
    wait_until,
)
from tests.compat.groups.raw import Wire
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest

BOTH_WAYS = {
    **SETTINGS,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 10_000,
    "group.consumer.migration.policy": "bidirectional",
}
CLASSIC: list[tuple[type[Member], str]] = [
    (ConfluentMember, "range"),
    (ConfluentMember, "cooperative-sticky"),
    (KafkaPythonMember, "range"),
    (KafkaPythonMember, "cooperative-sticky"),
    (AiokafkaMember, "roundrobin"),
    (TidelogMember, "cooperative-sticky"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=BOTH_WAYS) as running_broker:
        yield running_broker


def kind_of(broker: Broker, group: str) -> str:
    wire = Wire(broker.host, broker.port)
    try:
        listed = wire.ask(ListGroupsRequest(), 5).groups
    finally:
        wire.close()
    return str(next(entry.group_type for entry in listed if entry.group_id == group))


@pytest.mark.parametrize(("kind", "strategy"), CLASSIC, ids=[f"{kind.client}-{name}" for kind, name in CLASSIC])
def test_a_consumer_comes_to_a_classic_member_and_goes_again(
    broker: Broker, topic: str, produce: Produce, kind: type[Member], strategy: str
) -> None:
    readings = Readings()
    classic = kind(broker.bootstrap_servers, topic, topic, readings, "classic", strategy=strategy)
    consumer = ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, readings, "consumer", strategy="uniform")
    with running(classic):
        readings.wait_for(produce(60))
        with running(consumer):
            wait_until(lambda: share([classic, consumer], PARTITIONS), "both share")
            readings.wait_for(produce(60, 60))
            assert kind_of(broker, topic) == "consumer"
        wait_until(lambda: share([classic], PARTITIONS), "the classic member has all partitions again")
        readings.wait_for(produce(60, 120))
        assert kind_of(broker, topic) == "classic"
    assert readings.by("consumer")


def test_all_clients_share_one_group(broker: Broker, topic: str, produce: Produce) -> None:
    """Half of them assign nothing and know it, the others believe that another member leads."""
    readings = Readings()
    kinds: list[tuple[type[Member], str]] = [
        (ConfluentMember, "range"),
        (ConsumerProtocolMember, "uniform"),
        (KafkaPythonMember, "range"),
        (AiokafkaMember, "range"),
        (TidelogMember, "range"),
        (ConsumerProtocolMember, "uniform"),
    ]
    members = [
        kind(broker.bootstrap_servers, topic, topic, readings, f"{number} {kind.client}", strategy=strategy)
        for number, (kind, strategy) in enumerate(kinds)
    ]
    with running(*members):
        wait_until(lambda: share(members, PARTITIONS), "six members have one partition each")
        readings.wait_for(produce(120))
    assert all(readings.by(member.name) for member in members)


class Seats:
    """Three members, replaced one after the other while records keep coming; who is left goes at the end."""

    def __init__(self, broker: Broker, topic: str, produce: Produce) -> None:
        self._broker = broker
        self._topic = topic
        self._produce = produce
        self._produced = 0
        self._stack = contextlib.ExitStack()
        self.readings = Readings()
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def fill(self, kind: type[Member], strategy: str) -> None:
        for number in range(3):
            if number < len(self.members):
                self.members.pop(number).stop()
            self.members.insert(number, self._start(f"{kind.client} {number}", kind, strategy))
            values = self.produce()
            wait_until(lambda: share(self.members, PARTITIONS), f"{kind.client} {number} has its share")
            self.readings.wait_for(values)
        wait_for_commits(self._broker.bootstrap_servers, self._topic, self._topic)

    def produce(self) -> list[bytes]:
        self._produced += 30
        return self._produce(30, self._produced)

    def _start(self, name: str, kind: type[Member], strategy: str) -> Member:
        servers = self._broker.bootstrap_servers
        member = kind(servers, self._topic, self._topic, self.readings, name, strategy=strategy)
        self._stack.enter_context(running(member))
        return member


def test_a_group_is_upgraded_and_downgraded_member_by_member(broker: Broker, topic: str, produce: Produce) -> None:
    """As it is done in production: nothing is lost on the way, and all that was committed stays so."""
    with Seats(broker, topic, produce) as seats:
        seats.fill(ConfluentMember, "cooperative-sticky")
        assert kind_of(broker, topic) == "classic"
        seats.fill(ConsumerProtocolMember, "uniform")
        assert kind_of(broker, topic) == "consumer"
        seats.fill(TidelogMember, "cooperative-sticky")
        assert kind_of(broker, topic) == "classic"
    late = Readings()
    with running(ConsumerProtocolMember(broker.bootstrap_servers, topic, topic, late, "late", strategy="uniform")):
        values = seats.produce()
        late.wait_for(values)
    assert late.values() == set(values)


def test_a_mixed_group_goes_on_after_its_coordinator_was_killed() -> None:
    with Broker(config=BOTH_WAYS, process=True) as process:
        process.create_topic("t", PARTITIONS)
        servers = process.bootstrap_servers
        readings = Readings()
        members: list[Member] = [
            ConfluentMember(servers, "g", "t", readings, "classic", strategy="cooperative-sticky"),
            ConsumerProtocolMember(servers, "g", "t", readings, "consumer", strategy="uniform"),
        ]
        with running(*members):
            wait_until(lambda: share(members, PARTITIONS), "both share")
            readings.wait_for(produce_to(servers, "t", 60))
            process.kill()
            process.start()
            readings.wait_for(produce_to(servers, "t", 60, 60))
            wait_until(lambda: share(members, PARTITIONS), "both share again")
            assert kind_of(process, "g") == "consumer"
            wait_for_commits(servers, "g", "t")
        late = Readings()
        with running(ConfluentMember(servers, "g", "t", late, "late")):
            values = produce_to(servers, "t", 30, 120)
            late.wait_for(values)
        assert late.values() == set(values)


@pytest.mark.java
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
@pytest.mark.parametrize(
    ("kind", "strategy", "java_protocol"),
    [
        pytest.param(ConsumerProtocolMember, "uniform", "classic", marks=pytest.mark.long),
        (ConfluentMember, "range", "consumer"),
    ],
    ids=["Java is classic", "Java is a consumer"],
)
def test_javas_consumer_shares_a_group_with_the_other_protocol(
    broker: Broker, topic: str, produce: Produce, kind: type[Member], strategy: str, java_protocol: str
) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    readings = Readings()
    member = kind(broker.bootstrap_servers, topic, topic, readings, "librdkafka", strategy=strategy)
    with running(member):
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions")
        with java_member(broker.bootstrap_servers, topic, f"group.protocol={java_protocol}") as java:
            wait_until(lambda: len(member.assignment) == PARTITIONS // 2, "Java has its share", 60)
            assert kind_of(broker, topic) == "consumer"
            produced = produce(600)
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions again")
        readings.wait_for(set(produced) - java.values)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group.coordinator.rebalance.protocols": "classic"}, ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["migration is off unless asked for", "the newer protocol is switched off"],
)
def test_a_classic_group_stays_one(settings: dict[str, str], code: ErrorCode) -> None:
    with Broker(config={**SETTINGS, **settings}) as broker:
        broker.create_topic("t", PARTITIONS)
        readings = Readings()
        member = ConfluentMember(broker.bootstrap_servers, "g", "t", readings, "classic")
        with running(member):
            wait_until(lambda: share([member], PARTITIONS), "the classic member has all partitions")
            request = ConsumerGroupHeartbeatRequest(
                group_id="g", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
            )
            wire = Wire(broker.host, broker.port)
            assert wire.ask(request, 0).error_code == code
            wire.close()
            readings.wait_for(produce_to(broker.bootstrap_servers, "t", 30))
