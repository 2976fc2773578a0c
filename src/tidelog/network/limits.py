"""What may be open or queued at once. Pure counting; `SocketServer` and `Connection` act on the answers.

`ConnectionQuotas` counts connections: broker-wide and per-listener limits make the listener wait (nobody is refused
who would be welcome a moment later), a per-address limit turns the connection away, as in Kafka.

`RequestChannel` counts requests that were read and not yet answered, and their bytes. Requests parked in purgatory
hold no buffer and do not count, just as they have left the queue in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """The settings of this room, one frozen group."""

    request_bytes_max: int = 104_857_600
    queued_requests_max: int = 500
    queued_request_bytes_max: int = -1
    connections_max: int = 2**31 - 1
    listener_connections_max: Mapping[str, int] = field(default_factory=dict)
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_idle_ms_max: int = 600_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    listen_backlog: int = 50


class ConnectionQuotas:
    """How many connections are open, in all, by listener and by address."""

    __slots__ = ("_by_address", "_by_listener", "_limits", "_total")

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def update_limits(self, limits: NetworkLimits) -> None:
        self._limits = limits

    @property
    def total(self) -> int:
        return self._total

    def has_room(self, listener: str) -> bool:
        """May this listener take one more connection now? If not, it should stop accepting until one closes."""
        limit = self._limits.listener_connections_max.get(listener)
        if limit is not None and self._by_listener[listener] >= limit:
            return False
        return self._total < self._limits.connections_max

    def excess(self) -> int:
        """How many connections are open beyond a limit that was lowered meanwhile."""
        return max(0, self._total - self._limits.connections_max)

    def address_limit(self, address: str) -> int:
        limits = self._limits
        return limits.connections_per_ip_overrides.get(address, limits.connections_per_ip_max)

    def try_admit(self, listener: str, address: str) -> bool:
        """Count a new connection; False when its address has as many as it may."""
        if self._by_address[address] >= self.address_limit(address):
            return False
        self._total += 1
        self._by_listener[listener] += 1
        self._by_address[address] += 1
        return True

    def release(self, listener: str, address: str) -> None:
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class RequestChannel:
    """Requests read and not yet answered, in number and bytes."""

    __slots__ = ("bytes_max", "queued_bytes", "queued_requests", "requests_max")

    def __init__(self, limits: NetworkLimits) -> None:
        self.requests_max = limits.queued_requests_max
        self.bytes_max = limits.queued_request_bytes_max if limits.queued_request_bytes_max > 0 else 2**63
        self.queued_requests = 0
        self.queued_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.queued_requests >= self.requests_max or self.queued_bytes >= self.bytes_max
