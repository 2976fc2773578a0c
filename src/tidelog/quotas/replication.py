"""The quota of one direction of replication: which replicas it covers, and whether it is used up.

Leaders throttle what they send, followers what they ask for, each for the replicas that a topic's
`leader.replication.throttled.replicas` or `follower.replication.throttled.replicas` names. All bytes of these replicas
are counted; only those that are not in sync have to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.quotas.rates import Quota, RateWindows, SimpleRate

UNLIMITED: Final = 2**63 - 1
"""The rate that stands for no limit, as in Kafka."""
_EVERY_REPLICA: Final = "*"
_TOPICS_MAX: Final = 1000
"""Parsed lists that are kept. A topic that is gone leaves one behind; too many are dropped and parsed again."""


class ReplicationQuota:
    """Bytes per second of the throttled replicas of one broker."""

    __slots__ = ("_broker_id", "_parsed", "_quota")

    def __init__(self, broker_id: int, windows: RateWindows | None = None) -> None:
        self._broker_id = broker_id
        self._quota = Quota(SimpleRate(windows), UNLIMITED)
        self._parsed: dict[str, tuple[Sequence[str], frozenset[int] | None]] = {}

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all. Without one there is nothing to count."""
        return self._quota.bound < UNLIMITED

    def set_rate(self, bytes_per_second: int) -> None:
        """Follow a changed setting."""
        self._quota.bound = bytes_per_second

    def covers(self, topic: str, index: int, replicas: Sequence[str]) -> bool:
        """Whether this broker's replica of a partition is among `replicas`, the setting of its topic.

        The setting is a list of `partition:broker`, or `*`.
        """
        if not replicas:
            return False
        known = self._parsed.get(topic)
        if known is None or known[0] is not replicas:
            if len(self._parsed) >= _TOPICS_MAX:
                self._parsed.clear()
            known = self._parsed[topic] = replicas, _partitions_on(self._broker_id, replicas)
        return known[1] is None or index in known[1]

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes of throttled replicas."""
        self._quota.record(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether replicas that are not in sync have to wait."""
        return self._quota.is_exceeded(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """How long they have to wait; 0 if they need not."""
        return self._quota.throttle_ms(now_ms)


class ReplicationQuotas(NamedTuple):
    """The quotas of one broker: what it sends as leader, fetches as follower, and copies between its directories."""

    leader: ReplicationQuota
    follower: ReplicationQuota
    alter_log_dirs: ReplicationQuota

    def set_rates(self, leader: int, follower: int, alter_log_dirs: int) -> None:
        """Follow changed settings."""
        self.leader.set_rate(leader)
        self.follower.set_rate(follower)
        self.alter_log_dirs.set_rate(alter_log_dirs)


def _partitions_on(broker_id: int, replicas: Sequence[str]) -> frozenset[int] | None:
    """The partitions that a list names with this broker; None for all."""
    if _EVERY_REPLICA in replicas:
        return None
    pairs = (entry.partition(":") for entry in replicas)
    return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == broker_id)
