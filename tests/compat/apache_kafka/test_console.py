"""The console of an Apache Kafka cluster: every page, and acts of every area."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.compat.groups.kraft import NEWEST, NEWEST_VERSION, KraftBroker
from tests.integration.console_support import Browser, console
from tidelog.client.admin import Admin
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.console.pages import pipelines

pytestmark = [pytest.mark.java, pytest.mark.long]

ACCESS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
INTERNAL_TOPICS = {
    "allow.everyone.if.no.acl.found": "true",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
PAGES = (
    *(
        "/",
        "/checks",
        "/topics/orders/live",
        "/topics/orders/groups",
        "/topics/orders/produce?partition=1&offset=0",
        "/topics?internal=1",
        "/topics/orders",
        "/topics/orders/settings",
        "/topics/orders/messages",
    ),
    *("/groups", "/group?id=billing", "/group/reset?id=billing", "/transactions", "/transaction?id=transfer"),
    *("/transactions/hanging?topic=orders", "/pipelines", "/dead-letters?topic=orders.dlq", "/reassignments"),
    *("/access", "/users", "/quotas", "/topics/orders/delete", "/topics/orders/settings/retention.ms"),
)


@contextmanager
def _with_zookeeper(directory: Path) -> Iterator[str]:
    with ZooKeeper(directory / "zookeeper") as zookeeper, KafkaBroker(directory / "kafka", zookeeper, ACCESS) as broker:
        yield broker.bootstrap_servers


@contextmanager
def _with_kraft(directory: Path) -> Iterator[str]:
    access = {**ACCESS, "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with KraftBroker(directory / "kafka", {**access, **INTERNAL_TOPICS}, NEWEST) as broker:
        yield broker.bootstrap_servers


Start = Callable[[Path], AbstractContextManager[str]]
RELEASES: dict[str, tuple[Start, Callable[[], str | None]]] = {
    apache_kafka.VERSION: (_with_zookeeper, apache_kafka.unavailable_reason),
    NEWEST_VERSION: (_with_kraft, NEWEST.unavailable_reason),
}


@pytest.fixture(scope="module", params=RELEASES)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    start, unavailable_reason = RELEASES[request.param]
    reason = apache_kafka.unavailable_reason() or unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with start(tmp_path_factory.mktemp("servers")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(servers: str) -> Iterator[Browser]:
    with console(servers) as made:
        yield made


def test_every_page_and_acts_of_every_area_work_with_apache_kafka(
    browser: Browser, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    path = re.findall(r'href="(/brokers/\d+)"', browser.page("/"))[0]
    assert "does not serve its metrics over HTTP" in browser.page(path)
    assert "log.dirs" in browser.page(f"{path}/settings")
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
    monkeypatch.setattr(pipelines, "REPLAY_WAIT_S", 60.0)
    assert "were sent to any topic" in browser.submit(
        "/dead-letters/replay?topic=orders.dlq", to="/dead-letters/replay/send?topic=orders.dlq"
    )
    assert "was deleted" in browser.submit("/topics/orders/delete", confirm="orders")
    with Admin(bootstrap_servers=servers) as admin:
        assert "orders" not in {topic.name for topic in admin.list_topics()}
        assert len(admin.describe_acls()) == 1
