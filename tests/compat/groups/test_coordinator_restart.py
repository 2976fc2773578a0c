"""The coordinator goes away while groups are at work, in order and by `kill -9`, and they go on where they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.groups.conftest import PARTITIONS, SETTINGS, produce_to
from tests.compat.groups.members import (
    AiokafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    Readings,
    running,
    share,
    wait_for_commits,
    wait_until,
)
from tidelog.testing import Broker


@pytest.fixture
def process() -> Iterator[Broker]:
    with Broker(config=SETTINGS, process=True) as running:
        yield running


def restart(broker: Broker) -> None:
    broker.restart()


def crash(broker: Broker) -> None:
    broker.kill()
    broker.start()


@pytest.mark.parametrize("how", [restart, crash])
def test_groups_go_on_after_the_coordinator_was_gone(process: Broker, how: Callable[[Broker], None]) -> None:
    process.create_topic("t", PARTITIONS)
    servers = process.bootstrap_servers
    readings = Readings()
    members: list[Member] = [
        ConfluentMember(servers, "g", "t", readings, "confluent"),
        AiokafkaMember(servers, "g", "t", readings, "aiokafka"),
    ]
    with running(*members):
        wait_until(lambda: share(members, PARTITIONS), "both share")
        readings.wait_for(produce_to(servers, "t", 120))
        how(process)
        readings.wait_for(produce_to(servers, "t", 120, 120))
        wait_until(lambda: share(members, PARTITIONS), "both share again")
        wait_for_commits(servers, "g", "t")
    late = Readings()
    with running(ConfluentMember(servers, "g", "t", late, "late")):
        values = produce_to(servers, "t", 60, 240)
        late.wait_for(values)
    assert late.values() == set(values), "all that was committed before stays committed"


def test_what_was_committed_is_there_after_a_crash(process: Broker) -> None:
    process.create_topic("t", PARTITIONS)
    servers = process.bootstrap_servers
    before, after = Readings(), Readings()
    with running(KafkaPythonMember(servers, "g", "t", before, "before")):
        before.wait_for(produce_to(servers, "t", 120))
        wait_for_commits(servers, "g", "t")
    crash(process)
    values = produce_to(servers, "t", 60, 120)
    with running(KafkaPythonMember(servers, "g", "t", after, "after")):
        after.wait_for(values)
    assert after.values() == set(values)
