"""What may be open or queued at once. Pure counting; `SocketServer` and `Connection` act on the answers.

`ConnectionQuotas` counts connections: broker-wide and per-listener limits make the listener wait, in number and in
connections per second; a per-address limit turns the connection away, as in Kafka: at once where there are too many,
after a wait where they come too fast. The protected listener, over which
brokers talk to each other, is exempt from the broker-wide limits.

`RequestChannel` counts requests that were read and not yet answered, and their bytes. Requests parked in purgatory
hold no buffer and do not count, just as they have left the queue in Kafka. The listener of the controller has a channel
of its own, so that its requests do not wait behind those of clients.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.quotas import TokenBucket
from tidelog.security.addresses import canonical_address

UNLIMITED: Final = 2**31 - 1
_ADDRESSES_MAX: Final = 10_000
"""Addresses whose rates are measured at the same time. Beyond, those that were idle longest start over."""
CONTROL_REQUESTS_MAX: Final = 20
"""Requests that wait on the listener of the controller, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """The settings of this room, one frozen group."""

    request_bytes_max: int = 104_857_600
    queued_requests_max: int = 500
    queued_request_bytes_max: int = -1
    connections_max: int = 2**31 - 1
    listener_connections_max: Mapping[str, int] = field(default_factory=dict)
    connections_per_second_max: int = UNLIMITED
    listener_connections_per_second_max: Mapping[str, int] = field(default_factory=dict)
    connections_burst_ms: int = 10_000
    """After a pause, so much time's share of connections is let through at once."""
    connection_wait_ms_max: int = 1000
    """How long a connection that comes too fast is held before it is closed, at most."""
    control_listener: str | None = None
    """The listener of the controller, if it has one for itself."""
    protected_listener: str | None = None
    """The listener between brokers, if clients have another one."""
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_idle_ms_max: int = 600_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    listen_backlog: int = 50
    socket_descriptors_max: int = UNLIMITED
    """Sockets get descriptors below this number; those above are for files."""


class ConnectionQuotas:
    """How many connections are open, in all, by listener and by address, and how fast they come."""

    __slots__ = (
        "_address_rate_default",
        "_address_rates",
        "_address_rates_max",
        "_by_address",
        "_by_listener",
        "_limits",
        "_rate",
        "_rates",
        "_total",
        "accepted",
    )

    def __init__(self, limits: NetworkLimits) -> None:
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        """Connections since the start, by listener."""
        self._address_rate_default = UNLIMITED
        self._address_rates_max: dict[str, int] = {}
        self._address_rates: dict[str, TokenBucket] = {}
        self._rate: TokenBucket | None = None
        self._rates: dict[str, TokenBucket] = {}
        self.update_limits(limits)

    def update_limits(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._rate = self._followed(self._rate, limits.connections_per_second_max)
        self._rates = {
            listener: rate
            for listener, per_second_max in limits.listener_connections_per_second_max.items()
            if (rate := self._followed(self._rates.get(listener), per_second_max)) is not None
        }

    def _followed(self, rate: TokenBucket | None, per_second_max: int) -> TokenBucket | None:
        """The rate of a setting; the one before if the setting has not changed."""
        if per_second_max >= UNLIMITED:
            return None
        if rate is not None and rate.rate == per_second_max:
            return rate
        return TokenBucket(per_second_max, self._limits.connections_burst_ms, 0.0)

    @property
    def total(self) -> int:
        return self._total

    def open_on(self, listener: str) -> int:
        """How many connections a listener has."""
        return self._by_listener[listener]

    def has_room(self, listener: str) -> bool:
        """May this listener take one more connection now? If not, it should stop accepting until one closes."""
        limit = self._limits.listener_connections_max.get(listener)
        if limit is not None and self._by_listener[listener] >= limit:
            return False
        return self._total < self._limits.connections_max or listener == self._limits.protected_listener

    def wait_seconds(self, listener: str, now_seconds: float) -> float:
        """How long this listener should wait before it accepts one more connection; 0 means not at all."""
        waits_ms = (rate.wait_ms(1, now_seconds * 1000) for rate in self._rates_of(listener))
        return min(max(waits_ms, default=0), self._limits.connection_wait_ms_max) / 1000

    def _rates_of(self, listener: str) -> list[TokenBucket]:
        own = self._rates.get(listener)
        rates = [own] if own is not None else []
        if self._rate is not None and listener != self._limits.protected_listener:
            rates.append(self._rate)
        return rates

    def excess(self) -> int:
        """How many connections are open beyond the limit: it was lowered, or the protected listener took one more."""
        return max(0, self._total - self._limits.connections_max)

    def set_address_rate(self, address: str | None, per_second_max: int | None) -> None:
        """Let connections from an address (None: any without a rate of its own) come so fast; None removes a rate."""
        if address is None:
            self._address_rate_default = UNLIMITED if per_second_max is None else per_second_max
        elif per_second_max is None:
            self._address_rates_max.pop(canonical_address(address), None)
        else:
            self._address_rates_max[canonical_address(address)] = per_second_max
        self._address_rates.clear()

    def address_wait_seconds(self, address: str, now_seconds: float) -> float:
        """Count a connection. How long it is held before it is closed, because its address opens too many a second."""
        per_second_max = self._address_rates_max.get(address, self._address_rate_default)
        if per_second_max >= UNLIMITED:
            return 0.0
        now_ms = now_seconds * 1000
        rate = self._address_rates.pop(address, None)
        if rate is None:
            rate = TokenBucket(per_second_max, self._limits.connections_burst_ms, now_ms)
        if len(self._address_rates) >= _ADDRESSES_MAX:
            del self._address_rates[next(iter(self._address_rates))]
        self._address_rates[address] = rate  # last, as the one used last
        wait_ms = rate.wait_ms(1, now_ms)
        if not wait_ms:
            rate.take(1, now_ms)
        return min(wait_ms, self._limits.connection_wait_ms_max) / 1000

    def address_limit(self, address: str) -> int:
        limits = self._limits
        return limits.connections_per_ip_overrides.get(address, limits.connections_per_ip_max)

    def try_admit(self, listener: str, address: str, now_seconds: float) -> bool:
        """Count a new connection; False when its address has as many as it may."""
        for rate in self._rates_of(listener):
            rate.take(1, now_seconds * 1000)
        if self._by_address[address] >= self.address_limit(address):
            return False
        self._total += 1
        self._by_listener[listener] += 1
        self.accepted[listener] += 1
        self._by_address[address] += 1
        return True

    def release(self, listener: str, address: str) -> None:
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class WaitingConnection(Protocol):
    """A connection that a channel holds back."""

    is_closed: bool

    def fail(self, what: str, cause: Exception) -> None:
        """Close because of a defect of the broker."""

    def channel_has_room(self) -> None:
        """Read on: there is room again."""


class RequestChannel:
    """Requests read and not yet answered, in number and bytes."""

    __slots__ = ("bytes_max", "queued_bytes", "queued_requests", "requests_max", "waiting")

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        """`bytes_max` of 0 or less is no limit."""
        self.requests_max = requests_max
        self.bytes_max = bytes_max if bytes_max > 0 else 2**63
        self.queued_requests = 0
        self.queued_bytes = 0
        self.waiting: deque[WaitingConnection] = deque()
        """Connections that have requests and are not read on until there is room."""

    def release(self, size: int) -> None:
        """A request of this size is answered, or waits without its bytes."""
        self.queued_requests -= 1
        self.queued_bytes -= size

    @property
    def is_full(self) -> bool:
        return self.queued_requests >= self.requests_max or self.queued_bytes >= self.bytes_max
