"""Which metrics each client is asked for, and when it may send them: the rules of KIP-714 with Kafka's error codes.

A client is known by its instance id, which the broker gives it. What it is asked for is worked out from the
subscriptions that match it, and again when any of them changes; its subscription id says which of these it knows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from tidelog.groups.consumer.patterns import check_pattern, matching
from tidelog.records.compression import Codec
from tidelog.wire.errors import ApiError, ErrorCode

EVERYTHING: Final = "*"
INTERVAL_MS: Final = 5 * 60_000
"""How often clients push, and ask again, without a subscription."""
CLIENTS_MAX: Final = 16_384
_REMEMBERED_MS_MIN: Final = 60_000
_INTERVALS_REMEMBERED: Final = 3
_SWEEP_MS: Final = 10_000
_RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\1")
"""Kafka's uuids with a meaning: none, and the topic of its metadata log."""

Properties = Mapping[str, str]
"""What a subscription may match: `client_id` and the like."""


class Subscription(NamedTuple):
    """What an operator wants from some clients."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[str, ...]


class Wish(NamedTuple):
    """What one client is asked for."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class ClientConnection(Protocol):
    """As much of a connection as is needed to see whether a client has come back on another one."""

    @property
    def is_closed(self) -> bool: ...


class Client:
    """One instance of a client."""

    __slots__ = (
        "asked_ms",
        "connection",
        "error",
        "expires_ms",
        "instance_id",
        "is_terminating",
        "may_push",
        "properties",
        "pushed_ms",
        "version",
        "wish",
    )

    def __init__(self, instance_id: bytes, properties: Properties) -> None:
        self.instance_id = instance_id
        self.properties = properties
        self.wish = Wish(0, (), INTERVAL_MS)
        self.version = -1
        """Of the subscriptions that the wish was made of."""
        self.error = ErrorCode.NONE
        """Of its last request."""
        self.is_terminating = False
        self.expires_ms = 0
        self.connection: ClientConnection | None = None
        self.reconnected()

    def reconnected(self) -> None:
        """It may ask at once."""
        self.asked_ms = self.pushed_ms = -(1 << 62)
        self.may_push = True
        """It has not pushed since it was told its wish: the first push may come at any time."""
        self.is_terminating = False


def check_matches(match: Iterable[str]) -> None:
    """Raise ApiError for a pattern that cannot be read."""
    for each in match:
        try:
            check_pattern(_pair(each)[1])
        except ApiError as error:
            text = f"Illegal client matching pattern: {each} ({error.message})"
            raise ApiError(ErrorCode.INVALID_CONFIG, text) from error


def _pair(text: str) -> tuple[str, str]:
    name, _, pattern = text.partition("=")
    return name.strip(), pattern.strip()


