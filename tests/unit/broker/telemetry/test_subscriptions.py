"""Who is asked for what, and who may send when: KIP-714 with Kafka's answers."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.telemetry.subscriptions import (
    CLIENTS_MAX,
    INTERVAL_MS,
    Client,
    Subscription,
    Subscriptions,
    check_matches,
)
from tidelog.wire.errors import ApiError, ErrorCode

NOBODY = bytes(16)
BIG = 1000


class World:
    def __init__(self) -> None:
        numbers = count(100)
        self.gone: list[bytes] = []
        self.subscriptions = Subscriptions(lambda: next(numbers).to_bytes(16, "big"), self.gone.append)
        self.now_ms = 1
        self.connection: Any = SimpleNamespace(is_closed=False)

    def ask(self, instance_id: bytes = NOBODY, **properties: str) -> tuple[Client, ErrorCode]:
        return self.subscriptions.ask(instance_id, lambda: properties, self.connection, self.now_ms)

    def push(
        self,
        client: Client,
        *,
        is_last: bool = False,
        subscription_id: int | None = None,
        codec: int = 4,
        size: int = 1,
    ) -> ErrorCode:
        wanted = client.wish.subscription_id if subscription_id is None else subscription_id
        found = self.subscriptions.push(
            client.instance_id, wanted, is_last, codec, size, BIG, dict, self.connection, self.now_ms
        )
        return found[1]

    def subscribe(self, *metrics: str, name: str = "s", interval_ms: int = 1000, match: tuple[str, ...] = ()) -> None:
        self.subscriptions.put(name, Subscription(metrics, interval_ms, match))


def test_without_a_subscription_nothing_is_asked_for() -> None:
    client, error = World().ask()
    assert (error, client.wish.metrics, client.wish.interval_ms) == (ErrorCode.NONE, (), INTERVAL_MS)
    assert any(client.instance_id)


def test_matching_subscriptions_add_up_and_the_shortest_interval_holds() -> None:
    world = World()
    world.subscribe("b", "a", name="1", interval_ms=2000, match=("client_id=x.*", "client_software_name=y"))
    world.subscribe("c", name="2", interval_ms=1000)
    world.subscribe("d", name="3", interval_ms=100, match=("client_id=z",))
    client, _ = world.ask(client_id="x1", client_software_name="y")
    assert client.wish[1:] == (("a", "b", "c"), 1000)
    other, _ = world.ask(client_id="ax1", client_software_name="y")
    assert other.wish[1:] == (("c",), 1000)
    world.subscribe("*", name="4", interval_ms=5000)
    assert world.ask(client.instance_id)[0].wish[1:] == (("*",), 1000)
    assert client.wish.subscription_id != other.wish.subscription_id


def test_a_change_of_subscriptions_gives_another_id_and_is_told_at_once() -> None:
    world = World()
    world.subscribe("a")
    client, _ = world.ask()
    before = client.wish.subscription_id
    assert world.push(client) is ErrorCode.NONE
    world.subscribe("b")
    assert world.push(client, subscription_id=before) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask(client.instance_id)[1] is ErrorCode.NONE
    assert world.push(client) is ErrorCode.NONE
    assert world.subscriptions.unknown_subscriptions == 1
    world.subscriptions.put("s", None)
    assert world.ask(client.instance_id)[0].wish[1:] == ((), INTERVAL_MS)


def test_who_comes_before_the_interval_is_over_is_throttled() -> None:
    world = World()
    world.subscribe("a", interval_ms=1000)
    client, _ = world.ask()
    assert world.ask(client.instance_id)[1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.push(client) is ErrorCode.NONE
    world.now_ms += 999
    assert world.push(client) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.ask(client.instance_id)[1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += 1
    assert world.push(client) is ErrorCode.NONE
    assert world.subscriptions.throttled == 3


def test_the_last_metrics_may_come_early_and_nothing_follows_them() -> None:
    world = World()
    world.subscribe("a")
    client, _ = world.ask()
    assert world.push(client) is ErrorCode.NONE
    assert world.push(client, is_last=True) is ErrorCode.NONE
    world.now_ms += 10_000
    assert world.push(client) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"codec": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": BIG + 1}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": BIG, "codec": 0}, ErrorCode.NONE),
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ],
)
def test_what_cannot_be_taken(options: Any, error: ErrorCode) -> None:
    world = World()
    world.subscribe("a")
    assert world.push(world.ask()[0], **options) is error


def test_ids_that_mean_something_else_are_no_clients() -> None:
    world = World()
    for reserved in (bytes(16), bytes(15) + b"\1"):
        assert world.push(Client(reserved, {})) is ErrorCode.INVALID_REQUEST
    assert world.subscriptions.client_count == 0


def test_a_client_that_comes_back_on_another_connection_may_ask_at_once() -> None:
    world = World()
    world.subscribe("a")
    client, _ = world.ask()
    world.connection = SimpleNamespace(is_closed=False)
    assert world.ask(client.instance_id)[1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the first is still open"
    world.connection.is_closed = True
    world.connection = SimpleNamespace(is_closed=False)
    assert world.ask(client.instance_id)[1] is ErrorCode.NONE


def test_clients_are_forgotten_after_three_intervals_or_a_minute() -> None:
    world = World()
    world.subscribe("a", interval_ms=30_000)
    client, _ = world.ask()
    world.now_ms += 89_999
    world.ask()
    assert world.gone == []
    world.now_ms += 10_000
    world.ask()
    assert world.gone == [client.instance_id]


def test_the_number_of_clients_is_bounded() -> None:
    world = World()
    first, *_ = [world.ask()[0].instance_id for _ in range(CLIENTS_MAX)]
    assert world.gone == []
    world.ask()
    assert world.gone == [first]
    assert world.subscriptions.client_count == CLIENTS_MAX


def test_patterns_are_checked() -> None:
    check_matches(("client_id=a(b|c)+", "client_software_version = 2\\..*"))
    with pytest.raises(ApiError, match="Illegal client matching pattern"):
        check_matches(("client_id=a(b",))
