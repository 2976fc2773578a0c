"""Two brokers of Apache Kafka and two of ours on one ZooKeeper, below a root node each, with the same settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from benchmarks import apache_kafka
from benchmarks.admin import Admin, AdminError
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.chaos.cluster import wait_until

SECONDS: Final = 90.0
COUNT: Final = 2
SETTINGS: Final = {
    "zookeeper.connection.timeout.ms": "60000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
}


class Pair(NamedTuple):
    """Brokers 1 and 2 of one kind."""

    members: tuple[BrokerProcess, ...]

    def controller(self) -> BrokerProcess:
        """The broker that is the controller."""
        with Admin.connect(self.members[0].address) as admin:
            return self.members[admin.registered()[1] - 1]

    def other(self) -> BrokerProcess:
        """The broker that is not."""
        controller = self.controller()
        return next(each for each in self.members if each is not controller)

    def is_complete(self) -> bool:
        """Whether each broker knows the other, and a controller."""
        for member in self.members:
            try:
                with Admin.connect(member.address) as admin:
                    if not admin.serves(COUNT):
                        return False
            except (OSError, AdminError):
                return False
        return True


@contextmanager
def pairs(directory: Path, settings: Mapping[str, str]) -> Iterator[tuple[Pair, Pair]]:
    """Kafka's and ours, running; skips without Java."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    given = {**SETTINGS, **settings}
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(directory / "zookeeper"))

        def pair(kind: str) -> Pair:
            tree = {"zookeeper.connect": f"{zookeeper.connect_string}/{kind}"}
            members: list[BrokerProcess] = []
            for number in range(1, COUNT + 1):
                home, own = directory / f"{kind}-{number}", {**given, **tree, "broker.id": str(number)}
                is_kafka = kind == "kafka"
                member = KafkaBroker(home, zookeeper, own) if is_kafka else TidelogBroker(home, own)
                members.append(stack.enter_context(member))
            return Pair(tuple(members))

        theirs, ours = pair("kafka"), pair("ours")
        assert wait_until(theirs.is_complete, SECONDS)
        assert wait_until(ours.is_complete, SECONDS)
        yield theirs, ours
