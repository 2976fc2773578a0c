"""End offsets and group lag over time: bounded series from which pages plot throughput and lag. Pure.

Throughput is the growth of end offsets. It counts what was appended, transaction markers included; it needs nothing
from brokers but ListOffsets, so it works with any Kafka cluster.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tidelog.client.types import TopicPartition

POINTS_MAX: Final = 360
"""An hour of samples, one each ten seconds."""


class Point(NamedTuple):
    """A value at a time, in seconds since the epoch."""

    at: float
    value: float


class ThroughputSamples:
    """Records appended each second: of the cluster and of each topic."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points_max = points_max
        self._last_at: float | None = None
        self.ends: Mapping[TopicPartition, int] = {}
        """The end offsets of the last sample."""
        self.cluster: deque[Point] = deque(maxlen=points_max)
        self._topics: dict[str, deque[Point]] = {}

    def add(self, at: float, ends: Mapping[TopicPartition, int]) -> None:
        """Take in one sample of all partitions. Partitions that are new or were recreated count from the next one."""
        before, since = self.ends, self._last_at
        self.ends, self._last_at = ends, at
        if since is None or at <= since:
            return
        appended = dict.fromkeys({where.topic for where in ends}, 0)
        for where, end in ends.items():
            if where in before:
                appended[where.topic] += max(0, end - before[where])
        seconds = at - since
        self.cluster.append(Point(at, sum(appended.values()) / seconds))
        for topic, count in appended.items():
            self._topics.setdefault(topic, deque(maxlen=self._points_max)).append(Point(at, count / seconds))
        for topic in self._topics.keys() - appended.keys():
            del self._topics[topic]

    def of_topic(self, topic: str) -> Collection[Point]:
        """The series of a topic; empty while there are fewer than two samples."""
        return self._topics.get(topic, ())

    def rate_of(self, topic: str) -> float | None:
        """Records each second in the last sample; None while it is unknown."""
        series = self._topics.get(topic)
        return series[-1].value if series else None


class LagSamples:
    """The total lag of each group."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points_max = points_max
        self._groups: dict[str, deque[Point]] = {}

    def add(self, group: str, at: float, lag: int) -> None:
        """Take in the lag of one group."""
        self._groups.setdefault(group, deque(maxlen=self._points_max)).append(Point(at, lag))

    def keep_only(self, groups: Collection[str]) -> None:
        """Drop the series of groups that no longer exist."""
        for group in self._groups.keys() - set(groups):
            del self._groups[group]

    def of_group(self, group: str) -> Collection[Point]:
        """The series of a group."""
        return self._groups.get(group, ())

    def lag_of(self, group: str) -> int | None:
        """The lag in the last sample; None while it is unknown."""
        series = self._groups.get(group)
        return int(series[-1].value) if series else None


def total_lag(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """How many records a group has yet to read, in partitions whose end is known."""
    return sum(max(0, ends[where] - offset) for where, offset in committed.items() if where in ends)
