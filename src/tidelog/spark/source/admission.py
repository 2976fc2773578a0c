"""How much of the backlog one micro-batch reads: by offsets, divided as in the official connector, or by bytes.

Spark's Python sources know one limit at a time and no delay, so the limits are kept here, by the reader itself, which
is one object for the whole life of a query. Pure but for the clock that is handed in.
"""

from collections.abc import Callable, Mapping
from math import ceil, floor

from tidelog.client.types import TopicPartition
from tidelog.spark.source.offsets import Offsets
from tidelog.spark.source.settings import AdmissionSettings

BytesPerOffset = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, float]]
"""From partitions and the offsets they are read from, what an offset takes in each of them."""


class Admission:
    """The limits of one query, and when it last took something."""

    def __init__(self, settings: AdmissionSettings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._last_taken: float | None = None

    def is_too_early(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        """Whether to wait for more, as `minOffsetsPerTrigger` asks; never for longer than `maxTriggerDelay`.

        The first micro-batch does not wait.
        """
        wanted = self._settings.min_offsets
        if wanted is None:
            return False
        now = self._monotonic()
        is_due = self._last_taken is None or (now - self._last_taken) * 1000 >= self._settings.max_delay_ms
        if not is_due and sum(backlog(starts, ends).values()) < wanted:
            return True
        self._last_taken = now
        return False

    def limited(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        bytes_per_offset: BytesPerOffset,
    ) -> Offsets:
        """The ends of a micro-batch that begins at `starts`, each at most as in `ends`."""
        limited = dict(ends)
        if self._settings.max_offsets is not None:
            limited = limit_offsets(self._settings.max_offsets, starts, limited)
        if self._settings.max_bytes is not None:
            sizes = bytes_per_offset({each: starts[each] for each in backlog(starts, limited)})
            limited = limit_bytes(self._settings.max_bytes, starts, limited, sizes)
        return limited


def backlog(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """How many offsets wait in each partition, where any do."""
    return {each: end - starts[each] for each, end in ends.items() if each in starts and end > starts[each]}


def limit_offsets(limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Share `limit` offsets over the partitions in proportion to their backlog.

    A share below one offset is rounded up, so that a small partition is not starved by a large one; others are rounded
    down.
    """
    waiting = backlog(starts, ends)
    total = sum(waiting.values())
    limited = dict(ends)
    for each, count in waiting.items():
        # As the official connector reckons, in floating point: a query that moves here takes the same steps.
        share = limit * (count / total)
        limited[each] = min(ends[each], starts[each] + (ceil(share) if share < 1 else floor(share)))
    return limited


def limit_bytes(
    limit: int,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
) -> Offsets:
    """Share `limit` bytes likewise; every partition that has something waiting advances by at least one offset."""
    waiting = backlog(starts, ends)
    sizes = {each: count * bytes_per_offset.get(each, 0.0) for each, count in waiting.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    part = limit / total
    return {
        each: starts[each] + max(floor(waiting[each] * part), 1) if each in waiting else ends[each] for each in ends
    }
