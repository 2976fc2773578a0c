"""The same requests to our broker and to Apache Kafka, frame by frame: the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks.apache_kafka import KafkaBroker
from tests.compat.groups.raw import Transcript, Wire
from tests.compat.groups.scenarios import OTHER_TOPIC, SCENARIOS, TOPIC, Connect
from tidelog.client import Admin, NewTopic
from tidelog.testing import Broker
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
NOT_YET = (14, 15, 16)
"""Loading, not available, not the coordinator: Kafka takes a moment to make its offsets topic."""


@pytest.fixture(scope="module")
def prepared(kafka: KafkaBroker) -> KafkaBroker:
    prepare("127.0.0.1", kafka.port)
    return kafka


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as broker:
        prepare(broker.host, broker.port)
        yield broker


def prepare(host: str, port: int) -> None:
    """Make the topics, and wait until groups are served."""
    with Admin(bootstrap_servers=f"{host}:{port}") as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in (TOPIC, OTHER_TOPIC)])
    wire = Wire(host, port)
    while wire.ask(FindCoordinatorRequest(key="some-group"), 0).error_code in NOT_YET:
        pass
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="some-group")])
    while wire.ask(fetch, 9).groups[0].error_code in NOT_YET:
        pass
    wire.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_our_answers_are_kafkas(
    prepared: KafkaBroker, ours: Broker, scenario: Callable[[Connect, Transcript], None]
) -> None:
    assert play(scenario, ours.host, ours.port) == play(scenario, "127.0.0.1", prepared.port)


def play(scenario: Callable[[Connect, Transcript], None], host: str, port: int) -> list[str]:
    """What a broker answers in a scenario."""
    transcript = Transcript()
    wires: list[Wire] = []

    def connect() -> Wire:
        wires.append(Wire(host, port))
        return wires[-1]

    try:
        scenario(connect, transcript)
    finally:
        for wire in wires:
            wire.close()
    return transcript.lines
