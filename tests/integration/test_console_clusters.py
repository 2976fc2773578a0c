"""One console of several clusters: where their pages are, who is logged in to which, and what a dead one does."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.console_support import Browser, console
from tidelog.client.admin import Admin
from tidelog.client.producer import Producer
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.console.settings import ClusterSettings
from tidelog.testing import Broker

TOKEN = "a-token-of-some-length"
PAGES = ("/", "/checks", "/topics", "/topics/orders", "/topics/orders/messages?count=25", "/topics/orders/settings")
MORE_PAGES = ("/topics/orders/messages/0/0", "/topics/orders/live", "/groups", "/group?id=readers", "/pipelines")
FORMS = ("/topics/orders/produce", "/create-topic", "/quotas/set", "/reassignments/start", "/access/add", "/users/add")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config={"offsets.topic.num.partitions": 5}) as broker:
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(100):
                producer.send("orders", b"%d" % number, partition=number % 2)
            producer.flush()
        yield broker.bootstrap_servers


def _clusters(servers: str, **others: dict[str, Any]) -> tuple[ClusterSettings, ...]:
    settings = {"east": {}, "west": {}, **others}
    reached = {"bootstrap.servers": servers, "bootstrap.timeout.ms": 1000}
    return tuple(ClusterSettings(name=name, client={**reached, **client}) for name, client in settings.items())


@pytest.fixture(scope="module")
def browser(servers: str) -> Iterator[Browser]:
    with console("", clusters=_clusters(servers, away={"bootstrap.servers": "127.0.0.1:1"})) as made:
        yield made


def test_the_front_page_has_each_cluster_and_says_which_cannot_be_reached(browser: Browser) -> None:
    page = browser.page("/")
    assert page.count("have a leader") == 2
    assert page.count(">Bad<") == 1
    assert "The cluster cannot be reached" in page
    assert [f'href="/clusters/{name}/"' in page for name in ("east", "west", "away")] == [True] * 3
    assert "The cluster cannot be reached" in browser.page("/clusters/away/", status=503)


def test_every_address_on_a_page_stays_in_its_cluster(browser: Browser, servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets("readers", {TopicPartition("orders", 0): OffsetAndMetadata(1)})
    outside = {"/", "#content", "/clusters/east/", "/clusters/west/", "/clusters/away/"}
    for path in (*PAGES, *MORE_PAGES, *FORMS):
        page = browser.page(f"/clusters/west{path}")
        found = [html.unescape(each) for each in re.findall(r'(?:href|action|data-tail)="([^"]*)"', page)]
        stray = [each for each in found if each and each not in outside and not each.startswith(("/static/", "?"))]
        assert [each for each in stray if not each.startswith("/clusters/west/")] == [], path


def test_acts_lead_back_to_a_page_of_the_same_cluster(browser: Browser) -> None:
    page = browser.submit("/clusters/west/create-topic", name="made", partitions="1")
    assert "Topic made was created." in page
    assert 'href="/clusters/west/topics/made/produce"' in page
    browser.submit("/clusters/west/topics/made/delete", confirm="made")
    pages = browser.page("/clusters/east/topics/orders/messages?count=25")
    older = html.unescape(re.findall(r'href="([^"]*)">Older', pages)[0])
    assert 'class="place"' in browser.page(older)


def test_one_token_opens_all_clusters_and_logging_out_closes_them(servers: str) -> None:
    with console("", clusters=_clusters(servers), token=TOKEN) as browser:
        assert "<h1>Log in</h1>" in browser.page("/")
        response = browser.client.get("/clusters/east/topics", follow_redirects=False)
        assert response.headers["location"] == "/clusters/east/login?to=%2Ftopics"
        page = browser.submit("/clusters/east/login?to=/topics", to="/clusters/east/login", password=TOKEN)
        assert "<h1>Topics</h1>" in page
        assert "<h1>Topics</h1>" in browser.page("/clusters/west/topics")
        assert browser.page("/").count("have a leader") == 2
        secret = browser.page("/clusters/west/").split('name="form_secret" value="')[1].split('"')[0]
        browser.client.post("/clusters/west/logout", data={"form_secret": secret})
        assert "<h1>Log in</h1>" in browser.page("/clusters/east/topics")


def test_a_login_to_one_cluster_is_none_to_another(servers: str) -> None:
    users = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    own = {**users, "bootstrap.servers": "secret.example:9092"}
    with console("", clusters=_clusters(servers, own=own)) as browser:
        assert "secret.example" not in browser.page("/")
        assert "<h1>Topics</h1>" in browser.page("/clusters/east/topics")
        assert "<h1>Log in</h1>" in browser.page("/clusters/own/topics")
        assert "Log in to see it." in browser.page("/")
