"""Live messages: the events that a console which runs as its users run it sends, and when they end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2 as httpx
import pytest

from tests.integration.console_support import console_process
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.producer import Producer
from tidelog.console.tail import COUNT_MAX
from tidelog.testing import Broker

TOKEN = "a-token-for-live-messages"
Event = tuple[str, str, str]
"""Name, data and id."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 2, 1) for name in ("live", "burst")])
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def url(servers: str) -> Iterator[str]:
    with console_process(servers) as made:
        yield made


@contextmanager
def events_of(client: httpx.Client, path: str) -> Iterator[Iterator[Event]]:
    """The events of a tail until the block ends."""
    with client.stream("GET", path, timeout=60) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _parse(response)


def _parse(response: httpx.Response) -> Iterator[Event]:
    fields = {"id": ""}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            yield fields["event"], json.loads(fields["data"]), fields["id"]


def next_of(events: Iterator[Event], name: str) -> Event:
    return next(event for event in events if event[0] == name)


def send(servers: str, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, partition=1)
        producer.flush()


def values_in(rows: str) -> list[str]:
    return re.findall(r'<span class="value mono">([^<]*)<', rows)


def test_records_that_match_arrive_once_also_after_a_pause(servers: str, url: str) -> None:
    path = "/topics/live/live/events?q=needle"
    with httpx.Client(base_url=url) as client:
        with events_of(client, path) as events:
            next_of(events, "rate")
            send(servers, "live", b"hay", b"needle <1>", b"hay")
            _, rows, cursor = next_of(events, "rows")
            assert values_in(rows) == ["needle &lt;1&gt;"]
            assert "matches/s" in next_of(events, "rate")[1]
        send(servers, "live", b"needle 2", b"hay", b"needle 3")
        with events_of(client, f"{path}&from={cursor}") as events:
            _, rows, _ = next_of(events, "rows")
            assert values_in(rows) == ["needle 3", "needle 2"]


def test_a_tail_of_one_partition_shows_no_other(servers: str, url: str) -> None:
    with httpx.Client(base_url=url) as client, events_of(client, "/topics/live/live/events?partition=0") as events:
        next_of(events, "rate")
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("live", b"not this", partition=1).result(10)
            producer.send("live", b"but this", partition=0).result(10)
        assert values_in(next_of(events, "rows")[1]) == ["but this"]


def test_what_comes_too_fast_is_left_out_and_counted(servers: str, url: str) -> None:
    with httpx.Client(base_url=url) as client, events_of(client, "/topics/burst/live/events") as events:
        next_of(events, "rate")
        send(servers, "burst", *[b"x"] * 20_000)
        shown, unseen = 0, 0
        while shown + unseen < 20_000:
            name, data, _ = next(events)
            shown += len(values_in(data)) if name == "rows" else 0
            if name == "rate" and (counted := re.search(r"([0-9,]+) not shown", data)):
                unseen = int(counted[1].replace(",", ""))
        assert shown + unseen == 20_000
        assert shown < 2_000


def test_a_tail_ends_with_its_session(servers: str) -> None:
    with console_process(servers, TIDELOG_CONSOLE_TOKEN=TOKEN) as url, httpx.Client(base_url=url) as client:
        assert client.get("/topics/live/live/events").status_code == 303
        secret = re.search(r'name="form_secret" value="([^"]*)"', client.get("/login").text)
        assert secret is not None
        client.post("/login", data={"form_secret": secret[1], "password": TOKEN})
        with events_of(client, "/topics/live/live/events") as events:
            next_of(events, "rate")
            secret = re.search(r'name="form_secret" value="([^"]*)"', client.get("/topics").text)
            assert secret is not None
            client.post("/logout", data={"form_secret": secret[1]})
            assert "with the session" in next_of(events, "end")[1]


def test_tails_are_few_and_end_with_the_console_or_with_what_is_wrong(servers: str) -> None:
    with ExitStack() as stack:
        with console_process(servers) as url:
            client = stack.enter_context(httpx.Client(base_url=url, limits=httpx.Limits(max_connections=None)))
            path = "/topics/live/live/events"
            open_ones = [stack.enter_context(events_of(client, path)) for _ in range(COUNT_MAX)]
            for each in open_ones:
                next_of(each, "rate")
            with events_of(client, path) as refused:
                assert f"{COUNT_MAX} live pages are open" in next_of(refused, "end")[1]
            with events_of(client, f"{path}?from=x") as refused:
                assert "is not PARTITION:OFFSET" in next_of(refused, "end")[1]
        for each in open_ones:
            next_of(each, "end")
