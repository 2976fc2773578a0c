"""Brokers of ours in a KRaft cluster that three controllers of Apache Kafka 4.3.1 run, beside one of Kafka's brokers.

The tests share the cluster and stand in the order in which they change it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.compat.quorum.cluster import SECONDS_MAX, Quorum, run_tool, until

OURS = (2, 3)
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
TOPIC_TOOL = "org.apache.kafka.tools.TopicCommand"
CONFIG_TOOL = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    found = Quorum(tmp_path_factory.mktemp("quorum"), 3)
    try:
        found.start()
        for node_id in OURS:
            found.add_ours(node_id, SETTINGS)
        found.add_apache(1, SETTINGS)
        for broker in found.brokers.values():
            broker.wait_until_serves()
        until("three brokers are shown", lambda: len(admin(found).list_topics(timeout=5).brokers) == 3)
        yield found
    finally:
        found.stop()


def admin(quorum: Quorum) -> AdminClient:
    return AdminClient({"bootstrap.servers": quorum.servers, "log_level": 0})


def partitions(quorum: Quorum, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Leader and in-sync replicas of each partition."""
    found = admin(quorum).list_topics(topic, timeout=5).topics[topic]
    return {each.id: (each.leader, sorted(each.isrs)) for each in found.partitions.values()}


def create(quorum: Quorum, topic: str, count: int, **config: str) -> None:
    client = admin(quorum)
    for created in client.create_topics([NewTopic(topic, count, 3, config=config)]).values():
        created.result(SECONDS_MAX)
    wait_in_sync(quorum, topic, count)


def wait_in_sync(quorum: Quorum, topic: str, count: int) -> None:
    def are_in_sync() -> bool:
        found = partitions(quorum, topic)
        return len(found) == count and all(isr == [1, 2, 3] for _, isr in found.values())

    until(f"every replica of {topic} is in sync", are_in_sync)


def wait_for_other_leaders(quorum: Quorum, topic: str, gone: int) -> None:
    until("others lead", lambda: gone not in {leader for leader, _ in partitions(quorum, topic).values()})


