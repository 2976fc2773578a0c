"""A real browser drives every page and every act of the console; axe-core finds nothing serious.

`TIDELOG_CONSOLE_SCREENSHOTS=DIRECTORY` keeps a picture of each page, in both themes and at three widths.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.compat.transactions.protocol import Rpc
from tests.integration import console_browser
from tests.integration.console_browser import Chromium, chromium
from tests.integration.console_support import console_process
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, NewTopic, ResourceType
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ApiError, ProducerFenced
from tidelog.client.producer import Producer
from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.testing import Cluster, SchemaRegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

HOSTILE = '<img src=x onerror="document.title=1">'
TOKEN = "a-token-for-the-browser"
CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": True,
    "transaction.partition.verification.enable": False,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    # A replica is throttled only after its first fetch, which must not hold all there is.
    "replica.fetch.response.max.bytes": 200_000,
}
INVOICE_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string", "doc": HOSTILE},
]
INVOICES: tuple[dict[str, Any], ...] = tuple(
    {"type": "record", "name": "Invoice", "fields": INVOICE_FIELDS + more}
    for more in ([], [{"name": "paid", "type": ["null", "string"], "default": None}])
)
PAGES = {
    "overview": "/",
    "broker": "/brokers/1",
    "broker-settings": "/brokers/2/settings",
    "schemas": "/schemas",
    "schema": "/schema?subject=invoices-value",
    "schema-register": "/schema/register?subject=invoices-value",
    "schema-new": "/schema/register",
    "schema-compatibility": "/schema/compatibility?subject=invoices-value",
    "produce-schema": "/topics/invoices/produce",
    "checks": "/checks",
    "topics": "/topics",
    "topic": "/topics/orders",
    "topic-settings": "/topics/orders/settings",
    "topic-setting": "/topics/orders/settings/retention.ms",
    "topic-create": "/create-topic",
    "topic-delete": "/topics/orders/delete",
    "messages": "/topics/orders/messages",
    "messages-search": "/topics/orders/messages?start=oldest&q=customer-7",
    "messages-columns": "/topics/orders/messages?columns=order,customer,amount",
    "message": "/topics/orders/messages/0/0",
    "live": "/topics/orders/live",
    "live-empty": "/topics/customer-changes/live?q=nothing",
    "topic-groups": "/topics/orders/groups",
    "produce-again": "/topics/orders/produce?partition=0&offset=0",
    "messages-waiting": "/topics/reminders/messages",
    "delayed": "/topics/reminders/delayed",
    "produce": "/topics/orders/produce",
    "groups": "/groups",
    "group": "/group?id=billing",
    "group-reset": "/group/reset?id=reports",
    "group-delete": "/group/delete?id=reports",
    "transactions": "/transactions",
    "transaction": "/transaction?id=transfer-1",
    "transactions-hanging": "/transactions/hanging?topic=stuck&minutes=0",
    "pipelines": "/pipelines",
    "dead-letters": "/dead-letters?topic=orders.dlq",
    "replay": "/dead-letters/replay?topic=orders.dlq",
    "replays": "/dead-letters/replays",
    "reassignments": "/reassignments",
    "reassignment-start": "/reassignments/start",
    "access": "/access",
    "access-add": "/access/add",
    "users": "/users",
    "user-add": "/users/add",
    "quotas": "/quotas",
    "quota-set": "/quotas/set",
    "error": "/topics/missing",
}
PHONE_PAGES = (
    "overview",
    "topics",
    "topic",
    "messages",
    "messages-columns",
    "live",
    "delayed",
    "groups",
    "group",
    "access",
    "quota-set",
    "dead-letters",
    "broker",
    "schema",
)
LOOKS: tuple[tuple[str, int, Sequence[str], tuple[str, ...]], ...] = (
    ("light", 1280, tuple(PAGES), ()),
    ("dark", 1280, tuple(PAGES), ("color-contrast",)),
    ("light", 390, PHONE_PAGES, ()),
    ("dark", 390, ("overview", "messages"), ("color-contrast",)),
)
"""Theme, width, pages, and the rules of axe-core to check: all of them once, and what differs where it differs."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    reason = console_browser.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with Cluster(brokers=2, config=CONFIG) as made:
        _fill(made)
        yield made


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers, visible_timeout_ms=60_000) as made:
        yield made


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as made:
        client = SchemaRegistry(made.url)
        for schema in INVOICES:
            client.register("invoices-value", Schema(json.dumps(schema)))
        client.register("clicks-value", Schema('{"type": "object"}', "JSON"))
        yield made


