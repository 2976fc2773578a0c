"""The console's pages of share groups."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.integration.client_support import SECONDS
from tests.integration.console_support import Browser, console
from tests.integration.writers import wait_until
from tidelog.client import Admin, Producer, ShareConsumer
from tidelog.testing import Broker

HOSTILE = "work <script>alert('&')</script>"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"share.coordinator.state.topic.num.partitions": "3"}) as broker:
        broker.create_topic("orders")
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def browser(servers: str) -> Iterator[Browser]:
    with console(servers) as made:
        yield made


def test_share_groups_are_listed_with_members_start_offsets_and_limits(browser: Browser, servers: str) -> None:
    assert "There are no share groups yet." in browser.page("/shares")
    page = f"/share?id={quote(HOSTILE)}"
    browser.page(page, status=404)
    with (
        ShareConsumer(bootstrap_servers=servers, group_id=HOSTILE, client_id="ann") as consumer,
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
    ):
        consumer.subscribe(["orders"])

        def has_begun() -> bool:
            consumer.poll(0.1)
            is_there = HOSTILE in {each.group_id for each in admin.list_groups(types=["Share"])}
            return is_there and bool(admin.list_share_group_offsets(HOSTILE))

        wait_until(has_begun, "the group begins")
        for value in (b"a", b"b", b"c"):
            producer.send("orders", value).result(SECONDS)
        wait_until(lambda: "work &lt;script" in browser.page("/shares"), "the list is fresh")
        assert HOSTILE not in browser.page("/shares")
        assert "work &lt;script" not in browser.page("/groups"), "groups of consumers have a list of their own"
        assert "No share group matches." in browser.page("/shares?q=other")
        found = browser.page(page)
        assert "ann" in found
        assert "<dt>Not done</dt><dd>3 " in found
        assert "delivery.count.limit" in found
    assert "The group has no members." in browser.page(page)