class Subscriptions:
    """All subscriptions, and the clients that have asked for theirs. Times are of the monotonic clock."""

    def __init__(self, new_id: Callable[[], bytes], on_forgotten: Callable[[bytes], None]) -> None:
        self._new_id = new_id
        self._on_forgotten = on_forgotten
        self._by_name: dict[str, Subscription] = {}
        self._version = 0
        self._clients: dict[bytes, Client] = {}
        """The one that was heard of last comes last."""
        self._swept_ms = 0
        self.throttled = 0
        self.unknown_subscriptions = 0

    @property
    def client_count(self) -> int:
        return len(self._clients)

    def put(self, name: str, subscription: Subscription | None) -> None:
        """Add or change a subscription; None removes it."""
        if subscription is not None:
            self._by_name[name] = subscription
        elif self._by_name.pop(name, None) is None:
            return
        self._version += 1

    # --- requests ---

    def ask(
        self,
        instance_id: bytes,
        describe: Callable[[], Properties],
        connection: ClientConnection | None,
        now_ms: int,
    ) -> tuple[Client, ErrorCode]:
        """GetTelemetrySubscriptions: the client, and NONE or why it is not told its wish."""
        client = self._heard(instance_id if any(instance_id) else self._unused_id(), describe, connection, now_ms)
        if now_ms - max(client.asked_ms, client.pushed_ms) < client.wish.interval_ms and client.error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            self.throttled += 1
            return client, ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.asked_ms = now_ms
        client.may_push = True
        client.error = ErrorCode.NONE
        return client, ErrorCode.NONE

    def push(
        self,
        instance_id: bytes,
        subscription_id: int,
        is_terminating: bool,
        codec: int,
        payload_bytes: int,
        payload_bytes_max: int,
        describe: Callable[[], Properties],
        connection: ClientConnection | None,
        now_ms: int,
    ) -> tuple[Client | None, ErrorCode]:
        """PushTelemetry: the client, and NONE or why its metrics are not taken."""
        if instance_id in _RESERVED_IDS:
            return None, ErrorCode.INVALID_REQUEST
        client = self._heard(instance_id, describe, connection, now_ms)
        client.error = self._untimely(client, is_terminating, now_ms)
        if not client.error and subscription_id != client.wish.subscription_id:
            self.unknown_subscriptions += 1
            client.error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not client.error and codec not in Codec.__members__.values():
            client.error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if not client.error and payload_bytes > payload_bytes_max:
            client.error = ErrorCode.TELEMETRY_TOO_LARGE
        client.is_terminating = is_terminating
        return client, client.error

    def _untimely(self, client: Client, is_terminating: bool, now_ms: int) -> ErrorCode:
        """The error of metrics that come too early, or after the last; NONE if the time is right."""
        if client.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if client.may_push or now_ms - client.pushed_ms >= client.wish.interval_ms:
            client.pushed_ms = now_ms
            client.may_push = False
        elif not is_terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return ErrorCode.NONE

    # --- clients ---

    def _unused_id(self) -> bytes:
        while (instance_id := self._new_id()) in self._clients or instance_id in _RESERVED_IDS:
            continue
        return instance_id

    def _heard(
        self,
        instance_id: bytes,
        describe: Callable[[], Properties],
        connection: ClientConnection | None,
        now_ms: int,
    ) -> Client:
        """The client that sends a request, with what it is asked for now."""
        self.sweep(now_ms)
        client = self._clients.pop(instance_id, None)
        if client is None:
            client = Client(instance_id, describe())
            if len(self._clients) >= CLIENTS_MAX:
                self._forget(next(iter(self._clients)))
        elif client.connection is not connection and (client.connection is None or client.connection.is_closed):
            client.reconnected()
        self._clients[instance_id] = client
        client.connection = connection
        if client.version != self._version:
            client.wish = self._wish_of(client)
            client.version = self._version
            client.reconnected()
        client.expires_ms = now_ms + max(_REMEMBERED_MS_MIN, client.wish.interval_ms * _INTERVALS_REMEMBERED)
        return client

    def _wish_of(self, client: Client) -> Wish:
        metrics: set[str] = set()
        interval_ms = INTERVAL_MS
        for subscription in self._by_name.values():
            if _matches(subscription.match, client.properties):
                metrics.update(subscription.metrics)
                interval_ms = min(interval_ms, subscription.interval_ms)
        wanted = (EVERYTHING,) if EVERYTHING in metrics else tuple(sorted(metrics))
        state = zlib.crc32(f"{wanted}{interval_ms}".encode()) ^ zlib.crc32(client.instance_id)
        return Wish(state - (1 << 32) if state >> 31 else state, wanted, interval_ms)

    def sweep(self, now_ms: int) -> None:
        """Forget clients that were not heard of for some intervals."""
        if now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        for client in list(self._clients.values()):
            if now_ms >= client.expires_ms:
                self._forget(client.instance_id)
            elif client.connection is not None and client.connection.is_closed:
                client.connection = None

    def _forget(self, instance_id: bytes) -> None:
        del self._clients[instance_id]
        self._on_forgotten(instance_id)


def _matches(match: Iterable[str], properties: Properties) -> bool:
    for each in match:
        name, pattern = _pair(each)
        if not matching(pattern, [properties.get(name, "")]):
            return False
    return True