@pytest.fixture(scope="module")
def browser(cluster: Cluster, registry: SchemaRegistryServer) -> Iterator[Chromium]:
    options = ("--schema-registry", registry.url)
    with console_process(cluster.bootstrap_servers, *options) as url, chromium(url) as made:
        made.show(1280, "light")
        yield made
        assert made.complaints() == []


@pytest.fixture(scope="module", autouse=True)
def load(cluster: Cluster) -> Iterator[None]:
    """Records and a reader, so that there is throughput and lag to plot."""
    stop = threading.Event()

    def run() -> None:
        settings = {"auto.offset.reset": "earliest", "client.id": "billing-1"}
        with (
            Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            Consumer(settings, bootstrap_servers=cluster.bootstrap_servers, group_id="billing") as consumer,
        ):
            consumer.subscribe(["orders", "payments"])
            number = 0
            while not stop.is_set():
                for _ in range(20 + number % 60):
                    number += 1
                    _send_order(producer, number, "payments" if number % 4 == 0 else "orders")
                producer.flush()
                consumer.poll(0.1)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stop.set()
    thread.join()


def _send_order(producer: Producer, number: int, topic: str) -> None:
    customer = f"customer-{number % 97}"
    value = {"order": number, "customer": customer, "amount": number * 7 % 9000 / 100, "note": HOSTILE}
    producer.send(topic, json.dumps(value).encode(), customer.encode(), headers=[("source", b"shop"), ("raw", b"\0\1")])


def _fill(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers, visible_timeout_ms=60_000) as admin:
        names = {"orders": 6, "payments": 3, "customer-changes": 4, "clicks.enriched.by-session": 2, "big": 1}
        admin.create_topics([NewTopic(name, partitions, 2) for name, partitions in names.items() if name != "big"])
        admin.create_topics([NewTopic(name, 1, 1) for name in ("orders.retry.1", "orders.retry.parked", "orders.dlq")])
        admin.create_topics([NewTopic("big", assignment=[[1]]), NewTopic("haystack", 1, 1)])
        admin.create_topics([NewTopic("invoices", 1, 2)])
        admin.create_topics([NewTopic("reminders", 2, 2, {"tidelog.delay.enable": "true"})])
        with Producer(bootstrap_servers=servers, transactional_id="transfer-1") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("payments", b"sure", partition=0)
        coordinator = _leader_of(cluster, "__transaction_state")
        admin.create_topics([NewTopic("stuck", assignment=[[coordinator]])])
        port = int(cluster.address_of(coordinator).rpartition(":")[2])
        with Rpc(port) as rpc:
            rpc.write("stuck", 0, [b"left behind"], rpc.start("lost"))
        with Producer(bootstrap_servers=servers) as plain:
            for number in range(200):
                _send_order(plain, number, "orders")
            for number in range(40):
                origin = Origin("orders", number % 6, number, 1_700_000_000_000)
                error = ("TimeoutError", f"the bank did not answer within {number} s")
                trail = Trail("billing", 3, *error, 1_700_000_100_000 + number, origin)
                plain.send("orders.dlq", f'{{"order": {number}}}'.encode(), headers=encode(trail))
            plain.send("customer-changes", bytes(range(256)), b"\x80\x81")
            plain.send("customer-changes", None, HOSTILE.encode())
            for _ in range(40):
                plain.send("big", os.urandom(100_000))
            for number in range(8):
                header = ("tidelog-delay", f"{number + 1}h".encode())
                plain.send("reminders", b"still open?", f"order-{number}".encode(), headers=[header])
            for number in range(45_000):
                plain.send("haystack", b"a needle" if number == 3 else b"hay")
            plain.flush()
        for group, offset in (("reports", 3), (HOSTILE, 1)):
            places = {TopicPartition("orders", each): OffsetAndMetadata(offset) for each in range(6)}
            admin.alter_consumer_group_offsets(group, places)


