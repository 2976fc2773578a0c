"""The console's pages and acts against a broker, through its application."""

from __future__ import annotations

import html
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.console_support import Browser, console
from tests.unit.present import present
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import LATEST, ConfigResource, NewTopic, ResourceType
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.cluster.zookeeper import free_port
from tidelog.console import reading, replays
from tidelog.console.pages import pipelines
from tidelog.console.replays import ReplayRun
from tidelog.console.request_metrics import fetch
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.expectations import RuleCount
from tidelog.spark.pipeline.failing.replay import Replay, Replayed
from tidelog.spark.pipeline.running.status_topic import StatusWriter
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State
from tidelog.testing import Broker

ACCESS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
INTERNAL = {"offsets.topic.num.partitions": 5}
HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config={**ACCESS, **INTERNAL}) as broker:
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
        patch.setattr(pipelines, "REPLAY_WAIT_S", 60.0)  # and so is a replay
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


def _read_more(consumer: Consumer[bytes, bytes], read: list[Any]) -> int:
    """Add what the consumer finds; how many records there are then."""
    read.extend(consumer.poll(0.2))
    return len(read)


def forget(browser: Browser) -> None:
    """Make the next page ask the cluster again."""
    browser.client.app.state.console.clusters[0].shared_view.forget()  # type: ignore[attr-defined]


def offsets_in(page: str) -> list[str]:
    return [part.split("<")[0] for part in page.split('<span class="place">')[1:]]


