"""The metrics of the cleaner, under Kafka's names in `kafka.log:type=LogCleaner` and
`kafka.log:type=LogCleanerManager`. `CleanerMetrics.values` returns them for display.
"""

from collections.abc import Callable, Mapping

from tidelog.storage.cleaner.jobs import JobDone

MS_PER_S = 1000


class CleanerMetrics:
    """Plain numbers; `LogCleaner` sets them."""

    __slots__ = (
        "_last",
        "cleanings",
        "dead_workers",
        "last_run_ms",
        "max_compaction_delay_ms",
        "max_dirty_ratio",
        "uncleanable_bytes",
        "uncleanable_partitions",
    )

    def __init__(self) -> None:
        self._last: dict[int, JobDone] = {}
        self.cleanings = 0
        self.dead_workers = 0
        self.last_run_ms = -1
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0
        self.uncleanable_partitions = 0
        self.uncleanable_bytes: Callable[[], int] = lambda: 0

    def on_done(self, worker: int, done: JobDone) -> None:
        """Worker number `worker` has cleaned a log; the gauges show the last job of each worker."""
        self._last[worker] = done
        self.cleanings += 1

    def values(self, now_ms: int) -> Mapping[str, int]:
        """All metrics by name."""
        last = self._last.values()
        read = sum(done.bytes_read for done in last)
        return {
            "max-dirty-percent": int(100 * self.max_dirty_ratio),
            "time-since-last-run-ms": now_ms - self.last_run_ms if self.last_run_ms >= 0 else 0,
            "uncleanable-partitions-count": self.uncleanable_partitions,
            "uncleanable-bytes": self.uncleanable_bytes(),
            "max-buffer-utilization-percent": int(100 * max((done.map_utilization for done in last), default=0.0)),
            "cleaner-recopy-percent": 100 * sum(done.bytes_written for done in last) // max(read, 1),
            "max-clean-time-secs": max((done.total_ms for done in last), default=0) // MS_PER_S,
            "max-compaction-delay-secs": self.max_compaction_delay_ms // MS_PER_S,
            "DeadThreadCount": self.dead_workers,
        }