def _leader_of(cluster: Cluster, topic: str) -> int:
    """The leader of a topic that was created by itself: one broker may know it a moment later than the other."""
    found: list[int] = []

    def is_known() -> bool:
        with suppress(ApiError):
            found.append(cluster.leader_of(topic, 0))
        return bool(found) and found[-1] >= 0

    until(is_known)
    return found[-1]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_a_topic_from_creation_to_deletion(browser: Chromium, admin: Admin) -> None:
    browser.open("/topics")
    browser.follow("Create topic")
    text = browser.submit("Create", name="made", partitions="2", settings="retention.ms=1000")
    assert "Topic made was created." in text
    browser.follow("Settings")
    browser.follow("Edit retention.ms")
    assert "retention.ms of made was changed." in browser.submit("Save", value="60000")
    browser.follow("Add partitions")
    assert "Topic made has 3 partitions now." in browser.submit("Add partitions", total="3")
    browser.follow("Produce")
    text = browser.submit("Produce", key="k", value='{"a": "<b>"}', headers="h=v", partition="1")
    assert "The record was written to partition 1 at offset 0." in text
    browser.follow("Delete")
    assert "nothing was changed" in browser.submit("Delete the topic", confirm="other")
    assert "Topic made was deleted." in browser.submit("Delete the topic", confirm="made")
    assert "made" not in {topic.name for topic in admin.list_topics()}


def test_a_schema_is_checked_registered_and_used(browser: Chromium) -> None:
    browser.open("/schemas")
    browser.follow("invoices-value")
    assert "Since version 1" in browser.text
    browser.follow("New version")
    mandatory = {"name": "due", "type": "string"}
    schemas = [
        {**INVOICES[-1], "fields": INVOICES[-1]["fields"] + [each]}
        for each in (mandatory, {**mandatory, "default": ""})
    ]
    assert "it is not compatible" in browser.submit("Check", schema=json.dumps(schemas[0]))
    assert "it is compatible" in browser.submit("Check", schema=json.dumps(schemas[1]))
    assert "is version 3 of invoices-value" in browser.follow("Register")
    browser.follow("Compatibility")
    assert "is FULL now" in browser.submit("Save", level="FULL")
    browser.open("/topics/invoices/produce")
    assert '"customer": ""' in str(
        browser.driver.execute_script("return document.querySelector('main [name=value]').value")
    )
    text = browser.submit("Produce", value='{"id": 7, "customer": 3}')
    assert "the value.customer is 3, which is no string" in text
    text = browser.submit("Produce", value=json.dumps({"id": 7, "customer": HOSTILE}))
    assert "The record was written" in text
    assert '"id": 7' in text
    assert browser.driver.title != "1", "a value was run as a script"


def test_messages_are_browsed_searched_and_opened(browser: Chromium) -> None:
    browser.open("/topics/orders/messages")
    browser.fill(start="offset")
    browser.submit("Show", offset="2", partition="3")
    assert "3 : 2" in browser.text
    browser.open("/topics/orders/messages?start=oldest")
    browser.driver.find_element("css selector", "details.message summary").click()
    assert HOSTILE.replace('"', '\\"') in browser.text
    assert browser.driver.title != "1", "a value was run as a script"
    browser.follow("Link to this record")
    assert "Leader epoch" in browser.text
    browser.open("/topics/orders/messages")
    assert "Searched" in browser.submit("Show", start="oldest", key="customer-7")
    browser.open("/topics/customer-changes/messages?start=oldest")
    assert "tombstone" in browser.text


def test_records_that_wait_are_cancelled_and_rescheduled(browser: Chromium, admin: Admin) -> None:
    browser.open("/topics/reminders/messages")
    assert "still open?" not in browser.text
    browser.follow("8 records wait for their time")
    browser.fill(key="order-7")
    browser.follow("Show")
    browser.follow("Cancel all with this key")
    assert "1 record was cancelled." in browser.submit("Cancel for good", confirm="reminders")
    assert sum(each.waiting for each in admin.list_delayed_records("reminders").values()) == 7
    browser.open("/topics/reminders/delayed?key=order-0")
    browser.follow("Reschedule all with this key")
    assert "1 record was rescheduled" in browser.submit("Reschedule", time="0s")
    until(lambda: "still open?" in browser.open("/topics/reminders/messages"))


HOLD_FETCHES = """
const real = window.fetch;
window.held = [];
window.fetch = (url, options) => new Promise((resolve, reject) => {
  options.signal.addEventListener("abort", () => reject(options.signal.reason));
  window.held.push(() => real(url, options).then(resolve, reject));
});
"""


