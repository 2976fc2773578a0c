"""Blocking work of the log manager: checkpoint files, and the removal of deleted files.

The manager runs on one thread. It hands blocking work to `Background`, which its owner provides; the result comes back
on the manager's own thread.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Final, Protocol

from tidelog.storage.checkpoints import OffsetCheckpointFile
from tidelog.storage.log import Log
from tidelog.storage.replacing import Replacements, unlink_all
from tidelog.timing import Clock, Scheduler
from tidelog.wire.partitions import PartitionKey

DIRECTORIES_AT_ONCE: Final = 100
"""Deleted logs that are closed in one step, a few microseconds each, and removed by one background job."""
_PAUSE_MS: Final = 2

Done = Callable[[BaseException | None], None]
"""Called when background work ends, with its exception or None."""


class Background(Protocol):
    """Runs work on another thread."""

    def __call__(self, work: Callable[[], object], done: Done, /) -> None:
        """Run `work`, then call `done` on the caller's thread."""


def run_inline(work: Callable[[], object], done: Done) -> None:
    """A `Background` without a thread, for tests and tools."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - handed to `done`, as a thread would
        done(error)
    else:
        done(None)


class CheckpointWriter:
    """One checkpoint file. Writes may overlap; the file ends up with the offsets that were handed over last."""

    __slots__ = ("_file", "_lock", "_newest", "_on_disk", "written")

    def __init__(self, file: OffsetCheckpointFile) -> None:
        self._file = file
        self._lock = Lock()
        self._newest = 0
        self._on_disk = 0
        self.written: Mapping[PartitionKey, int] | None = None
        """The offsets that were handed over last, None if there are none or the write failed."""

    def write(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Write on this thread, whether or not anything has changed."""
        self.writing(offsets)()

    @property
    def is_on_disk(self) -> bool:
        """Whether the offsets that were handed over last have been written."""
        return self.written is not None and self._on_disk == self._newest

    def writing(self, offsets: Mapping[PartitionKey, int]) -> Callable[[], None]:
        """A function that writes these offsets, on any thread, unless newer ones were handed over meanwhile."""
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
        """Write in the background, unless the file already has these offsets."""
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
    """Removes files and directories some time after they were marked as deleted; readers may still use them.

    The directories of a topic with ten thousand partitions are due at the same time: they are removed in parts.
    """

    __slots__ = ("_background", "_clock", "_directories", "_done_in", "_scheduler")

    def __init__(
        self, clock: Clock, scheduler: Scheduler, background: Background, done_in: Callable[[str], Done]
    ) -> None:
        """`done_in` returns the callback for the path of a log directory."""
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
        """Remove the directory of a partition in `delay_ms`, and release the files of its log then."""
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
    """Remove as many trees as possible, then raise the first error."""
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
