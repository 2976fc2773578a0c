"""A broker for each module, and topics with records to read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.compat.groups.members import MEMBERS, Member
from tidelog.testing import Broker

OFFSETS_PARTITIONS = 8
SETTINGS = {"group.min.session.timeout.ms": 500, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}
PARTITIONS = 6

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topic and group that no other test uses."""
    return f"{request.node.originalname.removeprefix('test_')[:50]}-{next(_numbers)}"


Produce = Callable[..., list[bytes]]


def produce_to(servers: str, topic: str, count: int, start: int = 0) -> list[bytes]:
    """Spread `count` values over the partitions; returns them when they are there."""
    from confluent_kafka import Producer

    values = [f"{topic}:{number}".encode() for number in range(start, start + count)]
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 1})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return values


@pytest.fixture
def topic(broker: Broker, name: str) -> str:
    broker.create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def produce(broker: Broker, topic: str) -> Produce:
    def produce(count: int, start: int = 0) -> list[bytes]:
        return produce_to(broker.bootstrap_servers, topic, count, start)

    return produce


@pytest.fixture(params=MEMBERS, ids=lambda member: member.client)
def member_class(request: pytest.FixtureRequest) -> type[Member]:
    """Each client in turn."""
    kind: type[Member] = request.param
    return kind
