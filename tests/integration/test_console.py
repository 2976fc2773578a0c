"""The console's pages and acts against a broker, through its application."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.integration.console_support import Browser, console
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.testing import Broker

HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
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
    with console(servers) as made:
        yield made


@pytest.fixture(scope="module")
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
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
        consumer.poll(10)
        page = browser.page(f"/group?id={quote(group)}")
        assert "Stable" in page
        assert "orders-0, orders-1, orders-2" in page
        assert HOSTILE not in page
    admin.alter_consumer_group_offsets(group, {TopicPartition("orders", 0): OffsetAndMetadata(7)})
    until(lambda: html.escape("/group?id=" + quote(group, safe="")) in browser.page("/groups?sort=lag"))
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