def test_a_search_goes_on_by_itself_until_it_is_stopped_or_finds_something(browser: Chromium) -> None:
    text = browser.open("/topics/haystack/messages?q=needle")
    assert "Searched 20,000 of 45,000 records; no match so far." in text
    assert "No match so far. Search on to look at the rest." in text
    browser.driver.execute_script(HOLD_FETCHES)
    browser.press("Search on")
    until(lambda: browser.driver.execute_script("return window.held.length") == 1)
    browser.driver.execute_script("window.held[0]()")
    until(lambda: browser.driver.execute_script("return window.held.length") == 2)
    assert "Searched 40,000 of 45,000 records; no match so far." in browser.text
    browser.press("Stop")
    until(lambda: browser.driver.switch_to.active_element.text == "Search on")
    assert "Searched 40,000 of 45,000 records; no match so far." in browser.text
    browser.press("Search on")
    until(lambda: browser.driver.execute_script("return window.held.length") == 3)
    browser.driver.execute_script("window.held[2]()")
    until(lambda: "Searched all of 45,000 records: 1 match." in browser.text)
    assert "0 : 3" in browser.text
    assert "Search on" not in browser.text
    assert "no match" not in browser.text.lower()
    assert browser.violations() == []


def test_records_are_followed_paused_and_filtered(browser: Chromium, cluster: Cluster) -> None:
    browser.open("/topics/orders/live?key=customer-7")
    places = "return [...document.querySelectorAll('#live .place')].map((each) => each.textContent)"
    until(lambda: len(browser.driver.execute_script(places)) > 1)
    until(lambda: "matches/s" in browser.text)
    shown = browser.driver.find_elements("css selector", "#live .value")
    assert all("customer-7" in each.text for each in shown[:5])
    browser.press("Pause")
    assert "Paused" in browser.text
    before = browser.driver.execute_script(places)
    browser.press("Resume")
    until(lambda: len(browser.driver.execute_script(places)) > len(before))
    after = browser.driver.execute_script(places)
    assert after[-len(before) :] == before
    assert len(after) == len(set(after)), "a record was shown twice"
    browser.press("Pause")
    browser.open("/topics/customer-changes/live")
    until(lambda: "records/s" in browser.text)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("customer-changes", HOSTILE.encode(), b"alive").result(10)
    until(lambda: "alive" in browser.text)
    assert HOSTILE in browser.text
    assert browser.driver.title != "1", "a value was run as a script"


def test_groups_are_reset_after_a_preview_and_deleted(browser: Chromium, admin: Admin) -> None:
    browser.open("/groups")
    browser.follow(HOSTILE)
    browser.follow("Reset offsets")
    text = browser.submit("Preview", way="earliest")
    assert "-1" in text
    assert {each.offset for each in admin.list_consumer_group_offsets(HOSTILE).values()} == {1}
    assert "were reset" in browser.follow("Reset 6 partitions")
    assert {each.offset for each in admin.list_consumer_group_offsets(HOSTILE).values()} == {0}
    browser.follow("Delete")
    assert "was deleted" in browser.submit("Delete the group", confirm=HOSTILE)
    assert "Stable" in browser.open("/group?id=billing")


def test_transactions_are_aborted_by_id_and_where_they_hang(browser: Chromium, cluster: Cluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="transfer-2") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send("payments", b"unsure")
        producer.flush()
        browser.open("/transactions?state=Ongoing")
        browser.follow("transfer-2")
        browser.follow("Abort and fence")
        assert "its producer is fenced" in browser.submit("Abort and fence", confirm="transfer-2")
        with pytest.raises(ProducerFenced):
            producer.abort()
    browser.open("/transactions")
    browser.follow("Find hanging ones")
    assert "Hanging" in browser.submit("Find", topic="stuck", minutes="0")


@pytest.fixture(scope="module")
def filled(browser: Chromium, admin: Admin) -> Chromium:
    """Something on each page: an entry, a user, a quota, a move under way, all made through the console."""
    _add_access(browser)
    _slow_move(browser, admin)
    return browser


