"""The console's pages and acts against a broker, through its application."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.console_support import Browser, console
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import LATEST, ConfigResource, NewTopic, ResourceType
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.console import reading
from tidelog.testing import Broker

ACCESS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config=ACCESS) as broker:
        broker.create_topic("orders", 3)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(120):
                value = json.dumps({"id": number, "note": HOSTILE}).encode()
                producer.send(
                    "orders",
                    value,
                    f"key-{number % 10}".encode(),
                    partition=number % 3,
                    headers=[("trace", HOSTILE.encode())],
                    timestamp_ms=1_700_000_000_000 + number * 1000,
                )
            producer.flush()
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def browser(servers: str) -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, console(servers) as made:
        patch.setattr(reading, "SECONDS_MAX", 60.0)  # a search that a busy machine makes slow is still whole
        yield made


@pytest.fixture(scope="module")
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def offsets_in(page: str) -> list[str]:
    return [part.split("<")[0] for part in page.split('<span class="place">')[1:]]


def test_the_overview_has_brokers_health_and_throughput_from_samples(browser: Browser, servers: str) -> None:
    page = browser.page("/")
    assert "have a leader and every replica in sync." in page
    assert servers in page
    with Producer(bootstrap_servers=servers) as producer:

        def has_plot() -> bool:
            producer.send("orders", b"more", partition=0).result(10)
            return 'class="plot-line"' in browser.page("/") and "Busiest topics" in browser.page("/")

        until(has_plot)


def test_the_checks_of_the_doctor_are_a_page(browser: Browser) -> None:
    page = browser.page("/checks")
    assert "<h1>Checks</h1>" in page
    assert "What to do" in page or "Nothing is wrong." in page


def test_topics_are_found_by_name_and_internal_ones_shown_on_request(browser: Browser) -> None:
    assert 'href="/topics/orders"' in browser.page("/topics?q=RDER")
    assert "No topic has “xyz” in its name." in browser.page("/topics?q=xyz")
    page = browser.page("/topics/orders")
    assert "First offset" in page
    assert "In sync" in page
    assert "It does not exist" in browser.page("/topics/missing", status=404)


def test_a_topic_is_created_changed_widened_and_deleted_after_its_name_was_typed(
    browser: Browser, admin: Admin
) -> None:
    page = browser.submit("/create-topic", name="made", partitions="2", replication="", settings="retention.ms=1000")
    assert "Topic made was created." in page
    resource = ConfigResource(ResourceType.TOPIC, "made")
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "1000"
    assert "was changed" in browser.submit("/topics/made/settings/retention.ms", value="5000")
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "5000"
    refused = browser.submit("/topics/made/settings/retention.ms", status=502, value="soon")
    assert 'value="soon"' in refused
    assert "retention.ms" in refused
    assert "value again" in browser.submit("/topics/made/settings/retention.ms", value="5000", reset="1")
    assert "has 4 partitions now" in browser.submit("/topics/made/partitions", total="4")
    refused = browser.submit("/topics/made/delete", status=400, confirm="mad")
    assert "nothing was changed" in refused
    assert len(admin.describe_topics(["made"])["made"].partitions) == 4
    assert "Topic made was deleted." in browser.submit("/topics/made/delete", confirm="made")
    assert "made" not in {topic.name for topic in admin.list_topics()}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"name": ""}, "Name is missing."),
        ({"name": "a b"}, "INVALID_TOPIC_EXCEPTION"),
        ({"name": "x", "partitions": "many"}, "must be a whole number"),
        ({"name": "x", "settings": "retention.ms"}, "is not name=value"),
        ({"name": "orders"}, "TOPIC_ALREADY_EXISTS"),
        ({"name": "x", "replication": "9"}, "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_a_topic_that_cannot_be_created_shows_the_form_again_with_the_reason(
    browser: Browser, values: dict[str, str], complaint: str
) -> None:
    form = browser.client.get("/create-topic").text
    secret = form.split('name="form_secret" value="')[-1].split('"')[0]
    response = browser.client.post("/create-topic", data={"form_secret": secret, **values})
    assert response.status_code >= 400
    assert complaint in html.unescape(response.text)
    assert 'name="partitions"' in response.text


def test_records_are_browsed_backwards_and_forwards_without_gaps(browser: Browser) -> None:
    seen: list[str] = []
    path = "/topics/orders/messages?start=oldest&count=50"
    while path:
        page = browser.page(path)
        seen += offsets_in(page)
        links = page.split('aria-label="Older and newer records"')[1]
        newer = [part.split('"')[0] for part in links.split('href="')[1:] if "from=" in part.split('"')[0]]
        path = html.unescape(newer[0]) if newer else ""
    assert len(seen) == len(set(seen)) >= 120
    backwards: list[str] = []
    path = "/topics/orders/messages?count=50"
    while path:
        page = browser.page(path)
        backwards += offsets_in(page)
        links = page.split('aria-label="Older and newer records"')[1]
        older = [part.split('"')[0] for part in links.split('href="')[1:] if "before=" in part.split('"')[0]]
        path = html.unescape(older[0]) if older else ""
    assert set(seen) <= set(backwards)
    assert len(backwards) == len(set(backwards))


def test_records_are_found_by_offset_time_key_and_contents(browser: Browser) -> None:
    page = browser.page("/topics/orders/messages?start=offset&offset=39&partition=1&count=1")
    assert offsets_in(page) == ["1 : 39"]
    page = browser.page("/topics/orders/messages?start=time&time=2023-11-14T22:14:50Z&count=2")
    assert offsets_in(page) == ["0 : 30", "1 : 30"], "90 s after the first record"
    page = browser.page("/topics/orders/messages?start=oldest&key=key-7")
    assert len(offsets_in(page)) == 12
    phrase = quote("id 77,")
    page = browser.page(f"/topics/orders/messages?start=oldest&q={phrase}")
    assert offsets_in(page) == ["2 : 25"]
    assert "among" in page
    assert "1 record found" in page
    browser.page("/topics/orders/messages?start=time&time=soon", status=400)
    browser.page("/topics/orders/messages?partition=9", status=404)
    assert "is not PARTITION:OFFSET" in browser.page("/topics/orders/messages?from=x", status=400)


def test_what_records_contain_is_escaped(browser: Browser) -> None:
    for path in ("/topics/orders/messages?start=oldest", "/topics/orders/messages/0/3?format=text"):
        page = browser.page(path)
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page
    page = browser.page(f"/topics/{quote(HOSTILE, safe='')}", status=404)
    assert HOSTILE not in page
    assert HOSTILE not in browser.page(f"/groups?q={quote(HOSTILE)}")


def test_a_record_is_produced_and_found_again(browser: Browser, servers: str) -> None:
    page = browser.submit(
        "/topics/orders/produce", key="own", value="line 1\r\nline 2", headers="source=console", partition="2"
    )
    assert "The record was written to partition 2 at offset" in page
    assert "must be a whole number" in browser.submit("/topics/orders/produce", status=400, value="x", partition="7")
    found = browser.page("/topics/orders/messages?start=oldest&key=own")
    assert "line 1\nline 2" in found
    assert "console" in found
    assert "at offset" in browser.submit("/topics/orders/produce", key="own", value="", tombstone="1")
    assert "tombstone" in browser.page("/topics/orders/messages?start=oldest&key=own")


def test_groups_show_lag_and_are_reset_after_a_preview_and_deleted(
    browser: Browser, admin: Admin, servers: str
) -> None:
    group = f"billing {HOSTILE}"
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    with Consumer(settings, bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe(["orders"])

        def is_stable() -> bool:
            consumer.poll(0.5)
            return bool(consumer.assignment) and "Stable" in browser.page(f"/group?id={quote(group)}")

        until(is_stable)
        page = browser.page(f"/group?id={quote(group)}")
        assert "orders-0, orders-1, orders-2" in page
        assert HOSTILE not in page
    admin.alter_consumer_group_offsets(group, {TopicPartition("orders", 0): OffsetAndMetadata(7)})
    until(lambda: quote(group, safe="") in browser.page("/groups?sort=lag"))
    form = browser.submit(f"/group/reset?id={quote(group)}", topic="orders", way="shift", argument="-5", status=400)
    assert "a shift needs committed offsets" in html.unescape(form).lower()
    preview = browser.submit(f"/group/reset?id={quote(group)}", topic="orders", way="offset", argument="11")
    assert "+4" in preview
    assert admin.list_consumer_group_offsets(group)[TopicPartition("orders", 0)].offset == 7
    secret = preview.split('name="form_secret" value="')[-1].split('"')[0]
    plan = preview.split('name="plan" value="')[1].split('"')[0]
    done = browser.client.post(f"/group/reset/execute?id={quote(group)}", data={"form_secret": secret, "plan": plan})
    assert "of 3 partitions" in done.text
    offsets = admin.list_consumer_group_offsets(group)
    assert {each.offset for each in offsets.values()} == {11}
    assert "does not match" not in browser.submit(f"/group/delete?id={quote(group)}", confirm=group)
    assert group not in {each.group_id for each in admin.list_groups()}
    browser.page(f"/group?id={quote(group)}", status=404)


def test_a_change_without_the_forms_secret_or_from_another_site_is_refused(browser: Browser, admin: Admin) -> None:
    values = {"name": "forged"}
    for headers, data in (
        ({}, values),
        ({}, {**values, "form_secret": "guess"}),
        ({"origin": "http://evil.example"}, values),
    ):
        assert browser.client.post("/create-topic", data=data, headers=headers).status_code == 403
    assert "forged" not in {topic.name for topic in admin.list_topics()}
    assert browser.client.get("/", headers={"host": "evil.example"}).status_code == 403


def test_unknown_pages_and_a_cluster_that_is_away_are_pages_in_plain_english(browser: Browser) -> None:
    assert "There is no such page" in browser.page("/nothing", status=404)
    with console("127.0.0.1:1") as alone:
        page = alone.page("/", status=503)
        assert "The cluster cannot be reached" in page
        assert "--bootstrap-server" in page


def test_a_token_is_asked_for_and_sessions_expire(servers: str) -> None:
    token = "a-token-of-some-length"
    now = [0.0]
    with console(servers, token=token, session_idle_s=60, clock=lambda: now[0]) as browser:
        assert browser.client.get("/topics", follow_redirects=False).headers["location"] == "/login?to=%2Ftopics"
        assert "The token is not" in browser.submit("/login", status=401, password="wrong")
        page = browser.submit("/login?to=/topics", to="/login", password=token)
        assert "<h1>Topics</h1>" in page
        assert token not in page
        cookie = next(iter(browser.client.cookies.jar))
        assert cookie.name == "tidelog-console-8080"
        assert cookie.has_nonstandard_attr("HttpOnly")
        now[0] += 59
        assert "<h1>Topics</h1>" in browser.page("/topics")
        now[0] += 61
        assert "<h1>Log in</h1>" in browser.page("/topics")
        browser.submit("/login", password=token)
        secret = browser.page("/").split('name="form_secret" value="')[1].split('"')[0]
        assert "<h1>Log in</h1>" in browser.client.post("/logout", data={"form_secret": secret}).text
        assert "<h1>Log in</h1>" in browser.page("/topics")
        assert "evil" not in browser.client.get("/login?to=//evil.example").text


def test_access_control_entries_are_added_found_and_deleted(browser: Browser, admin: Admin) -> None:
    entry: dict[str, Any] = {
        "principal": HOSTILE,
        "permission": "deny",
        "operation": "read",
        "kind": "topic",
        "host": "*",
    }
    page = browser.submit("/access/add", name="ord", is_prefix="1", **entry)
    assert "was added" in page
    assert HOSTILE not in page
    assert len(admin.describe_acls()) == 1
    assert "Name is missing." in browser.submit("/access/add", status=400, **entry)
    assert "No entry matches." in browser.page("/access?kind=group")
    page = browser.page("/access?kind=topic&q=ord&principal=script")
    url = html.unescape(page.split('href="/access/delete')[1].split('"')[0])
    assert "(prefix)" in browser.page("/access/delete" + url)
    assert "was deleted" in browser.submit("/access/delete" + url)
    assert admin.describe_acls() == []
    assert "There is no such entry" in browser.submit("/access/delete" + url, status=404)


def test_users_are_added_and_deleted_and_passwords_never_shown(browser: Browser, admin: Admin) -> None:
    values: dict[str, Any] = {"user": "alice", "mechanism": "SCRAM-SHA-256", "password": "hush-hush"}
    page = browser.submit("/users/add", status=400, again="other", **values)
    assert "not the same" in page
    assert "hush-hush" not in page
    assert "hush-hush" not in browser.submit("/users/add", again="hush-hush", **values)
    assert admin.describe_user_scram_credentials() == {"alice": {"SCRAM-SHA-256": 4096}}
    path = "/users/delete?user=alice&mechanism=SCRAM-SHA-256"
    browser.submit(path, status=400, confirm="bob")
    assert "can no longer log in" in browser.submit(path, confirm="alice")
    assert admin.describe_user_scram_credentials() == {}


def test_quotas_are_set_changed_and_removed(browser: Browser, admin: Admin) -> None:
    assert "were saved" in browser.submit("/quotas/set", user="<default>", producer_byte_rate="1024")
    assert 'value="1024"' in browser.page("/quotas/set?user=%3Cdefault%3E")
    browser.submit("/quotas/set", user="<default>", producer_byte_rate="", request_percentage="50")
    (found,) = admin.describe_client_quotas().values()
    assert found == {"request_percentage": 50.0}
    assert "must be a number above 0" in browser.submit(
        "/quotas/set", status=400, ip="10.0.0.1", request_percentage="x"
    )
    assert "cannot be combined" in browser.submit("/quotas/set", status=400, ip="10.0.0.1", user="a")
    assert "&lt;default&gt;" not in browser.page("/quotas"), "the default is named in words"
    assert "were removed" in browser.submit("/quotas/remove?user=%3Cdefault%3E")
    assert admin.describe_client_quotas() == {}


def test_transactions_are_listed_described_and_aborted(browser: Browser, servers: str) -> None:
    name = f"transfer {HOSTILE}"
    path = f"/transaction?id={quote(name)}"
    with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send("orders", b"unsure", partition=0)
        producer.flush()
        page = browser.page("/transactions?state=Ongoing")
        assert "transfer &lt;script&gt;" in page
        assert HOSTILE not in page
        assert "orders" in browser.page(path)
        page = browser.page("/transactions/hanging?topic=orders&minutes=0")
        assert "its coordinator knows it" in page
        url = html.unescape(page.split('href="/transactions/hanging/abort')[1].split('"')[0])
        assert "abort it by its transactional id instead" in browser.page("/transactions/hanging/abort" + url)
        assert "is fenced" in browser.submit(f"/transaction/abort?id={quote(name)}", confirm=name)
        assert "No transaction is open." in browser.page(path)
        with pytest.raises(ClientError):
            producer.commit()
    assert "No transaction is open in orders." in browser.page("/transactions/hanging?topic=orders")
    browser.page("/transaction?id=unknown", status=404)


def test_dead_letters_are_shown_with_their_trail_and_replayed_after_a_preview(
    browser: Browser, admin: Admin, servers: str
) -> None:
    for name in ("bills", "bills.retry.1", "bills.dlq"):
        admin.create_topics([NewTopic(name, 1, 1)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(5):
            kind = "TimeoutError" if number < 3 else HOSTILE
            trail = Trail(
                "billing", 2, kind, "too late", 1_700_000_000_000, Origin("bills", 0, number, 1_700_000_000_000)
            )
            producer.send("bills.dlq", f"bill {number}".encode(), headers=[("own", b"1"), *encode(trail)])
        producer.flush()
    browser.client.app.state.console.shared_view.forget()  # type: ignore[attr-defined]
    assert "5 not replayed" in browser.page("/pipelines")
    page = browser.page("/dead-letters?topic=bills.dlq")
    assert "too late" in page
    assert HOSTILE not in page
    path = "/dead-letters/replay?topic=bills.dlq"
    assert "is not a filter" in browser.submit(path, status=400, filters="nonsense")
    preview = browser.submit(path, filters="error.type=TimeoutError", to="")
    assert "Send 3 letters" in preview
    assert "2 stay dead letters." in preview
    bills = TopicPartition("bills", 0)
    assert admin.list_offsets({bills: LATEST})[bills].offset == 0
    secret = preview.split('name="form_secret" value="')[-1].split('"')[0]
    data = {"form_secret": secret, "filters": "error.type=TimeoutError"}
    done = browser.client.post("/dead-letters/replay/send?topic=bills.dlq", data=data)
    assert "3 dead letters of bills.dlq were sent to bills." in done.text
    assert len(offsets_in(browser.page("/topics/bills/messages"))) == 3


def test_a_move_to_a_broker_that_does_not_exist_is_refused(browser: Browser) -> None:
    assert "No partition is moving." in browser.page("/reassignments")
    page = browser.submit("/reassignments/start", status=502, topic="orders", partition="0", replicas="77")
    assert "INVALID_REPLICA_ASSIGNMENT" in page
    browser.page("/reassignments/cancel?topic=orders&partition=0", status=404)


def test_users_of_the_cluster_log_in_with_their_own_rights() -> None:
    """A user sees and does what the cluster's access control allows; a wrong password is refused by the cluster."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_admin="admin-secret" user_bob="bob-\\"secret";'
    )
    config = {
        **ACCESS,
        "super.users": "User:admin",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas.replace(
            "required ", 'required username="admin" password="admin-secret" '
        ),
    }
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with Broker(config=config) as broker, console(broker.bootstrap_servers, client=client) as browser:
        assert "The cluster rejected it" in browser.submit("/login", status=401, user="admin", password="guess")
        assert "Overview" in browser.submit("/login", user="admin", password="admin-secret")
        assert "was created" in browser.submit("/create-topic", name="private")
        secret = browser.page("/").split('name="form_secret" value="')[1].split('"')[0]
        browser.client.post("/logout", data={"form_secret": secret})
        page = browser.submit("/login", user="bob", password='bob-"secret')
        assert "bob" in page
        assert "secret" not in page.replace("form_secret", "")
        assert "private" not in browser.page("/topics")
        assert "AUTHORIZATION_FAILED" in browser.submit("/create-topic", status=403, name="mine")
