"""What `LogCleaner` needs of others: workers that do jobs, and a place where the logs are."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.storage.cleaner.jobs import CleanJob, Event, Progress
from tidelog.storage.cleaner.selection import Candidate
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment


class Worker(Protocol):
    """Something that does one job at a time, elsewhere."""

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        """Do a job; `on_event` is called on this thread, last with JobDone or JobFailed, or `on_lost` with why not."""

    def abandon(self, on_gone: Callable[[], None]) -> None:
        """Stop at once: nothing of the job is reported any more. `on_gone` is called when nothing is written either."""

    def close(self) -> None:
        """End for good."""


class CleanableLogs(Protocol):
    """Where the logs are, and their clean points are kept."""

    def all_logs(self) -> list[Log]:
        """Every log that is online."""

    def get_log(self, topic: str, partition: int) -> Log | None:
        """One of them."""

    def checkpoint_clean_points(self) -> None:
        """Write the clean points that have changed."""


class Cleaning:
    """A job under way: the log as it was when the job began, and how far it is."""

    __slots__ = ("candidate", "generation", "log", "progress", "sources", "worker")

    def __init__(self, candidate: Candidate, worker: int) -> None:
        self.candidate = candidate
        self.log = candidate.log
        self.worker = worker
        self.generation = candidate.log.positions.generation
        self.sources: Sequence[Segment] = [
            segment for segment in candidate.log.segments if segment.base_offset < candidate.end_offset
        ]
        self.progress = Progress(0, candidate.clean_bytes + 2 * candidate.cleanable_bytes)