def test_every_page_is_accessible_in_both_themes_and_widths(filled: Chromium) -> None:
    browser = filled
    until(lambda: browser.open("/").count("records/s") and "plot-line" in browser.driver.page_source)
    until(lambda: "plot-line" in (browser.open("/group?id=billing"), browser.driver.page_source)[1])
    problems = []
    for theme, width, paths, rules in LOOKS:
        browser.show(width, theme)
        for name in paths:
            _open(browser, name)
            problems += [f"{name}, {theme}, {width}: {each}" for each in browser.violations(*rules)]
            if browser.is_too_wide():
                problems.append(f"{name}, {theme}, {width}: the page scrolls sideways")
    browser.show(1280, "light")
    assert problems == []
    if "TIDELOG_CONSOLE_SCREENSHOTS" in os.environ:
        _photograph(browser, Path(os.environ["TIDELOG_CONSOLE_SCREENSHOTS"]))


def _open_until_drawn(browser: Chromium, name: str) -> None:
    """Load a page until its chart has points."""

    def is_drawn() -> bool:
        _open(browser, name)
        return "plot-line" in browser.driver.page_source

    until(is_drawn)


def test_axes_have_the_same_texts_on_all_pages_and_lag_is_on_a_phones_screen(browser: Chromium) -> None:
    sizes = set()
    for width in (1280, 390):
        browser.show(width, "light")
        for name in ("overview", "topic", "group"):
            _open_until_drawn(browser, name)
            sizes |= set(browser.driver.execute_script(HEIGHTS_OF_AXIS_TEXTS))
    assert len(sizes) == 1
    for name in ("groups", "group", "pipelines"):
        _open(browser, name)
        ends = browser.driver.execute_script(ENDS_OF_LAG_COLUMNS)
        assert ends, name
        assert max(ends) <= 390, name
    browser.show(1280, "light")


HEIGHTS_OF_AXIS_TEXTS = """
return [...document.querySelectorAll(".plot span, .plot text")].map((each) => each.getBoundingClientRect().height)
"""
ENDS_OF_LAG_COLUMNS = """
return [...document.querySelectorAll("thead th, [data-label=Lag]")]
  .filter((each) => each.dataset.label === "Lag" || each.textContent === "Lag")
  .map((each) => each.getBoundingClientRect()).filter((each) => each.width > 0).map((each) => each.right)
"""


def _open(browser: Chromium, name: str) -> None:
    browser.open(PAGES[name])
    if name == "live":
        until(lambda: browser.driver.find_elements("css selector", "#live .message"))
    if name == "messages":
        browser.driver.find_element("css selector", "details.message summary").click()


def _photograph(browser: Chromium, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for width in (1440, 768, 390):
            browser.show(width, theme)
            for name in PAGES:
                _open(browser, name)
                browser.photograph(directory / f"{name}-{theme}-{width}.png", width)
    browser.show(1280, "light")


def _add_access(browser: Chromium) -> None:
    browser.open("/access")
    browser.follow("Add entry")
    text = browser.submit("Add", principal="User:alice", operation="read", kind="topic", name="ord", is_prefix="1")
    assert "was added" in text
    browser.follow("Users")
    browser.follow("Add user")
    assert "User alice can log in" in browser.submit("Save", user="alice", password="hush", again="hush")
    browser.open("/quotas")
    browser.follow("Set quotas")
    assert "were saved" in browser.submit("Save", user="alice", producer_byte_rate="1048576")


def _slow_move(browser: Chromium, admin: Admin) -> None:
    """Move a partition so slowly that it can be looked at."""
    rate = [ConfigChange(f"{who}.replication.throttled.rate", "1000") for who in ("leader", "follower")]
    admin.incremental_alter_configs({ConfigResource(ResourceType.BROKER, str(each)): rate for each in (1, 2)})
    replicas = [ConfigChange(f"{who}.replication.throttled.replicas", "*") for who in ("leader", "follower")]
    admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, "big"): replicas})
    browser.open("/reassignments")
    browser.follow("Move partitions")
    assert "move now" in browser.submit("Start the move", topic="big", partition="0", replicas="2")
    assert "%" in browser.text


def test_what_was_added_is_removed_and_moves_are_cancelled(filled: Chromium, admin: Admin) -> None:
    browser = filled
    browser.open("/reassignments")
    browser.follow("Cancel the move of big-0")
    assert "was cancelled" in browser.follow("Cancel the move")
    until(lambda: admin.describe_topics(["big"])["big"].partitions[0].replicas == (1,))
    browser.open("/access?principal=alice")
    browser.follow("Delete allow read of User:alice on topic ord")
    assert "was deleted" in browser.follow("Delete the entry")
    browser.follow("Users")
    browser.follow("Delete SCRAM-SHA-512 of alice")
    assert "can no longer log in" in browser.submit("Delete the credential", confirm="alice")
    browser.open("/quotas")
    browser.follow("Remove the quotas of user alice")
    assert "were removed" in browser.follow("Remove the quotas")
    browser.open("/transactions/hanging?topic=stuck&minutes=0")
    browser.follow("Abort in partition 0")
    assert "was aborted" in browser.submit("Abort", confirm="stuck")
    assert "No transaction is open in stuck." in browser.text


