"""The records of a worker: which wait, which run, and what each is acknowledged with. Pure; the time is an argument.

A job's record is locked. The lock is renewed long before it ends, whether the record waits or runs; while a renewal is
under way the record cannot be acknowledged, so what a handler says is kept until the answer. If a lock is lost all the
same, because the broker could not be reached for too long, the record is delivered to others; a job that waits is
forgotten, one that runs ends without an acknowledgement.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.types import RELEASED, Ack, AcknowledgeType, ShareRecord
from tidelog.client.types import TopicPartition

_RENEWED: Final = Ack(AcknowledgeType.RENEW)
_RENEW_AT: Final = 3
"""A lock is renewed when a third of its time has passed."""

Record = ShareRecord[Any, Any]
JobKey = tuple[str, int, int]
"""Topic, partition, offset."""


class Job:
    """One locked record."""

    __slots__ = ("ack", "is_renewing", "key", "record", "renew_at_ms")

    def __init__(self, record: Record) -> None:
        self.key: JobKey = record[:3]
        self.record = record
        self.ack: Ack | None = None
        """What its handler has decided."""
        self.is_renewing = False
        self.renew_at_ms = 0


class Jobs:
    """All records of one worker."""

    def __init__(self, held: HeldRecords) -> None:
        self._held = held
        self._all: dict[JobKey, Job] = {}
        self._waiting: deque[Job] = deque()
        self._done: list[Job] = []
        self.lost = 0
        """How many locks ended before their record was acknowledged."""

    def __len__(self) -> int:
        """Jobs that wait or run."""
        return len(self._all) - len(self._done)

    @property
    def waits_for_locks(self) -> bool:
        """Whether the answer to a renewal is to come."""
        return any(job.is_renewing for job in self._all.values())

    def take(self, records: Iterable[Record], now_ms: int, lock_ms: int) -> None:
        """Records that were delivered: new ones wait, and a job whose record came again has a new lock."""
        for record in records:
            job = self._all.get(record[:3])
            if job is None:
                job = self._all[record[:3]] = Job(record)
                self._waiting.append(job)
            job.record = record
            job.is_renewing = False
            job.renew_at_ms = now_ms + lock_ms // _RENEW_AT

    def begin(self) -> Job | None:
        """The next job to run; None if none waits."""
        while self._waiting:
            job = self._waiting.popleft()
            if job.key in self._all:
                return job
        return None

    def done(self, job: Job, ack: Ack) -> None:
        """The handler of a job has ended."""
        job.ack = ack
        self._done.append(job)

    def settle(self) -> None:
        """Hand over the acknowledgements of jobs that are done and whose lock is ours."""
        left: list[Job] = []
        for job in self._done:
            assert job.ack is not None, "a job that is done has an acknowledgement"
            if self._held.is_delivered(job.record):
                self._held.acknowledge(*job.key, job.ack)
            elif job.is_renewing:
                left.append(job)
                continue
            else:
                self.lost += 1
            del self._all[job.key]
        self._done = left

    def renew(self, now_ms: int) -> None:
        """Renew the locks for which it is time."""
        for job in self._all.values():
            if (
                job.ack is None
                and not job.is_renewing
                and job.renew_at_ms <= now_ms
                and self._held.is_delivered(job.record)
            ):
                self._held.acknowledge(*job.key, _RENEWED)
                job.is_renewing = True

    def next_renewal_ms(self) -> int | None:
        """When the next lock is to be renewed."""
        times = [job.renew_at_ms for job in self._all.values() if job.ack is None and not job.is_renewing]
        return min(times, default=None)

    def refused(self, where: TopicPartition, offsets: Iterable[int]) -> None:
        """Acknowledgements were refused; if they were renewals, those locks are lost."""
        for offset in offsets:
            job = self._all.get((*where, offset))
            if job is not None and job.is_renewing:
                job.is_renewing = False
                if job in self._waiting:
                    self.lost += 1
                    del self._all[job.key]

    def release_waiting(self) -> None:
        """Nothing more is begun: others shall have what waits."""
        for job in self._waiting:
            if job.key in self._all:
                self.done(job, RELEASED)
        self._waiting.clear()
