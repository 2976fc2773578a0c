"""The cleaner's worker process: a job a line on its standard input, events on its standard output.

    python -m tidelog.storage.cleaner.worker

It exits when its input ends, and when the broker that started it has exited. Compiled kernels process the records where
NumPy and Numba are installed and the job is large enough to be worth loading them, else plain Python: the result is the
same. The process runs at a lower priority (nice), because a broker's latency matters more than the time of a cleaning.
"""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, BinaryIO, Final

from tidelog.records.errors import CorruptRecordError
from tidelog.records.kernels.compaction import Compactor, PlainCompactor
from tidelog.storage.cleaner._writer import SegmentTooLargeError
from tidelog.storage.cleaner.cleaning import bytes_to_read, clean
from tidelog.storage.cleaner.jobs import (
    BUG,
    CORRUPT,
    IO,
    CleanJob,
    Event,
    JobFailed,
    Progress,
    decode_job,
    encode_event,
)
from tidelog.storage.errors import CorruptIndexError

_COMPILED: Final = "tidelog.records.kernels.compaction_compiled"
_WORTH_KERNELS_BYTES: Final = 4 * 1024 * 1024
"""Below this, plain Python is done before the kernels are loaded."""

_KERNEL_SOURCES: Final = ("_bytes.py", "_compaction.py", "_compile.py", "_hashing.py")
_NICENESS: Final = 5
_PROGRESS_MS: Final = 200
_THROTTLE_PERIOD_S: Final = 0.3


class OrphanedError(Exception):
    """The broker has exited, so the result is of no use."""


def main() -> int:
    """Do jobs until the input ends."""
    parent = os.getppid()
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    # Output of libraries must not get between the events.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, output, lambda: os.getppid() == parent)
    except (OrphanedError, BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0


def serve(jobs: BinaryIO, output: BinaryIO, is_wanted: Callable[[], bool]) -> None:
    """Do one job after the other."""
    for line in jobs:
        for event in do(decode_job(line), is_wanted, lambda event: _send(output, event)):
            _send(output, event)


def _send(output: BinaryIO, event: Event) -> None:
    output.write(encode_event(event))


def do(job: CleanJob, is_wanted: Callable[[], bool], report: Callable[[Event], None]) -> Iterator[Event]:
    """The events of one job. Progress is reported from within, between two of them."""
    started = time.monotonic()
    try:
        pace = _Pacer(job, is_wanted, report)
        compactor, engine = new_compactor(job)
        yield from clean(job, compactor, pace, lambda: round((time.monotonic() - started) * 1000), engine)
    except (CorruptRecordError, CorruptIndexError, SegmentTooLargeError) as error:
        yield JobFailed(CORRUPT, str(error))
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        yield JobFailed(IO, str(error), error.errno or 0)
    except OrphanedError:
        raise
    except Exception as error:  # noqa: BLE001 - the broker gets it as the outcome of the job
        yield JobFailed(BUG, f"{type(error).__name__}: {error}")


def new_compactor(job: CleanJob) -> tuple[Compactor, str]:
    """The compactor of a job, and its name."""
    total_bytes = bytes_to_read(job)
    compiled = _compiled() if total_bytes >= _WORTH_KERNELS_BYTES else None
    if compiled is None:
        return PlainCompactor(job.map_bytes, job.map_load_factor), "plain"
    records_max = job.end_offset - job.first_dirty_offset
    compactor: Compactor = compiled.CompiledCompactor(
        job.map_bytes, job.map_load_factor, secret=os.urandom(compiled.SECRET_BYTES), records_max=records_max
    )
    return compactor, "compiled"


def _compiled() -> Any:
    """The module of the kernels, None if it cannot be imported. By name: only this process may load it."""
    os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache_directory())
    try:
        return import_module(_COMPILED)
    except Exception as error:  # noqa: BLE001 - a library of machine code may fail in any way
        sys.stderr.write(f"cleaning without compiled kernels: {error}\n")
        return None


def kernel_cache_directory() -> str:
    """The directory of compiled kernels, one for each version of their sources; a temporary one if there is no other.

    Numba only notices when the file of a kernel itself has changed, not the files of those that it calls.
    """
    from hashlib import blake2b
    from pathlib import Path
    from tempfile import gettempdir

    digest = blake2b(digest_size=8)
    for name in _KERNEL_SOURCES:
        digest.update(Path(__file__).parents[2].joinpath("records", "kernels", name).read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for base in (home, os.path.join(gettempdir(), f"tidelog-{os.getuid()}")):
        directory = os.path.join(base, "tidelog", f"kernels-{digest.hexdigest()}")
        with contextlib.suppress(OSError):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            if os.access(directory, os.W_OK):
                return directory
    return gettempdir()


class _Pacer:
    """Limits the rate, reports progress, and stops when the broker has exited."""

    def __init__(self, job: CleanJob, is_wanted: Callable[[], bool], report: Callable[[Event], None]) -> None:
        self._throttle = Throttle(job.bytes_per_second_max, time.monotonic, self._sleep)
        self._is_wanted = is_wanted
        self._report = report
        self._total_bytes = bytes_to_read(job)
        self._done_bytes = 0
        self._reported_at = time.monotonic()

    def __call__(self, read_bytes: int, written_bytes: int) -> None:
        self._done_bytes += read_bytes
        self._check()
        self._throttle.spend(read_bytes + written_bytes)

    def _check(self) -> None:
        if not self._is_wanted():
            raise OrphanedError
        if time.monotonic() - self._reported_at >= _PROGRESS_MS / 1000:
            self._reported_at = time.monotonic()
            self._report(Progress(self._done_bytes, self._total_bytes))

    def _sleep(self, seconds: float) -> None:
        """Sleep in short steps, to notice the exit of the broker."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _PROGRESS_MS / 1000))
            self._check()


class Throttle:
    """Limits I/O to a rate by sleeping (`log.cleaner.io.max.bytes.per.second`). Clock and sleep are arguments.

    Every 0.3 s it sleeps off the excess over the rate; an unused part of the rate is not saved up.
    """

    __slots__ = ("_bytes_per_second_max", "_clock", "_period_start", "_sleep", "_spent_bytes")

    def __init__(self, bytes_per_second_max: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._clock = clock
        self._sleep = sleep
        self._period_start = clock()
        self._spent_bytes = 0

    def spend(self, size_bytes: int) -> None:
        """Account for I/O; returns when the next I/O is allowed."""
        self._spent_bytes += size_bytes
        elapsed = self._clock() - self._period_start
        earned_s = self._spent_bytes / self._bytes_per_second_max
        if elapsed < _THROTTLE_PERIOD_S and earned_s < _THROTTLE_PERIOD_S:
            return
        if earned_s > elapsed:
            self._sleep(earned_s - elapsed)
        self._period_start = self._clock()
        self._spent_bytes = 0


if __name__ == "__main__":
    sys.exit(main())
