"""Files that are replaced as a whole: a reader, or a start after a crash, finds the old content or the new one.

Also what that is made of: writes that do not stop short, and syncs of files and of the directories that name them.
"""

import os
from collections.abc import Sequence

from tidelog.storage._pools import open_descriptor

Buffer = bytes | bytearray | memoryview


def write_all(fd: int, buffer: Buffer, position: int) -> None:
    """Write the whole buffer at `position`, however many calls it takes."""
    written = os.pwrite(fd, buffer, position)
    if written != len(buffer):
        write_rest(fd, buffer, position, written)


def write_rest(fd: int, buffer: Buffer, position: int, written: int) -> None:
    """Go on after a short write: the first `written` bytes of the buffer are at `position`."""
    with memoryview(buffer) as view:
        while written < len(view):
            written += os.pwrite(fd, view[written:], position + written)


def create_file(path: str) -> None:
    """Create an empty file. Raises FileExistsError if it exists."""
    os.close(open_descriptor(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def sync_path(path: str) -> None:
    """`fsync` a file or directory by name, if it exists."""
    try:
        fd = open_descriptor(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: str, data: bytes, *, is_synced: bool = True) -> None:
    """Replace a file so that a crash leaves either the old content or the new: `.tmp`, sync, rename, sync the name.

    Without `is_synced` that holds for the end of the process, and not for that of the machine.
    """
    temporary = path + ".tmp"
    fd = open_descriptor(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        write_all(fd, data, 0)
        if is_synced:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if is_synced:
        sync_path(os.path.dirname(path) or ".")


class Replacements:
    """Files that are replaced together, for the price of one sync for all of them.

    The new contents are written beside the old; the caller syncs the file system, calls `commit` and syncs it again.
    """

    __slots__ = ("_paths", "gone")

    def __init__(self) -> None:
        self._paths: list[str] = []
        self.gone: set[str] = set()
        """Files whose directory was renamed or deleted before `commit`."""

    def add(self, path: str, data: bytes) -> None:
        """Prepare the new content of a file."""
        fd = open_descriptor(path + ".tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        try:
            write_all(fd, data, 0)
        finally:
            os.close(fd)
        self._paths.append(path)

    def commit(self, *, may_be_gone: bool = False) -> None:
        """Replace the old contents with the new ones. With `may_be_gone` files without a directory are left out."""
        for path in self._paths:
            try:
                os.replace(path + ".tmp", path)
            except FileNotFoundError:
                if not may_be_gone:
                    raise
                self.gone.add(path)


def unlink_all(paths: Sequence[str]) -> None:
    """Delete those of the files that exist."""
    for path in paths:
        unlink_if_exists(path)


def unlink_if_exists(path: str) -> bool:
    """Delete a file; whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
