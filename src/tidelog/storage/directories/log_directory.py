"""One of the directories in `log.dirs`: its lock, its clean-shutdown marker, its checkpoints, its partitions' names.

`LogManager` owns one `LogDirectory` for each, and only it writes to their files. Errors are an OSError (the directory
is failing and goes offline) or one of these:

    StorageError
      ├── DirectoryLockedError     another broker uses the directory
      └── DirectoryNameError       it has a subdirectory that is not a partition's
"""

import fcntl
import os
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

from tidelog.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    OffsetCheckpointFile,
)
from tidelog.storage.errors import StorageError
from tidelog.storage.names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX
from tidelog.storage.replacing import sync_path, unlink_if_exists, write_atomically
from tidelog.wire.partitions import PartitionKey

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

# Kafka keeps these beside its partitions; the log manager ignores them.
_FOREIGN_DIRECTORIES: Final = frozenset({"remote-log-index-cache"})
_KRAFT_METADATA_TOPIC: Final = "__cluster_metadata"
_PARTITION_MAX: Final = 2**31 - 1

# A POSIX lock does not keep out its own process, and two brokers may live in one (tests do this). Keyed by device and
# inode of the lock file, so that two spellings of a path are one.
_LOCKED_HERE: Final[set[tuple[int, int]]] = set()


class DirectoryLockedError(StorageError):
    """Another broker holds the lock of a log directory."""


class DirectoryNameError(StorageError):
    """A log directory holds a directory whose name is not a partition's."""


class PartitionState(Enum):
    """The state of a partition's directory, by its suffix."""

    LIVE = ""
    DELETED = DELETE_DIR_SUFFIX
    FUTURE = FUTURE_DIR_SUFFIX
    STRAY = STRAY_DIR_SUFFIX


class PartitionDirectory(NamedTuple):
    """A partition's directory, parsed from its name."""

    name: str
    topic: str
    partition: int
    state: PartitionState

    @property
    def topic_partition(self) -> PartitionKey:
        return self.topic, self.partition


class DirectorySpace(NamedTuple):
    """The file system under a log directory."""

    total_bytes: int
    usable_bytes: int


class LogDirectory:
    """A live log directory. `lock()` before anything else, `unlock()` last."""

    __slots__ = (
        "_lock_descriptor",
        "_lock_key",
        "clean_points",
        "high_watermarks",
        "path",
        "recovery_points",
        "start_offsets",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.recovery_points = OffsetCheckpointFile(path, RECOVERY_POINT_FILE)
        self.start_offsets = OffsetCheckpointFile(path, LOG_START_OFFSET_FILE)
        self.high_watermarks = OffsetCheckpointFile(path, HIGH_WATERMARK_FILE)
        self.clean_points = OffsetCheckpointFile(path, CLEANER_OFFSET_FILE)
        self._lock_descriptor = -1
        self._lock_key = (-1, -1)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    def create(self) -> None:
        """Make sure that the directory exists and can be listed."""
        if not os.path.isdir(self.path):
            os.makedirs(self.path)  # FileExistsError when a file is in the way
            sync_path(os.path.dirname(self.path) or ".")
        with os.scandir(self.path):
            pass

    def lock(self) -> None:
        """Keep other brokers out, Apache Kafka's included: Java's FileLock is a POSIX lock on the same file."""
        path = os.path.join(self.path, LOCK_FILE)
        # Checked before opening: closing any descriptor of the file would drop the lock that this process holds on it.
        if os.path.exists(path) and _file_key(os.stat(path)) in _LOCKED_HERE:
            raise DirectoryLockedError(f"log directory {self.path} is in use by another broker in this process")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DirectoryLockedError(
                f"log directory {self.path} is in use by another broker{f' (process {holder})' if holder else ''}: "
                f"it holds the lock on {path}. Stop that broker, or set other log.dirs for this one"
            ) from error
        self._lock_descriptor, self._lock_key = descriptor, _file_key(os.fstat(descriptor))
        _LOCKED_HERE.add(self._lock_key)
        with suppress(OSError):  # a full disk rejects it, and the number is only for the message above
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def unlock(self) -> None:
        """Release the lock. The file stays: removing it would race with a broker that is opening it."""
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            _LOCKED_HERE.discard(self._lock_key)
            self._lock_descriptor = -1

    def has_clean_shutdown_marker(self) -> bool:
        """Whether the last broker here stopped cleanly."""
        return os.path.exists(os.path.join(self.path, CLEAN_SHUTDOWN_FILE))

    def take_clean_shutdown_marker(self) -> bool:
        """Whether the last broker here stopped cleanly. The marker is removed: from now on a crash is possible."""
        if not unlink_if_exists(os.path.join(self.path, CLEAN_SHUTDOWN_FILE)):
            return False
        sync_path(self.path)
        return True

    def write_clean_shutdown_marker(self, broker_epoch: int = -1) -> None:
        """Record that every log here is flushed and closed. The text is Kafka's."""
        text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        write_atomically(os.path.join(self.path, CLEAN_SHUTDOWN_FILE), text.encode())

    def partitions(self) -> list[PartitionDirectory]:
        """The partition directories, found with one listing. DirectoryNameError for any other directory."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.is_dir() and entry.name not in _FOREIGN_DIRECTORIES:
                    directory = parse_directory_name(entry.name, self.path)
                    if directory.topic != _KRAFT_METADATA_TOPIC:
                        found.append(directory)
        return found

    def sync_file_system(self) -> bool:
        """Sync the whole file system of the directory; False where the platform cannot do that.

        It uses the lock's descriptor, which was opened first, so that it reports every write error since then.
        """
        import ctypes  # only a shutdown with many logs comes here

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None or self._lock_descriptor < 0:
            return False
        if syncfs(self._lock_descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.path)
        return True

    def space(self) -> DirectorySpace:
        """Size and room of the file system, for DescribeLogDirs."""
        status = os.statvfs(self.path)
        return DirectorySpace(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)


def parse_directory_name(name: str, parent: str = "") -> PartitionDirectory:
    """Parse a directory name: `topic-partition`, possibly followed by `.<unique>-delete`, `-future` or `-stray`."""
    state = PartitionState.LIVE
    stem = name
    for candidate in (PartitionState.DELETED, PartitionState.FUTURE, PartitionState.STRAY):
        if name.endswith(candidate.value):
            state = candidate
            stem, dot, unique = name.removesuffix(candidate.value).rpartition(".")
            if not dot or not unique:
                raise _bad_name(name, parent)
    topic, _, number = stem.rpartition("-")
    if not topic or not (number.isascii() and number.isdigit()) or len(number) > 10 or int(number) > _PARTITION_MAX:
        raise _bad_name(name, parent)
    return PartitionDirectory(name, topic, int(number), state)


def _file_key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _bad_name(name: str, parent: str) -> DirectoryNameError:
    return DirectoryNameError(
        f"{name!r} in log directory {parent} is not in the form topic-partition, or topic-partition.unique-delete when "
        "marked for deletion. log.dirs may have partitions only: move this directory elsewhere"
    )
