"""Counters of the connections of one client.

`NetworkClient` keeps one `BrokerCounters` for each broker, which outlives the connections to it.
"""

from typing import Final

from tidelog.client.metrics import RequestMetrics
from tidelog.wire.api_keys import ApiKey

_NAMES: Final = {int(key): key.name for key in ApiKey}


def name_of_api(key: int) -> str:
    """Kafka's name of an API, or its number if it is not one of Kafka's."""
    return _NAMES.get(key) or str(key)


class ApiCounters:
    """The replies of one API."""

    __slots__ = ("latency_s", "latency_s_max", "replies")

    def __init__(self) -> None:
        self.replies = 0
        self.latency_s = 0.0
        self.latency_s_max = 0.0


class BrokerCounters:
    """Everything that went to and came from one broker."""

    __slots__ = ("address", "apis", "bytes_received", "bytes_sent", "failed", "lost", "made", "requests")

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.made = 0
        self.failed = 0
        self.lost = 0
        self.requests = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self.apis: dict[int, ApiCounters] = {}

    def replied(self, api_key: int, latency_s: float) -> None:
        """A reply came."""
        counters = self.apis.get(api_key)
        if counters is None:
            counters = self.apis[api_key] = ApiCounters()
        counters.replies += 1
        counters.latency_s += latency_s
        if latency_s > counters.latency_s_max:
            counters.latency_s_max = latency_s

    def by_api(self) -> dict[str, RequestMetrics]:
        """The figures of each API, by its name."""
        return {
            name_of_api(key): RequestMetrics(each.replies, each.latency_s / each.replies, each.latency_s_max)
            for key, each in self.apis.items()
        }