def test_the_overview_has_brokers_health_and_throughput_from_samples(
    browser: Browser, admin: Admin, servers: str
) -> None:
    admin.alter_consumer_group_offsets("any", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
    forget(browser)
    page = browser.page("/")
    assert "have a leader and every replica in sync." in page
    assert servers in page
    own = [topic for topic in admin.list_topics() if not topic.is_internal]
    partitions = sum(topic.partition_count for topic in own)
    apart = ' <small class="muted">plus {} internal</small>'
    assert f"<dt>Topics</dt><dd>{len(own)}{apart.format(1)}" in page
    assert f"<dt>Partitions</dt><dd>{partitions}{apart.format(5)}" in page
    assert f"all {partitions} partitions, plus 5 internal, have a leader" in page
    assert page.count(f'">{partitions}{apart.format(5)}</td>') == 2, "leaders and replicas of the broker"
    with Producer(bootstrap_servers=servers) as producer:

        def has_plot() -> bool:
            producer.send("orders", b"more", partition=0).result(10)
            return 'class="plot-line"' in browser.page("/") and "Busiest topics" in browser.page("/")

        until(has_plot)


def test_a_broker_has_directories_and_settings(browser: Browser) -> None:
    page = browser.page("/")
    path = re.findall(r'href="(/brokers/\d+)"', page)[0]
    page = browser.page(path)
    assert "There is no other broker to compare with." in page
    assert page.count(">Online<") == 1
    assert "metrics.listeners" in page
    page = browser.page(f"{path}/settings?q=AUTHORIZER.class")
    assert "kafka.security.authorizer.AclAuthorizer" in page
    assert "broker&#39;s file" in page
    assert "No setting has" in browser.page(f"{path}/settings?q=xyz")
    assert "No broker 77" in browser.page("/brokers/77", status=404)


def test_a_brokers_requests_are_read_from_its_metrics() -> None:
    port = free_port()
    metrics = {"metrics.listeners": f"http://127.0.0.1:{port}"}
    with Broker(config=metrics) as broker, console(broker.bootstrap_servers) as browser:
        path = re.findall(r'href="(/brokers/\d+)"', browser.page("/"))[0]
        page = browser.page(path).split('id="requests"')[1]
        assert '<th scope="row">Metadata</th>' in page
    with pytest.raises(OSError, match=f"127.0.0.1:{port}/metrics"):
        fetch(f"http://127.0.0.1:{port}/metrics")


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


def test_a_topic_that_somebody_else_made_just_now_has_its_page(browser: Browser, admin: Admin) -> None:
    browser.page("/topics")
    admin.create_topics([NewTopic("newcomer", 1, 1)])
    until(lambda: browser.client.get("/topics/newcomer").status_code == 200)
    admin.delete_topics(["newcomer"])


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
    assert offsets_in(browser.page("/topics/orders/messages?start=time&time=36500d&count=2")) == ["0 : 0", "1 : 0"]
    assert "'soon'" in html.unescape(browser.page("/topics/orders/messages?start=time&time=soon", status=400))
    page = browser.page("/topics/orders/messages?start=oldest&key=key-7")
    assert len(offsets_in(page)) == 12
    phrase = quote("id 77,")
    page = browser.page(f"/topics/orders/messages?start=oldest&q={phrase}")
    assert offsets_in(page) == ["2 : 25"]
    browser.page("/topics/orders/messages?start=time&time=soon", status=400)
    browser.page("/topics/orders/messages?partition=9", status=404)
    assert "is not PARTITION:OFFSET" in browser.page("/topics/orders/messages?from=x", status=400)


DEEP = 66_000
NEEDLES = (11, 12, 13, 14)
"""Numbers of the oldest records that a search can find: more than one search reads away from the newest ones."""


@pytest.fixture(scope="module")
def deep(servers: str, browser: Browser) -> str:
    """A topic of three partitions whose records were written in turn, the needles near the beginning of time."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("deep", 3, 1)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(DEEP):
            is_needle = number in NEEDLES
            producer.send(
                "deep",
                b"a needle" if is_needle else b"hay",
                b"sharp" if is_needle else b"blunt",
                partition=number % 3,
                headers=[("eye", b"of a camel")] if is_needle else (),
                timestamp_ms=1_700_000_000_000 + number,
            )
        producer.flush()
    forget(browser)
    return "/topics/deep/messages"


def search_steps(browser: Browser, path: str) -> list[str]:
    """The pages of a search, each by the link of the one before it."""
    pages = []
    while path:
        pages.append(browser.page(path))
        href = re.search(r'href="([^"]+)" data-search-on', pages[-1])
        path = html.unescape(href[1]) if href else ""
    return pages


def progress(page: str) -> str:
    return page.split('id="progress" role="status">')[1].split("<")[0]


@pytest.mark.parametrize("query", ["q=needle", "key=sharp", "q=camel&where=headers", "q=EYE&where=headers&key=sharp"])
def test_the_default_search_goes_back_to_the_first_record_newest_first(browser: Browser, deep: str, query: str) -> None:
    pages = search_steps(browser, f"{deep}?{query}")
    assert progress(pages[0]) == "Searched 20,000 of 66,000 records; no match so far."
    assert not any("No record" in page for page in pages)
    assert [place for page in pages for place in offsets_in(page)] == ["2 : 4", "1 : 4", "0 : 4", "2 : 3"]
    searched = [int(progress(page).split()[1].replace(",", "")) for page in pages[:-1]]
    assert all(0 < after - before <= 20_000 for before, after in pairwise([0, *searched]))
    assert progress(pages[-1]) == "Searched all of 66,000 records: 4 matches."


def test_a_search_that_is_given_few_records_goes_on_behind_the_last_of_them(browser: Browser, deep: str) -> None:
    pages = search_steps(browser, f"{deep}?q=needle&count=3")
    found = [offsets_in(page) for page in pages]
    assert [each for each in found if each] == [["2 : 4", "1 : 4", "0 : 4"], ["2 : 3"]]
    pages = search_steps(browser, f"{deep}?start=oldest&q=needle&count=3")
    assert offsets_in(pages[0]) == ["2 : 3", "0 : 4", "1 : 4"]
    assert offsets_in(pages[1]) == ["2 : 4"]
    assert "4 matches so far" in progress(pages[1])
    assert "No further match so far." in pages[2]
    assert "No further record matches." in pages[-1]


def test_only_a_search_of_everything_says_that_no_record_matches(browser: Browser, deep: str) -> None:
    for path, total, scope in (
        (f"{deep}?q=straw", "66,000 records", ""),
        (f"{deep}?q=straw&start=oldest", "66,000 records", ""),
        (f"{deep}?q=straw&partition=1", "22,000 records", " of partition 1"),
        (f"{deep}?q=needle&start=offset&offset=100", "65,700 records", " from offset 100 on"),
    ):
        *before, last = search_steps(browser, path)
        assert before
        assert not any(f"No record{scope} matches" in page for page in before)
        assert all("Search on to look at the rest." in page for page in before)
        assert f"No record{scope} matches." in last
        assert progress(last) == f"Searched all of {total}{scope}: no match."


def test_pages_beside_the_newest_ones_are_newest_first_as_well(browser: Browser, deep: str) -> None:
    first = browser.page(f"{deep}?count=25")
    assert offsets_in(first)[:3] == ["2 : 21,999", "1 : 21,999", "0 : 21,999"]
    older = browser.page(html.unescape(first.split('<a class="button small" href="')[1].split('"')[0]))
    links = older.split('aria-label="Older and newer records"')[1]
    newer = html.unescape(links.split('href="')[2].split('"')[0])
    assert offsets_in(browser.page(newer)) == offsets_in(first)


def test_parts_of_json_values_are_columns(browser: Browser) -> None:
    path = "/topics/orders/messages?start=offset&partition=1&offset=3&count=2&columns="
    page = browser.page(path + quote("id, $.note, gone"))
    escaped = html.escape(HOSTILE, quote=False).replace("'", "&#39;")
    cells = re.findall(r'<span data-label="([^"]*)"(?: class="(muted)")?>(.*?)</span>', page)
    for number in (10, 13):
        assert cells[:3] == [("id", "", str(number)), ("$.note", "", escaped), ("gone", "muted", "–")]
        del cells[:3]
    assert cells == []
    assert "<span>$.note</span>" in page
    assert "is not a path such as" in browser.page(path + "a%20b", status=400)
    assert "is not a path such as" in browser.page("/topics/orders/live?columns=a%20b", status=400)


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


@pytest.mark.parametrize(("key", "value"), [(b"again", b'{"n": 1}'), (b"\xff", b"\0\1")])
def test_a_record_is_produced_again_and_changed(
    browser: Browser, admin: Admin, servers: str, key: bytes, value: bytes
) -> None:
    topic = f"again-{len(value)}"
    admin.create_topics([NewTopic(topic, 2, 1)])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, value, key, partition=1, headers=[("h", b"1\0"), ("gone", None)]).result(10)
    forget(browser)
    page = browser.page(f"/topics/{topic}/messages/1/0")
    path = html.unescape(page.split('href="')[-1].split('"')[0])
    form = browser.page(path)
    assert "Headers without a value are left out: gone." in form
    fields: dict[str, Any] = dict(re.findall(r'name="(key|partition)" value="([^"]*)"', form))
    fields |= {
        name: html.unescape(present(re.search(rf'name="{name}"[^>]*>([^<]*)<', form))[1])
        for name in ("value", "headers")
    }
    chosen = re.findall(r'<option value="(\w+)" selected', form)
    fields |= dict(zip(("key_encoding", "value_encoding"), chosen, strict=True))
    assert "offset 1." in browser.submit(path, **fields)
    assert "offset 0." in browser.submit(path, **{**fields, "partition": "0"})
    assert "cannot be read" in browser.submit(path, status=400, key="*", key_encoding="base64")
    with Consumer({"auto.offset.reset": "earliest"}, bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        read: list[Any] = []
        until(lambda: _read_more(consumer, read) == 3)
    assert {(each.partition, each.key, each.value) for each in read} == {(0, key, value), (1, key, value)}
    assert sum(each.headers == (("h", b"1\0"),) for each in read) == 2


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


def test_a_topic_has_its_groups_with_their_lag(browser: Browser, admin: Admin, servers: str) -> None:
    admin.create_topics([NewTopic("read", 2, 1)])
    group = f"reader {HOSTILE}"
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(30):
            producer.send("read", b"x", partition=number % 2)
        producer.flush()
    forget(browser)
    until(lambda: "No group has committed offsets of this topic." in browser.page("/topics/read/groups"))
    admin.alter_consumer_group_offsets(group, {TopicPartition("read", 1): OffsetAndMetadata(4)})
    admin.alter_consumer_group_offsets("elsewhere", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
    forget(browser)
    until(lambda: "reader &lt;" in browser.page("/topics/read/groups"))
    page = browser.page("/topics/read/groups")
    assert HOSTILE not in page
    assert re.findall(r'<td class="number">([^<]*)</td>', page) == ["11", "0", "1 of 2"]
    assert "elsewhere" not in page


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


def test_a_replay_that_takes_long_is_followed_on_its_page_and_is_not_begun_twice(
    browser: Browser, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(run: ReplayRun, replay: Replay) -> Replayed:
        run.total, run.passed = 100, 40
        assert may_go_on.wait(90)
        return Replayed({"orders": 7}, kept=1)

    monkeypatch.setattr(replays, "_send", slow)
    monkeypatch.setattr(pipelines, "REPLAY_WAIT_S", 0.1)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("slow.dlq", 1, 1)])
    forget(browser)
    form = "/dead-letters/replay?topic=slow.dlq"
    send = "/dead-letters/replay/send?topic=slow.dlq"
    try:
        page = browser.submit(form, to=send)
        assert "The dead letters of slow.dlq are being replayed." in page
        assert '<progress max="100" value="40"' in page
        assert "40 of 100" in page
        assert "are being replayed now" in browser.submit(form, status=409, to=send)
    finally:
        may_go_on.set()
    until(lambda: "7 letters sent to orders, 1 kept" in browser.page("/dead-letters/replays"))


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


def test_what_expectations_found_is_a_table_of_the_page_of_pipelines(browser: Browser, servers: str) -> None:
    rules = {HOSTILE: RuleCount(4000, 30)}
    writer = StatusWriter({"checked": Connection(servers)}, {})
    writer.write(PipelineStatus("checked", State.RUNNING, "run", rules=rules))
    writer.close()
    forget(browser)
    page = browser.page("/pipelines")
    assert HOSTILE not in page
    for text in ("checked", "4,000", "0.75 %"):
        assert text in page


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
    forget(browser)
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


def test_chosen_letters_of_any_convention_are_sent_back_once_by_name(
    browser: Browser, admin: Admin, servers: str
) -> None:
    for name in ("tickets", "tickets.dlq"):
        admin.create_topics([NewTopic(name, 1, 1)])
    own = encode(Trail("desk", 2, "TimeoutError", "late", 1_700_000_000_000, Origin("tickets", 0, 0, 0)))
    spring = (("kafka_dlt-original-topic", b"tickets"), ("kafka_dlt-original-offset", (1).to_bytes(8, "big")))
    connect = (("__connect.errors.topic", b"tickets"), ("__connect.errors.exception.message", b"no schema"))
    with Producer(bootstrap_servers=servers) as producer:
        for number, headers in enumerate((own, spring, connect, ())):
            producer.send("tickets.dlq", f"letter {number}".encode(), headers=[("kept", b"1"), *headers])
        producer.flush()
    forget(browser)
    path = "/dead-letters?topic=tickets.dlq"
    page = browser.page(path)
    assert "4 letters, 4 not replayed" in page
    assert "no schema" in page
    assert "It does not say where it came from." in page
    replay = "/dead-letters/replay?topic=tickets.dlq"
    assert "Tick the letters to replay." in browser.submit(path, status=400, to=replay)
    for chosen, count in (("0:1", 1), ("0:2", 1), ("0:1", 0), ("0:3", 0)):
        ticked: dict[str, Any] = {f"letter.{chosen}": "1"}
        preview = browser.submit(path, to=replay, **ticked)
        assert f"Send {count} letter" in preview
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', preview))
        browser.client.post("/dead-letters/replay/send?topic=tickets.dlq", data=hidden)
    page = browser.page(path)
    assert "4 letters, 2 not replayed" in page
    replayed_by = browser.page("/dead-letters/replays")
    assert replayed_by.count("1 letter sent to tickets") == 2
    assert ">console<" in replayed_by
    assert re.findall(r'aria-label="Choose ([^"]*)" disabled', page) == ["0:2", "0:1"]
    with Consumer({"auto.offset.reset": "earliest"}, bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition("tickets", 0)])
        read: list[Any] = []
        until(lambda: _read_more(consumer, read) >= 2)
    replayed = (("kept", b"1"), ("tidelog.replayed", b"1"), ("tidelog.replayed.by", b"console"))
    assert [(each.value, each.headers) for each in read] == [(b"letter 1", replayed), (b"letter 2", replayed)]


def test_a_move_to_a_broker_that_does_not_exist_is_refused(browser: Browser) -> None:
    assert "No partition is moving." in browser.page("/reassignments")
    page = browser.submit("/reassignments/start", status=502, topic="orders", partition="0", replicas="77")
    assert "INVALID_REPLICA_ASSIGNMENT" in page
    browser.page("/reassignments/cancel?topic=orders&partition=0", status=404)


@pytest.fixture
def delayed(servers: str, browser: Browser, admin: Admin) -> Iterator[str]:
    """The pages of a topic in which eight records wait, two of each key, an hour and more."""
    admin.create_topics([NewTopic("reminders", 2, 1, {"tidelog.delay.enable": "true"})])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(8):
            key, header = f"order-{number // 2} {HOSTILE}".encode(), ("tidelog-delay", f"{number + 1}h".encode())
            producer.send("reminders", b"still open?", key, partition=number % 2, headers=[header])
        producer.flush()
    forget(browser)
    yield "/topics/reminders"
    admin.delete_topics(["reminders"])


def listed_in(page: str) -> list[tuple[int, int]]:
    """The partitions and offsets of the records that a page lists."""
    found = re.findall(r'"Cancel offset (\d+) of partition (\d)"', page)
    return [(int(partition), int(offset)) for offset, partition in found]


def waiting_in(admin: Admin) -> list[int]:
    """How many records wait in each partition."""
    return [each.waiting for _, each in sorted(admin.list_delayed_records("reminders").items())]


def test_records_that_wait_are_counted_and_listed(browser: Browser, delayed: str) -> None:
    assert "Waiting for their time</dt><dd>8 " in browser.page(delayed)
    assert "8 records wait" in browser.page(f"{delayed}/messages")
    assert "8 records wait" in browser.page(f"{delayed}/messages?q=open")
    assert 'href="/topics/reminders/delayed"' in browser.page(f"{delayed}/settings")
    page = browser.page(f"{delayed}/delayed")
    assert [partition for partition, _ in listed_in(page)] == [0, 1] * 4
    assert "59 min" in page
    assert HOSTILE not in page
    assert page.count("order-3 &lt;") == 2
    page = browser.page(f"{delayed}/delayed?partition=1&key=" + quote(f"order-3 {HOSTILE}"))
    assert [partition for partition, _ in listed_in(page)] == [1]
    assert "No such record waits." in browser.page(f"{delayed}/delayed?key=other")
    browser.page(f"{delayed}/delayed?partition=2", status=400)
    page = browser.page("/topics/orders")
    assert "Delayed" not in page, "nothing can wait in this topic"
    assert "No record waits" in browser.page("/topics/orders/delayed")


def test_records_that_wait_are_cancelled_after_the_name_was_typed(browser: Browser, admin: Admin, delayed: str) -> None:
    partition, offset = listed_in(browser.page(f"{delayed}/delayed"))[1]
    path = f"{delayed}/delayed/cancel?partition={partition}&offset={offset}"
    form = browser.page(path)
    assert f"The record at offset {offset} of partition 1 is meant." in form
    assert "It has the key order-0" in form
    assert "nothing was changed" in browser.submit(path, status=400, confirm="other")
    assert waiting_in(admin) == [4, 4]
    assert "1 record was cancelled." in browser.submit(path, confirm="reminders")
    assert waiting_in(admin) == [4, 3]
    assert "waits no more" in browser.submit(path, status=409, confirm="reminders")
    path = f"{delayed}/delayed/cancel?key=" + quote(f"order-3 {HOSTILE}")
    assert "2 records now." in browser.page(path)
    assert "2 records were cancelled." in browser.submit(path, confirm="reminders")
    assert waiting_in(admin) == [3, 2]
    browser.page(f"{delayed}/delayed/cancel", status=400)


def test_records_that_wait_are_rescheduled(browser: Browser, admin: Admin, delayed: str) -> None:
    partition, offset = listed_in(browser.page(f"{delayed}/delayed"))[2]
    path = f"{delayed}/delayed/reschedule?partition={partition}&offset={offset}"
    assert "is neither a length of time" in html.unescape(browser.submit(path, status=400, time="soon"))
    page = browser.submit(path, time="2026-12-31T12:00:00Z")
    assert "1 record was rescheduled to 2026-12-31 12:00:00.000 UTC." in page
    listed = admin.list_delayed_records("reminders")[partition].records
    assert {each.offset: each.deliver_at_ms for each in listed}[offset] == 1_798_718_400_000
    browser.submit(f"{delayed}/delayed/reschedule?key=" + quote(f"order-0 {HOSTILE}"), time="0s")
    until(lambda: len(offsets_in(browser.page(f"{delayed}/messages"))) == 2)
    assert waiting_in(admin) == [3, 3]


@contextmanager
def secured() -> Iterator[tuple[Broker, Browser]]:
    """A broker whose users log in, and a console in which they do."""
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
        yield broker, browser


def log_in(browser: Browser, user: str, password: str) -> str:
    """The first page of a user, after that of the one before."""
    secret = re.search(r'action="/logout"><input type="hidden" name="form_secret" value="([^"]*)"', browser.page("/"))
    if secret:
        browser.client.post("/logout", data={"form_secret": secret[1]})
    return browser.submit("/login", user=user, password=password)


def test_users_of_the_cluster_log_in_with_their_own_rights() -> None:
    """A user sees and does what the cluster's access control allows; a wrong password is refused by the cluster."""
    with secured() as (_, browser):
        assert "The cluster rejected it" in browser.submit("/login", status=401, user="admin", password="guess")
        assert "Overview" in log_in(browser, "admin", "admin-secret")
        assert "was created" in browser.submit("/create-topic", name="private")
        page = log_in(browser, "bob", 'bob-"secret')
        assert "bob" in page
        assert "secret" not in page.replace("form_secret", "")
        assert "private" not in browser.page("/topics")
        assert "AUTHORIZATION_FAILED" in browser.submit("/create-topic", status=403, name="mine")


def test_who_may_only_read_a_topic_sees_what_waits_and_cannot_change_it() -> None:
    with secured() as (_, browser):
        log_in(browser, "admin", "admin-secret")
        browser.submit("/create-topic", name="later", partitions="1", settings="tidelog.delay.enable=true")
        browser.submit("/topics/later/produce", value="x", headers="tidelog-delay=1h")
        for operation in ("read", "describe-configs"):
            entry: dict[str, Any] = {"principal": "User:bob", "operation": operation, "kind": "topic", "name": "later"}
            assert "was added" in browser.submit("/access/add", permission="allow", host="*", **entry)
        log_in(browser, "bob", 'bob-"secret')
        assert "1 record waits" in browser.page("/topics/later/messages")
        ((partition, offset),) = listed_in(browser.page("/topics/later/delayed"))
        path = f"/topics/later/delayed/cancel?partition={partition}&offset={offset}"
        assert "AUTHORIZATION_FAILED" in browser.submit(path, status=403, confirm="later")
        path = path.replace("cancel", "reschedule")
        assert "AUTHORIZATION_FAILED" in browser.submit(path, status=403, time="0s")
        assert "1 record waits" in browser.page("/topics/later/messages")
