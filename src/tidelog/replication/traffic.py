"""What goes in and out of each topic of this broker: requests, records, bytes; and the errors of responses.

Only topics that this broker has partitions of are counted by name, so that clients which ask for names that do not
exist cannot fill the memory. What belonged to a topic that is deleted stays in the totals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.metrics import Distribution
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.storage.types import LogAppendInfo
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import PartitionReply as FetchReply

if TYPE_CHECKING:
    from tidelog.replication.partition import Partition

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_RECORDS: Final = 7
"""The place of the records in a fetch's reply."""


class TopicCounts:
    """Plain numbers since the start of this broker."""

    __slots__ = (
        "appended",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_conversions",
        "produce_conversions",
        "total_fetch_requests",
    )
    _NUMBERS: Final = __slots__[1:]

    def __init__(self) -> None:
        self.appended = [0, 0, 0]
        """Partitions of Produce requests, records, bytes. The topic's partitions hold this list, see `count_append`."""
        for name in self._NUMBERS:
            setattr(self, name, 0)

    bytes_out: int
    bytes_rejected: int
    """Of batches that were larger than `max.message.bytes`."""
    failed_fetch_requests: int
    failed_produce_requests: int
    fetch_conversions: int
    """Records that were converted for old clients."""
    produce_conversions: int
    """Records that were converted before they were appended: from an old format, or to the codec of the topic."""
    total_fetch_requests: int
    """Each partition of a request counts."""

    @property
    def total_produce_requests(self) -> int:
        """Each partition of a request counts."""
        return self.appended[0]

    @property
    def messages_in(self) -> int:
        return self.appended[1]

    @property
    def bytes_in(self) -> int:
        return self.appended[2]

    def add(self, other: TopicCounts) -> None:
        self.appended[:] = [mine + theirs for mine, theirs in zip(self.appended, other.appended, strict=True)]
        for name in self._NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Conversions:
    """What conversions of records for one API took."""

    __slots__ = ("bytes", "times")

    def __init__(self) -> None:
        self.times = Distribution()
        """In microseconds."""
        self.bytes = Distribution()
        """Of the records as they were converted to."""

    def record(self, size_bytes: int, took_ns: int) -> None:
        self.times.record(took_ns // 1000)
        self.bytes.record(size_bytes)


class TrafficCounters:
    """The counts of every topic, and of errors."""

    def __init__(self, is_known: Callable[[str], bool], is_added: Callable[[str, int, int], bool]) -> None:
        """`is_known` says whether a topic exists; `is_added` whether a reassignment adds a broker to a partition."""
        self._is_known = is_known
        self._is_added = is_added
        self._by_name: dict[str, TopicCounts] = {}
        self._others = TopicCounts()
        """Of topics that do not exist, or no longer."""
        self.replication_bytes_out = 0
        self.reassignment_bytes_out = 0
        """Those of `replication_bytes_out` that go to replicas which a reassignment adds."""
        self.conversions: Final[Mapping[str, Conversions]] = {"Fetch": Conversions(), "Produce": Conversions()}
        """By API."""
        self.errors: dict[tuple[str, int], int] = {}
        """By API and error code: how often a partition of a response had it."""

    # --- counting ---

    def count_append(self, partition: Partition, info: LogAppendInfo) -> None:
        """A batch was appended. The hot path calls this once for each partition, and then counts in `appended`."""
        counts = self._by_name.get(partition.topic) or self._find_name(partition.topic)
        if counts is not self._others:
            partition.appended = counts.appended
        appended = counts.appended
        appended[0] += 1
        appended[1] += info[5]
        appended[2] += info[6]

    def count_unappended(self, topic: bytes, code: int, size_bytes: int) -> None:
        """A partition of a Produce request that had no records, or an error."""
        counts = self._find_name(topic.decode(errors="replace"))
        counts.appended[0] += 1
        if code:
            counts.failed_produce_requests += 1
            self.count_error("Produce", code)
            if code in _TOO_LARGE:
                counts.bytes_rejected += size_bytes

    def count_fetch(self, parameters: FetchParameters, wanted: Iterable[Wanted], replies: Iterable[FetchReply]) -> None:
        """The partitions of a Fetch and what is sent of each."""
        is_follower = parameters[0] >= 0
        for entry, reply in zip(wanted, replies, strict=True):
            topic = entry[1]
            counts = self._by_name.get(topic) or self._find_name(topic)  # type: ignore[arg-type]
            counts.total_fetch_requests += 1
            records = reply[_RECORDS]
            if records is not None:
                size = len(records) if records.__class__ is bytes else records.length  # type: ignore[union-attr]
                if is_follower:
                    self.replication_bytes_out += size
                    if topic is not None and self._is_added(topic, entry[2][0], parameters[0]):
                        self.reassignment_bytes_out += size
                else:
                    counts.bytes_out += size
            elif reply[1]:
                counts.failed_fetch_requests += 1
                self.count_error("Fetch", reply[1])

    def count_fetch_conversion(self, topic: str, record_count: int, size_bytes: int, took_ns: int) -> None:
        """The records of one partition were converted for an old client."""
        self._find_name(topic).fetch_conversions += record_count
        self.conversions["Fetch"].record(size_bytes, took_ns)

    def count_produce_conversion(self, topic: str, record_count: int, size_bytes: int, took_ns: int) -> None:
        """The records of one partition were converted and appended."""
        self._find_name(topic).produce_conversions += record_count
        self.conversions["Produce"].record(size_bytes, took_ns)

    def count_error(self, api: str, code: int) -> None:
        key = api, code
        self.errors[key] = self.errors.get(key, 0) + 1

    def _find_name(self, name: str | None) -> TopicCounts:
        if name is None or not self._is_known(name):
            return self._others
        counts = self._by_name.get(name)
        if counts is None:
            counts = self._by_name[name] = TopicCounts()
        return counts

    # --- reading ---

    def forget(self, names: Collection[str]) -> None:
        """Topics were deleted."""
        for name in names:
            counts = self._by_name.pop(name, None)
            if counts is not None:
                self._others.add(counts)

    def topics(self) -> Iterator[tuple[str, TopicCounts]]:
        """Every topic's counts."""
        return iter(list(self._by_name.items()))

    def total(self) -> TopicCounts:
        """The counts of all topics together."""
        total = TopicCounts()
        total.add(self._others)
        for counts in self._by_name.values():
            total.add(counts)
        return total
