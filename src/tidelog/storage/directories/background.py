"""Work of the log manager that would block it: checkpoint files, and the removal of what was deleted.

The manager lives on one thread. What would hold that up it hands to `Background`, which its owner provides; the outcome
comes back on the manager's own thread.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Final, Protocol

from tidelog.storage._files import Replacements, unlink_all
from tidelog.storage.checkpoints import OffsetCheckpointFile
from tidelog.storage.log import Log
from tidelog.timing import Clock, Scheduler
from tidelog.wire.partitions import PartitionKey

DIRECTORIES_AT_ONCE: Final = 100
"""Deleted logs whose files are let go of in one step, a few microseconds each, and removed by one piece of work."""
_PAUSE_MS: Final = 2

Done = Callable[[BaseException | None], None]
"""Told how something ended: what it raised, or None."""


class Background(Protocol):
    """Runs work on another thread."""

    def __call__(self, work: Callable[[], object], done: Done, /) -> None:
        """Run `work`, then call `done` on the caller's thread."""


def run_inline(work: Callable[[], object], done: Done) -> None:
    """A `Background` without a thread, for tests and tools."""
    try:
        work()
    except Exception as error:
        done(error)
    else:
        done(None)


class CheckpointWriter:
    """One checkpoint file. Writes may overlap; what stays in the file is what was handed over last."""

    __slots__ = ("_file", "_lock", "_newest", "_on_disk", "written")

    def __init__(self, file: OffsetCheckpointFile) -> None:
        self._file = file
        self._lock = Lock()
        self._newest = 0
        self._on_disk = 0
        self.written: Mapping[PartitionKey, int] | None = None
        """What was handed over last, None when nothing was or it could not be written."""

    def write(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Write here and now, whether or not anything has changed."""
        self.writing(offsets)()

    @property
    def is_on_disk(self) -> bool:
        """Whether what was handed over last has been written."""
        return self.written is not None and self._on_disk == self._newest

    def writing(self, offsets: Mapping[PartitionKey, int]) -> Callable[[], None]:
        """What writes these offsets, on any thread, unless newer ones were handed over meanwhile."""
        self._newest += 1
        number = self._newest
        self.written = offsets
        return lambda: self._replace(offsets, number)

    def write_with(self, offsets: Mapping[PartitionKey, int], replacements: Replacements) -> None:
        """Write together with other files; nothing else may be written afterwards."""
        with self._lock:
            self._newest += 1
            self._on_disk = self._newest
            self._file.write_with(offsets, replacements)

    def write_in(self, background: Background, offsets: Mapping[PartitionKey, int], done: Done) -> None:
        """Write in the background, unless the file already says so."""
        if offsets == self.written:
            return
        self._newest += 1
        number = self._newest
        self.written = offsets

        def written(error: BaseException | None) -> None:
            if error is not None:
                self.written = None
            done(error)

        background(lambda: self._replace(offsets, number), written)

    def _replace(self, offsets: Mapping[PartitionKey, int], number: int) -> None:
        with self._lock:
            if number > self._on_disk:
                self._file.write(offsets)
                self._on_disk = number


class Remover:
    """Removes files and directories some time after they were marked as deleted; readers may still be at them.

    The directories of a topic with ten thousand partitions are due in the same moment: they go in parts, one a step.
    """

    __slots__ = ("_background", "_clock", "_directories", "_done_in", "_scheduler")

    def __init__(
        self, clock: Clock, scheduler: Scheduler, background: Background, done_in: Callable[[str], Done]
    ) -> None:
        """`done_in` gives, for the path of a partition's directory, whom to tell."""
        self._clock = clock
        self._scheduler = scheduler
        self._background = background
        self._done_in = done_in
        self._directories: deque[tuple[int, str, Log | None]] = deque()
        """When each is due, its path and its log. A timer is set for the first."""

    def files(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove the files of one partition in `delay_ms`."""
        done = self._done_in(paths[0].rpartition("/")[0])
        self._scheduler.schedule("delete-files", lambda: self._background(lambda: unlink_all(paths), done), delay_ms)

    def directory(self, path: str, delay_ms: int, log: Log | None = None) -> None:
        """Remove the directory of a partition in `delay_ms`, and let go of the files of its log then."""
        self._directories.append((self._clock.monotonic_ms() + delay_ms, path, log))
        if len(self._directories) == 1:
            self._scheduler.schedule("delete-logs", self._remove_due, delay_ms)

    def _remove_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        waiting = self._directories
        due: dict[str, list[str]] = {}
        for _ in range(min(len(waiting), DIRECTORIES_AT_ONCE)):
            if waiting[0][0] > now_ms:
                break
            _, path, log = waiting.popleft()
            if log is not None:
                log.release()
            due.setdefault(path.rpartition("/")[0], []).append(path)
        for paths in due.values():
            self._background(partial(_remove_trees, paths), self._done_in(paths[0]))
        if waiting:
            self._scheduler.schedule("delete-logs", self._remove_due, max(waiting[0][0] - now_ms, _PAUSE_MS))


def _remove_trees(paths: Sequence[str]) -> None:
    """Remove all that can be removed, then raise what went wrong first."""
    from shutil import rmtree  # ten milliseconds of imports that a start-up does not need

    failure: OSError | None = None
    for path in paths:
        try:
            rmtree(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure
