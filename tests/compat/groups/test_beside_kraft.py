"""Groups that change their protocol, and odd requests, on our broker and on Apache Kafka: the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks import apache_kafka
from tests.compat.apache_kafka.test_group_answers import SETTINGS, play, prepare
from tests.compat.groups.kraft import KraftBroker
from tests.compat.groups.migration_scenarios import MIGRATIONS
from tests.compat.groups.odd_scenarios import ODDITIES
from tests.compat.groups.raw import Transcript
from tests.compat.groups.scenarios import Connect
from tidelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

BOTH_WAYS = {**SETTINGS, "group.consumer.migration.policy": "bidirectional"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with KraftBroker(tmp_path_factory.mktemp("kraft"), BOTH_WAYS) as broker:
        prepare("127.0.0.1", broker.port)
        yield broker


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(config=BOTH_WAYS) as broker:
        prepare(broker.host, broker.port)
        yield broker


@pytest.mark.parametrize("scenario", [*MIGRATIONS, *ODDITIES], ids=lambda scenario: scenario.__name__)
@pytest.mark.long
def test_our_answers_are_kafkas(
    kafka: KraftBroker, ours: Broker, scenario: Callable[[Connect, Transcript], None]
) -> None:
    assert play(scenario, ours.host, ours.port) == play(scenario, "127.0.0.1", kafka.port)
