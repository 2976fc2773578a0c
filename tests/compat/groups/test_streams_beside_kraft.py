"""Streams groups on our broker and on Apache Kafka 4.3.1: the answers are the same, errors and their texts included."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks import apache_kafka
from tests.compat.apache_kafka.test_group_answers import SETTINGS as GROUP_SETTINGS
from tests.compat.apache_kafka.test_group_answers import play, prepare
from tests.compat.groups.kraft import NEWEST, KraftBroker
from tests.compat.groups.raw import Transcript
from tests.compat.groups.scenarios import Connect
from tests.compat.groups.streams_scenarios import SETTINGS, STREAMS
from tidelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

BOTH = {**GROUP_SETTINGS, **SETTINGS}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    reason = NEWEST.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with KraftBroker(tmp_path_factory.mktemp("kraft"), BOTH, NEWEST) as broker:
        prepare("127.0.0.1", broker.port)
        yield broker


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(config=BOTH) as broker:
        prepare(broker.host, broker.port)
        yield broker


@pytest.mark.parametrize("scenario", STREAMS, ids=lambda scenario: scenario.__name__)
def test_our_answers_are_kafkas(
    kafka: KraftBroker, ours: Broker, scenario: Callable[[Connect, Transcript], None]
) -> None:
    assert play(scenario, ours.host, ours.port) == play(scenario, "127.0.0.1", kafka.port)
