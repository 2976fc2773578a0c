"""Each check finds what it is for, names it, and is silent about a cluster that is well."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.aio.admin.types import (
    ActiveProducer,
    ClusterDescription,
    GroupDescription,
    LogDirectory,
    MemberDescription,
    PartitionDescription,
    TopicDescription,
    TransactionDescription,
)
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.health.checks import CHECKS, COMPARISONS
from tidelog.health.findings import Finding, Level, some_of, worst
from tidelog.health.hanging import OpenTransaction
from tidelog.health.snapshot import Snapshot

NODES = tuple(BrokerNode(number, "localhost", 9092 + number) for number in (1, 2, 3))
ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_000_000


def partition(**changes: Any) -> PartitionDescription:
    whole = PartitionDescription(0, leader_id=1, leader_epoch=0, replicas=(1, 2, 3), in_sync=(1, 2, 3), offline=())
    return whole._replace(**changes)


def topic(**changes: Any) -> TopicDescription:
    return TopicDescription("orders", b"", False, (partition(**changes),))


def healthy() -> Snapshot:
    return Snapshot(
        NOW_MS,
        ClusterDescription("id", 1, NODES),
        topics={"orders": topic()},
        topic_settings={"orders": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}},
        broker_settings={
            number: {"listeners": "SASL_SSL://0.0.0.0:9092", "log.dirs": "/var/lib/tidelog"} for number in (1, 2, 3)
        },
        log_dirs={1: [LogDirectory("/var/lib/tidelog", 0, 100, 60, {})]},
    )


def group(state: str = "Stable", members: int = 1) -> GroupDescription:
    each = MemberDescription("m", None, "client", "/127.0.0.1", (ORDERS,), ("orders",))
    return GroupDescription("billing", state, "consumer", "range", (each,) * members, NODES[0])


def found(seen: Snapshot) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(seen)]


def test_a_cluster_that_is_well_has_no_findings() -> None:
    assert found(healthy()) == []


UNWELL: list[tuple[dict[str, Any], Level, str, str]] = [
    ({"cluster": ClusterDescription("id", -1, NODES)}, Level.BAD, "the cluster", "no controller"),
    ({"cluster": ClusterDescription("id", 1, NODES[:2])}, Level.WARNING, "broker 3", "is not in the cluster"),
    ({"cluster": ClusterDescription("id", 1, NODES[:1])}, Level.WARNING, "brokers 2, 3", "are not in the cluster"),
    ({"topics": {"orders": topic(leader_id=-1)}}, Level.BAD, "topics orders", "1 partition has no leader"),
    ({"topics": {"orders": topic(in_sync=(1,))}}, Level.BAD, "topic orders", "min.insync.replicas=2"),
    ({"topics": {"orders": topic(in_sync=(1, 2))}}, Level.WARNING, "topics orders", "under-replicated"),
    ({"topics": {"orders": topic(leader_id=2)}}, Level.NOTE, "topics orders", "preferred replica"),
    ({"topics": {"orders": topic(replicas=(1,), in_sync=(1,))}}, Level.WARNING, "topics orders", "one replica only"),
    ({"topic_settings": {"orders": {"min.insync.replicas": "3"}}}, Level.WARNING, "topics orders", "stops acks=all"),
    ({"topic_settings": {"orders": {"min.insync.replicas": "1"}}}, Level.NOTE, "topics orders", "one broker alone"),
    (
        {"topic_settings": {"orders": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}}},
        Level.WARNING,
        "topics orders",
        "unclean.leader.election.enable is true",
    ),
    ({"log_dirs": {2: [LogDirectory("/data", 56, -1, -1, {})]}}, Level.BAD, "broker 2, /data", "has failed"),
    ({"log_dirs": {2: [LogDirectory("/data", 0, 100, 10, {})]}}, Level.WARNING, "broker 2, /data", "90% full"),
    ({"log_dirs": {2: [LogDirectory("/data", 0, 100, 1, {})]}}, Level.BAD, "broker 2, /data", "99% full"),
    ({"broker_settings": {1: {"log.dirs": "/tmp/data"}}}, Level.WARNING, "broker 1", "log.dirs=/tmp/data"),
    (
        {"broker_settings": {1: {"listeners": "PLAINTEXT://127.0.0.1:1,PLAINTEXT://0.0.0.0:2"}}},
        Level.WARNING,
        "broker 1",
        "PLAINTEXT://0.0.0.0:2 serves every host",
    ),
    (
        {"broker_settings": {1: {"listeners": "IN://:2", "listener.security.protocol.map": "IN:PLAINTEXT"}}},
        Level.WARNING,
        "broker 1",
        "IN://:2 serves every host",
    ),
    (
        {"broker_settings": {1: {"offsets.topic.replication.factor": "1"}}},
        Level.WARNING,
        "broker 1",
        "offsets.topic.replication.factor=1",
    ),
    (
        {"broker_settings": {1: {"default.replication.factor": "1"}, 2: {"default.replication.factor": "3"}}},
        Level.WARNING,
        "brokers",
        "default.replication.factor differs: 1 on 1; 3 on 2",
    ),
    (
        {"broker_settings": {1: {"leader.replication.throttled.rate": "1000"}}},
        Level.WARNING,
        "broker 1",
        "leader.replication.throttled.rate is set",
    ),
    (
        {"committed": {"billing": {ORDERS: 5}}, "starts": {ORDERS: 7}, "ends": {ORDERS: 9}},
        Level.WARNING,
        "group billing",
        "deleted before it read them, in orders-0",
    ),
    (
        {"committed": {"billing": {ORDERS: 11}}, "starts": {ORDERS: 0}, "ends": {ORDERS: 9}},
        Level.WARNING,
        "group billing",
        "beyond the end of orders-0",
    ),
    (
        {"hanging": [OpenTransaction(ORDERS, ActiveProducer(77, 0, 0, 0, 0, 3))]},
        Level.BAD,
        "orders-0",
        "producer 77",
    ),
    (
        {"transactions": {"pay": TransactionDescription("pay", "Ongoing", 7, 0, 60_000, 1, (), NODES[0])}},
        Level.WARNING,
        "transactional id pay",
        "its timeout is 60 s",
    ),
    ({"unread": {"groups": "denied"}}, Level.NOTE, "groups", "could not be read: denied"),
]


@pytest.mark.parametrize(("changes", "level", "subject", "text"), UNWELL, ids=[each[3] for each in UNWELL])
def test_a_check_finds_what_it_is_for(changes: dict[str, Any], level: Level, subject: str, text: str) -> None:
    seen = healthy()
    for name, value in changes.items():
        setattr(seen, name, value)
    (finding,) = [each for each in found(seen) if text in each.text]
    assert (finding.level, finding.subject) == (level, subject)
    assert finding.advice.endswith((".", "3")), "the advice is a sentence, or a command to paste"


def test_a_throttle_is_no_finding_while_partitions_move() -> None:
    seen = healthy()
    seen.broker_settings[1] = {"leader.replication.throttled.rate": "1000"}
    seen.reassignments = {ORDERS: None}  # type: ignore[dict-item]
    assert not [each for each in found(seen) if "throttled" in each.text]


def compared(before: Snapshot, after: Snapshot) -> list[Finding]:
    return [finding for compare in COMPARISONS for finding in compare(before, after)]


def two_looks(committed: tuple[int, int], state: str = "Stable", members: int = 1) -> tuple[Snapshot, Snapshot]:
    looks = healthy(), healthy()
    for seen, offset in zip(looks, committed, strict=True):
        seen.groups = {"billing": group(state, members)}
        seen.committed = {"billing": {ORDERS: offset}}
        seen.ends = {ORDERS: 100}
    looks[1].taken_ms += 3_000
    return looks


def test_a_group_that_has_records_to_read_and_commits_nothing_is_stuck() -> None:
    (finding,) = compared(*two_looks((5, 5)))
    assert finding.subject == "group billing"
    assert "orders-0 and has committed nothing for 3 s" in finding.text


@pytest.mark.parametrize(
    "looks",
    [two_looks((5, 6)), two_looks((100, 100)), two_looks((5, 5), members=0)],
    ids=["it commits", "it has read everything", "it has no members"],
)
def test_any_other_group_is_not(looks: tuple[Snapshot, Snapshot]) -> None:
    assert compared(*looks) == []


def test_a_group_that_rebalances_in_both_looks_is_stuck() -> None:
    (finding,) = compared(*two_looks((5, 5), "PreparingRebalance"))
    assert "rebalancing for at least 3 s" in finding.text


def test_names_are_cut_and_counted() -> None:
    assert some_of(["b", "a"]) == "a, b"
    assert some_of(str(number) for number in range(8)) == "0, 1, 2, 3, 4 and 3 more"


def test_the_worst_finding_counts() -> None:
    findings = [Finding(level, "", "", "") for level in (Level.NOTE, Level.BAD, Level.WARNING)]
    assert worst(findings) is Level.BAD
    assert worst([]) is Level.NOTE


def test_one_replica_is_enough_where_a_partition_has_no_more() -> None:
    """As for the broker: with acks=all, a topic with one replica takes records whatever min.insync.replicas is."""
    seen = healthy()
    seen.topics = {"orders": topic(replicas=(1,), in_sync=(1,))}
    assert [each.text for each in found(seen) if each.level is Level.BAD] == []
    seen.topics = {"orders": topic(replicas=(1, 2), in_sync=(1,))}
    assert ["min.insync.replicas=2" in each.text for each in found(seen) if each.level is Level.BAD] == [True]


def on_machines(*hosts: str) -> ClusterDescription:
    nodes = tuple(BrokerNode(number, host, 9092 + number, host) for number, host in enumerate(hosts, 1))
    return ClusterDescription("id", 1, nodes)


def test_the_cores_of_one_machine_are_one_place_for_replicas() -> None:
    seen = healthy()
    seen.cluster = on_machines("a", "a", "a")
    seen.topics = {"orders": topic(replicas=(1,), in_sync=(1,))}
    seen.broker_settings = {
        1: {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1"}
    }
    assert found(seen) == []


def test_replicas_on_cores_of_one_machine_are_named_if_there_is_another_machine() -> None:
    seen = healthy()
    seen.cluster = on_machines("a", "a", "b")
    seen.topics = {"orders": topic(replicas=(1, 2), in_sync=(1, 2))}
    assert "all replicas on one machine" in " ".join(each.text for each in found(seen))
    seen.topics = {"orders": topic(replicas=(1, 3), in_sync=(1, 3))}
    assert "all replicas on one machine" not in " ".join(each.text for each in found(seen))
