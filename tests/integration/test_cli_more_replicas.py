"""From one broker to several: `tidelog` gives the topics of a single broker more replicas, internal topics first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_support import run_here
from tests.integration.writers import wait_until
from tests.integration.zookeeper_support import fresh_chroot, needs_zookeeper, shared_server
from tidelog.client import Admin, Consumer, Producer
from tidelog.client.aio.admin.types import NewTopic
from tidelog.testing import Broker

pytestmark = needs_zookeeper

RECORDS = 20
INTERNAL = ("__consumer_offsets", "__transaction_state")


def use(servers: str) -> None:
    """Make topics, records, committed offsets and a transaction."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders"), NewTopic("payments")])
    with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number)
    with Consumer(bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        count = 0
        while count < RECORDS:
            count += len(list(consumer.poll(5)))
        consumer.commit()


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of three brokers, of which the first was alone, had topics, and was migrated."""
    place = tmp_path_factory.mktemp("grown")
    address = fresh_chroot(shared_server())
    small = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    alone = Broker({"broker.id": "1", **small}, data_dir=place / "1", process=True)
    with alone:
        use(alone.bootstrap_servers)
    moved = run_here("cluster", "migrate", "--data", str(alone.data_dir), "--zookeeper", address)
    assert moved.code == 0, moved.err
    assert "--replication-factor" in moved.out, "the next step is named"
    brokers = [
        Broker(
            {"broker.id": str(number), "zookeeper.connect": address, **small},
            data_dir=place / str(number),
            process=True,
        )
        for number in (1, 2, 3)
    ]
    try:
        for each in brokers:
            each.start()
        yield ",".join(each.bootstrap_servers for each in brokers)
    finally:
        for each in brokers:
            if each.is_running:
                each.stop()


def replicas(admin: Admin) -> dict[str, set[int]]:
    """How many in-sync replicas the partitions of each topic have."""
    return {
        name: {len(each.in_sync) for each in topic.partitions}
        for name, topic in admin.describe_all_topics(include_internal=True).items()
    }


def leaders(admin: Admin) -> set[int]:
    return {
        each.replicas[0]
        for topic in admin.describe_all_topics(include_internal=True).values()
        for each in topic.partitions
    }


def test_topics_of_a_broker_that_was_alone_get_more_replicas(grown: str, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=grown) as admin:
        assert set(replicas(admin)) == {"orders", "payments", *INTERNAL}
        assert all(counts == {1} for counts in replicas(admin).values())
        warned = run_here("doctor", "--format", "json", "--wait", "0", server=grown)
        assert "--replication-factor 3" in warned.out

        done = run_here("topic", "alter", "orders", "--replication-factor", "2", server=grown)
        assert done.code == 0, done
        wait_until(lambda: replicas(admin)["orders"] == {2}, "every broker to show two replicas", 30)
        again = run_here("topic", "alter", "orders", "--replication-factor", "2", "--format", "json", server=grown)
        assert again.document == {"name": "orders", "altered": True}

        made = run_here("reassign", "generate", "--all-topics", "--replication-factor", "3", server=grown)
        entries = made.document["partitions"]
        assert tuple(dict.fromkeys(each["topic"] for each in entries)) == (*INTERNAL, "orders", "payments")
        plan = tmp_path / "plan.json"
        plan.write_text(made.out)
        begun = run_here("reassign", "execute", str(plan), server=grown)
        assert begun.code == 0, begun
        assert f"{len(entries)} partitions are moving" in begun.err
        wait_until(lambda: run_here("reassign", "verify", str(plan), server=grown).code == 0, "the moves to end", 60)
        wait_until(lambda: all(counts == {3} for counts in replicas(admin).values()), "three replicas in sync", 30)
        assert leaders(admin) == {1}, "preferred leaders stay"
        assert "nothing has to move" in run_here("reassign", "execute", str(plan), server=grown).err

        less = run_here("topic", "alter", "payments", "--replication-factor", "2", server=grown)
        assert less.code == 0, less
        wait_until(lambda: replicas(admin)["payments"] == {2}, "every broker to show two replicas", 30)
    use_what_moved(grown)


def use_what_moved(servers: str) -> None:
    """Committed offsets and transactional ids go on."""
    with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"more")
    with Consumer(bootstrap_servers=servers, group_id="readers", isolation_level="read_committed") as consumer:
        consumer.subscribe(["orders"])
        values: list[bytes | None] = []
        while not values:
            values += [record.value for record in consumer.poll(5)]
    assert values == [b"more"]


def test_what_cannot_be_done_is_refused(grown: str) -> None:
    more = run_here("topic", "alter", "orders", "--replication-factor", "4", server=grown)
    assert more.code == 1
    assert "larger than available brokers: 3" in more.err
    neither = run_here("reassign", "generate", server=grown)
    assert "give topics, or --all-topics" in neither.err
    only = run_here("topic", "alter", "orders", "-r", "3", "--validate-only", server=grown)
    assert only.out == "Topic orders could be altered: 3 replicas.\n"
