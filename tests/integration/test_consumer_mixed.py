"""Our consumer in one group with members of other clients: every record is read, with any leader."""

import itertools
from collections.abc import Iterator

import pytest

from tests.compat.groups.members import (
    AiokafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    Readings,
    TidelogMember,
    running,
    share,
    wait_until,
)
from tests.integration.consumer_support import Cluster
from tidelog.testing import Broker

PARTITIONS = 6
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker({"group.min.session.timeout.ms": 500}) as broker:
        yield Cluster(broker.bootstrap_servers)


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (ConfluentMember, "range"),
        (ConfluentMember, "cooperative-sticky"),
        (KafkaPythonMember, "sticky"),
        (KafkaPythonMember, "cooperative-sticky"),
        (AiokafkaMember, "roundrobin"),
        (AiokafkaMember, "sticky"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.client,
)
def test_ours_and_theirs_share_with_any_leader(cluster: Cluster, kind: type[Member], strategy: str) -> None:
    """First theirs leads and decides for both, then it goes, and when it comes back ours decides."""
    topic = cluster.topic(PARTITIONS)
    readings = Readings()
    values = (f"{number}".encode() for number in itertools.count())

    def member(kind: type[Member]) -> Member:
        name = f"{kind.client}-{next(_numbers)}"
        return kind(cluster.bootstrap_servers, topic, topic, readings, name, strategy=strategy)

    def write_and_wait() -> None:
        some = list(itertools.islice(values, 60))
        for partition in range(PARTITIONS):
            cluster.write(topic, some[partition * 10 : partition * 10 + 10], partition=partition)
        readings.wait_for(some)

    theirs, ours, theirs_again = member(kind), member(TidelogMember), member(kind)
    with running(theirs):
        wait_until(lambda: share([theirs], PARTITIONS), "theirs has everything")
        with running(ours):
            wait_until(lambda: share([theirs, ours], PARTITIONS), "both share, theirs leading")
            write_and_wait()
            theirs.stop()
            wait_until(lambda: share([ours], PARTITIONS), "ours has everything")
            with running(theirs_again):
                wait_until(lambda: share([ours, theirs_again], PARTITIONS), "both share, ours leading")
                write_and_wait()
            wait_until(lambda: share([ours], PARTITIONS), "ours has everything again")
    assert readings.by(ours.name)
    assert readings.by(theirs.name) | readings.by(theirs_again.name)


def test_four_clients_in_one_group(cluster: Cluster) -> None:
    topic = cluster.topic(PARTITIONS)
    readings = Readings()
    kinds = (TidelogMember, ConfluentMember, KafkaPythonMember, AiokafkaMember)
    members = [kind(cluster.bootstrap_servers, topic, topic, readings, kind.client) for kind in kinds]
    with running(*members):
        wait_until(lambda: share(members, PARTITIONS), "all four share")
        values = [f"v{number}".encode() for number in range(300)]
        for partition in range(PARTITIONS):
            cluster.write(topic, values[partition::PARTITIONS], partition=partition)
        readings.wait_for(values)
    assert all(readings.by(member.name) for member in members)