def test_chosen_dead_letters_are_replayed(browser: Chromium) -> None:
    browser.open("/dead-letters?topic=orders.dlq")
    assert "40 letters, 40 not replayed" in browser.text
    browser.tick("Choose 0:39")
    browser.tick("Choose 0:37")
    browser.follow("Replay the chosen")
    assert "38 stay dead letters." in browser.text
    browser.follow("Send 2 letters")
    until(lambda: "2 letters sent to orders, 38 kept" in browser.open("/dead-letters/replays"))
    assert browser.violations() == []
    assert "38 not replayed" in browser.open("/dead-letters?topic=orders.dlq")
    assert browser.violations() == []


def test_dead_letters_are_replayed_after_a_preview(browser: Chromium) -> None:
    browser.open("/pipelines")
    browser.follow("Replay the dead letters of orders")
    text = browser.submit("Preview", filters="error.message~within 1. s")
    assert "28 stay dead letters." in text
    browser.follow("Send 10 letters")
    until(lambda: "10 letters sent to orders, 28 kept" in browser.open("/dead-letters/replays"))


def test_the_theme_is_switched_and_kept_and_the_keyboard_is_enough(browser: Chromium) -> None:
    browser.open("/topics")
    before = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.driver.find_element("css selector", "[data-theme-switch]").click()
    after = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert before != after
    browser.open("/groups")
    assert browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor") == after
    browser.driver.find_element("css selector", "body").send_keys("/")
    assert browser.driver.switch_to.active_element.get_attribute("name") == "q"
    browser.driver.find_element("css selector", "[data-theme-switch]").click()


def test_several_clusters_are_looked_at_side_by_side(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    profiles = tmp_path / "tidelog" / "profiles"
    profiles.mkdir(parents=True)
    for name, servers in (("east", cluster.bootstrap_servers), ("away", "127.0.0.1:1")):
        (profiles / f"{name}.properties").write_text(f"bootstrap.servers={servers}\n")
    options = ("--profile", "east", "--profile", "away")
    with console_process(None, *options) as url, chromium(url) as browser:
        for theme, width in (("light", 1280), ("dark", 390)):
            browser.show(width, theme)
            assert "The cluster cannot be reached" in browser.open("/")
            assert browser.violations() == []
            assert not browser.is_too_wide()
        browser.show(1280, "light")
        assert "orders" in browser.open("/clusters/east/topics")
        browser.follow("orders")
        browser.follow("Messages")
        assert "Partition : offset" in browser.text
        browser.driver.find_element("css selector", ".clusters summary").click()
        assert browser.violations() == []
        assert "cannot be reached" in browser.follow("away")
        if "TIDELOG_CONSOLE_SCREENSHOTS" in os.environ:
            _photograph_clusters(browser, Path(os.environ["TIDELOG_CONSOLE_SCREENSHOTS"]))
        assert browser.complaints() == []


def _photograph_clusters(browser: Chromium, directory: Path) -> None:
    pages = {"clusters": "/", "clusters-overview": "/clusters/east/", "clusters-away": "/clusters/away/"}
    for theme in ("light", "dark"):
        for width in (1440, 768, 390):
            browser.show(width, theme)
            for name, path in pages.items():
                browser.open(path)
                browser.photograph(directory / f"{name}-{theme}-{width}.png", width)


def test_a_token_is_asked_for_before_anything_is_shown(cluster: Cluster) -> None:
    with (
        console_process(cluster.bootstrap_servers, TIDELOG_CONSOLE_TOKEN=TOKEN) as url,
        chromium(url) as browser,
    ):
        assert "orders" not in browser.open("/topics/orders")
        assert browser.violations() == []
        assert "The token is not" in browser.submit("Log in", password="guess")
        assert "orders" in browser.submit("Log in", password=TOKEN)
        browser.follow("Log out")
        assert "orders" not in browser.open("/topics")
        assert browser.complaints() == []