class Traffic:
    """A producer that goes on until it is stopped, and notes what was acknowledged."""

    def __init__(self, quorum: Quorum, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.lost: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(each.bootstrap_servers for each in quorum.brokers.values()),
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": 90_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._on_delivery)
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(90)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.lost.append(str(error))

    def wait_for_more(self) -> None:
        before = len(self.acknowledged)
        until("more records are acknowledged", lambda: len(self.acknowledged) > before + 200)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def consumed(quorum: Quorum, topic: str, group: str, wanted: set[int]) -> list[int]:
    """The values of a topic, read by a group until all that are wanted were seen."""
    consumer = Consumer(
        {"bootstrap.servers": quorum.servers, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    values: list[int] = []

    def are_all_there() -> bool:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                values.append(int(message.value() or b""))
        return wanted <= set(values)

    try:
        until("all records are consumed", are_all_there)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def test_controllers_list_our_brokers_as_observers_that_keep_up(quorum: Quorum) -> None:
    def described() -> dict[str, list[str]] | None:
        table = quorum.tool(QUORUM_TOOL, "describe", "--replication")
        rows = {line.split()[0]: line.split() for line in table.splitlines() if line[:1].isdigit()}
        is_current = all(rows[str(node_id)][3] == "0" for node_id in OURS)
        return rows if is_current else None

    rows = until("our brokers have no lag", described)
    assert {rows[str(node_id)][-1] for node_id in OURS} == {"Observer"}
    assert {rows[str(node_id)][-1] for node_id in quorum.ports} == {"Leader", "Follower"}


def test_records_survive_killed_brokers_of_both_kinds_and_a_killed_active_controller(quorum: Quorum) -> None:
    create(quorum, "kept", 6, **{"min.insync.replicas": "2"})
    with Traffic(quorum, "kept") as traffic:
        traffic.wait_for_more()
        for node_id in (2, 1):
            quorum.brokers[node_id].kill()
            wait_for_other_leaders(quorum, "kept", node_id)
            traffic.wait_for_more()
            quorum.brokers[node_id].spawn()
            wait_in_sync(quorum, "kept", 6)
        leader = active_controller(quorum)
        quorum.controllers[leader].kill()
        traffic.wait_for_more()
        until("another controller is active", lambda: active_controller(quorum) != leader)
        quorum.brokers[3].stop()
        traffic.wait_for_more()
        quorum.brokers[3].spawn()
        wait_in_sync(quorum, "kept", 6)
        quorum.start_controller(leader)
    assert traffic.lost == []
    assert len(traffic.acknowledged) == len(set(traffic.acknowledged))
    values = consumed(quorum, "kept", "readers", set(traffic.acknowledged))
    assert len(values) == len(set(values)), "an idempotent producer writes nothing twice"


def active_controller(quorum: Quorum) -> int:
    found = re.search(r"LeaderId:\s+(\d+)", quorum.tool(QUORUM_TOOL, "describe", "--status"))
    assert found is not None
    return int(found[1])


def test_kafkas_tools_administer_the_cluster_through_our_brokers(quorum: Quorum) -> None:
    ours = quorum.brokers[2].bootstrap_servers

    def tool(main_class: str, *arguments: str) -> str:
        return run_tool(main_class, "--bootstrap-server", ours, *arguments)

    tool(TOPIC_TOOL, "--create", "--topic", "made", "--partitions", "2", "--replication-factor", "3")
    tool(
        CONFIG_TOOL, "--alter", "--entity-type", "topics", "--entity-name", "made", "--add-config", "retention.ms=77777"
    )
    until(
        "the setting is shown",
        lambda: (
            "retention.ms=77777" in tool(CONFIG_TOOL, "--describe", "--entity-type", "topics", "--entity-name", "made")
        ),
    )
    tool(TOPIC_TOOL, "--delete", "--topic", "made")
    until("the topic is gone", lambda: "made" not in admin(quorum).list_topics(timeout=5).topics)


def test_kafkas_tool_shows_the_metadata_version_that_is_in_effect(quorum: Quorum) -> None:
    shown = run_tool(
        "org.apache.kafka.tools.FeatureCommand",
        *("--bootstrap-server", quorum.brokers[2].bootstrap_servers, "describe"),
    )
    lines = [line.split() for line in shown.splitlines() if "metadata.version" in line]
    assert [(line[line.index("FinalizedVersionLevel:") + 1]) for line in lines] == ["4.3-IV0"]


def test_users_get_credentials_and_topics_partitions_through_our_brokers(quorum: Quorum) -> None:
    client = AdminClient({"bootstrap.servers": quorum.brokers[2].bootstrap_servers, "log_level": 0})
    credential = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret"
    )
    for altered in client.alter_user_scram_credentials([credential]).values():
        altered.result(SECONDS_MAX)

    def is_shown_by(node_id: int) -> bool:
        other = AdminClient({"bootstrap.servers": quorum.brokers[node_id].bootstrap_servers, "log_level": 0})
        found: Any = other.describe_user_scram_credentials(["alice"])
        described = found["alice"].result(SECONDS_MAX)
        return [each.iterations for each in described.scram_credential_infos] == [4096]

    for node_id in OURS:
        until("the user has a credential", lambda asked=node_id: is_shown_by(asked))  # type: ignore[misc]
    create(quorum, "grown", 1)
    for grown in client.create_partitions([NewPartitions("grown", 3)]).values():
        grown.result(SECONDS_MAX)
    wait_in_sync(quorum, "grown", 3)


def test_a_topic_is_created_when_a_producer_names_it(quorum: Quorum) -> None:
    producer = Producer(
        {"bootstrap.servers": quorum.brokers[3].bootstrap_servers, "allow.auto.create.topics": True, "log_level": 0}
    )
    delivered: list[Any] = []
    producer.produce("automatic", b"x", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(SECONDS_MAX)
    assert delivered == [None]


def test_transactions_commit_and_abort_across_brokers_of_both_kinds(quorum: Quorum) -> None:
    create(quorum, "exact", 3)
    producer = Producer(
        {"bootstrap.servers": quorum.servers, "transactional.id": "t", "transaction.timeout.ms": 30_000, "log_level": 0}
    )
    producer.init_transactions(SECONDS_MAX)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("exact", str(number * 3 + partition).encode(), partition=partition)
        if number % 2:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    committed = {number * 3 + partition for number in (0, 2, 4) for partition in range(3)}
    assert set(consumed(quorum, "exact", "exact-readers", committed)) == committed


def test_our_copy_of_the_metadata_log_is_kafkas_to_read(quorum: Quorum) -> None:
    copy = quorum.brokers[2].log_dir / "__cluster_metadata-0"
    segments = ",".join(map(str, sorted(copy.glob("*.log"))))
    dump = "org.apache.kafka.tools.DumpLogSegments"
    printed = run_tool(dump, "--cluster-metadata-decoder", "--files", segments)
    assert "isvalid: false" not in printed
    assert "REGISTER_BROKER_RECORD" in printed


def test_a_broker_that_comes_late_begins_with_a_snapshot(quorum: Quorum) -> None:
    def has_snapshot() -> bool:
        return any(
            not each.name.startswith("0" * 20)
            for node_id in quorum.ports
            for each in (quorum.directory / f"controller-{node_id}").glob("__cluster_metadata-0/*.checkpoint")
        )

    until("controllers have a snapshot", has_snapshot)
    late = quorum.add_ours(4, SETTINGS)
    try:
        late.wait_until_serves()
        assert list((late.log_dir / "__cluster_metadata-0").glob("*.checkpoint"))
        client = AdminClient({"bootstrap.servers": late.bootstrap_servers, "log_level": 0})
        assert "kept" in client.list_topics(timeout=10).topics
    finally:
        late.stop()
        del quorum.brokers[4]
