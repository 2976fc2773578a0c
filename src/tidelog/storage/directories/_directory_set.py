"""The directories of `log.dirs`: which of them are online, and why the others are not.

A directory is created and locked when it is opened, and goes offline once, until the next start.
"""

import logging
import os
from collections.abc import Callable, Sequence

from tidelog.storage.directories._live_directory import LiveDirectory
from tidelog.storage.directories._types import NoLogDirectoryError
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.errors import StorageError

logger = logging.getLogger(__name__)


class DirectorySet:
    """The log directories of one broker."""

    __slots__ = ("_make_live", "live", "offline")

    def __init__(self, make_live: Callable[[LogDirectory], LiveDirectory]) -> None:
        self._make_live = make_live
        self.live: dict[str, LiveDirectory] = {}
        """Those that are online, by their paths."""
        self.offline: dict[str, str] = {}
        """The paths of the others, with the reasons."""

    def open(self, log_dirs: Sequence[str]) -> None:
        """Create and lock the directories; one that fails goes offline.

        DirectoryLockedError when another broker uses one, NoLogDirectoryError when none is left. Then none is locked.
        """
        paths = [os.path.abspath(path) for path in log_dirs]
        for path in paths:
            if paths.count(path) > 1:
                raise StorageError(f"log.dirs names {path} more than once")
        try:
            for path in paths:
                self._open(LogDirectory(path))
        except StorageError:
            self.unlock()
            raise
        self.check_any_left()

    def _open(self, directory: LogDirectory) -> None:
        try:
            directory.create()
            directory.lock()
        except OSError as error:
            logger.error("log directory %s cannot be used and is offline: %s", directory.path, error)
            self.offline[directory.path] = str(error)
        else:
            self.live[directory.path] = self._make_live(directory)

    def take_offline(self, path: str, cause: object) -> LiveDirectory | None:
        """The directory, which is offline from now on and stays locked; None if it was offline."""
        live = self.live.pop(path, None)
        if live is not None:
            self.offline[path] = str(cause)
        return live

    def check_any_left(self) -> None:
        """Raise NoLogDirectoryError if every directory is offline."""
        if not self.live:
            raise NoLogDirectoryError(f"no directory of log.dirs can be used: {self.reasons()}")

    def reasons(self) -> str:
        """The directories that are offline, and why, for a message."""
        return "; ".join(f"{path}: {why}" for path, why in self.offline.items())

    def unlock(self) -> None:
        """Unlock the directories without closing any log, when start-up fails."""
        for live in self.live.values():
            live.directory.unlock()
        self.live.clear()
