"""Reports on pipelines to services outside of the process, in a thread of its own: none of them can delay a batch.

State changes are reported in order; while a pipeline only makes progress, its newest status is reported every
`HEARTBEAT_S`. If a service is slow, statuses between two state changes are skipped.
"""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.spark.pipeline.running.status_topic import HEARTBEAT_S
from tidelog.spark.pipeline.running.supervision import FINAL, PipelineStatus

if TYPE_CHECKING:
    from tidelog.spark.source.progress import QueryProgress

LOG: Final = logging.getLogger("tidelog.pipeline")

_CHANGES_MAX: Final = 10_000
_END_S: Final = 15.0


class StatusReport(Protocol):
    """A place that statuses are written to."""

    def write(self, status: PipelineStatus) -> None: ...

    def close(self) -> None: ...


class Reporter:
    """An observer that hands statuses to `reports` in its own thread, until it is closed."""

    def __init__(self, reports: Sequence[StatusReport], heartbeat_s: float = HEARTBEAT_S) -> None:
        self._reports = reports
        self._heartbeat_s = heartbeat_s
        self._changes: queue.Queue[PipelineStatus | None] = queue.Queue(_CHANGES_MAX)
        self._latest: dict[str, PipelineStatus] = {}
        self._thread = threading.Thread(target=self._run, name="tidelog-pipeline-reports", daemon=True)
        self._thread.start()

    def changed(self, status: PipelineStatus) -> None:
        """Report it soon."""
        self._latest[status.pipeline] = status
        self._changes.put(status)

    def progressed(self, status: PipelineStatus, progress: "QueryProgress") -> None:
        """Report it with the next heartbeat."""
        del progress
        self._latest[status.pipeline] = status

    def close(self) -> None:
        """Report what is left, for a while."""
        self._changes.put(None)
        self._thread.join(_END_S)

    def _run(self) -> None:
        next_at = time.monotonic() + self._heartbeat_s
        while True:
            try:
                change = self._changes.get(timeout=max(0.0, next_at - time.monotonic()))
            except queue.Empty:
                for status in list(self._latest.values()):
                    if status.state not in FINAL:
                        self._write(status)
                next_at = time.monotonic() + self._heartbeat_s
                continue
            if change is None:
                break
            self._write(change)
        for report in self._reports:
            report.close()

    def _write(self, status: PipelineStatus) -> None:
        for report in self._reports:
            try:
                report.write(status)
            except Exception:
                LOG.warning("the status of pipeline %s was not reported", status.pipeline, exc_info=True)
