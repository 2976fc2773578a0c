"""The console of an Apache Kafka cluster: every page, and acts of every area."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.integration.console_support import Browser, console
from tidelog.client.admin import Admin
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer

pytestmark = [pytest.mark.java, pytest.mark.long]

ACCESS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
PAGES = (
    *("/", "/checks", "/topics?internal=1", "/topics/orders", "/topics/orders/settings", "/topics/orders/messages"),
    *("/groups", "/group?id=billing", "/group/reset?id=billing", "/transactions", "/transaction?id=transfer"),
    *("/transactions/hanging?topic=orders", "/pipelines", "/dead-letters?topic=orders.dlq", "/reassignments"),
    *("/access", "/users", "/quotas", "/topics/orders/delete", "/topics/orders/settings/retention.ms"),
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with (
        ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, ACCESS) as broker,
    ):
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def browser(servers: str) -> Iterator[Browser]:
    with console(servers) as made:
        yield made


def test_every_page_and_acts_of_every_area_work_with_apache_kafka(browser: Browser, servers: str) -> None:
    for name in ("orders", "orders.dlq"):
        assert "was created" in browser.submit("/create-topic", name=name, partitions="2", replication="1")
    assert "at offset 0" in browser.submit("/topics/orders/produce", key="k", value='{"a": 1}', partition="1")
    with Producer(bootstrap_servers=servers, transactional_id="transfer") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"sure", partition=0)
    with Consumer({"auto.offset.reset": "earliest"}, bootstrap_servers=servers, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.poll(1):
            pass
        consumer.commit()
    for path in PAGES:
        browser.page(path)
    assert "&#34;a&#34;: 1" in browser.page("/topics/orders/messages?start=oldest&key=k")
    assert "was changed" in browser.submit("/topics/orders/settings/retention.ms", value="60000")
    assert "has 3 partitions now" in browser.submit("/topics/orders/partitions", total="3")
    assert "New offset" in browser.submit("/group/reset?id=billing", topic="orders", way="earliest")
    assert "was deleted" in browser.submit("/group/delete?id=billing", confirm="billing")
    page = browser.submit(
        "/access/add", principal="alice", permission="allow", operation="read", kind="topic", name="orders", host="*"
    )
    assert "was added" in page
    page = browser.submit("/users/add", user="alice", mechanism="SCRAM-SHA-512", password="hush", again="hush")
    assert "can log in" in page
    assert "were saved" in browser.submit("/quotas/set", user="alice", producer_byte_rate="1024")
    assert "is fenced" in browser.submit("/transaction/abort?id=transfer", confirm="transfer")
    assert "were sent to any topic" in browser.submit(
        "/dead-letters/replay?topic=orders.dlq", to="/dead-letters/replay/send?topic=orders.dlq"
    )
    assert "was deleted" in browser.submit("/topics/orders/delete", confirm="orders")
    with Admin(bootstrap_servers=servers) as admin:
        assert "orders" not in {topic.name for topic in admin.list_topics()}
        assert len(admin.describe_acls()) == 1
