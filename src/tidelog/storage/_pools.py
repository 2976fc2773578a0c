"""Limits the number of open files: bounded pools with second-chance eviction.

A process has few descriptors (often 20,000, sockets included) and a broker may have many more log and index files. Each
open file or mapping is a member of a pool; when a pool is full, a member that has not been used since the last sweep is
closed and reopened at its next use. The two pools are process-wide because the descriptor limit is: `DESCRIPTORS` for
log files, `MAPPINGS` for memory-mapped indexes.

Running out of descriptors raises `OutOfDescriptorsError` and never OSError, which means a failed disk.
"""

import errno
import mmap
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol, TypeVar

from tidelog.storage.errors import OutOfDescriptorsError

T = TypeVar("T")

OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

_FILE_MODE: Final = 0o644
_PLENTY: Final = 1 << 18
"""Assumed number of descriptors of a process without a limit."""


class Member(Protocol):
    """An object with a descriptor that can be closed and reopened."""

    recently_used: bool

    def release(self) -> None:
        """Close the descriptor and leave the pool; the next use opens it again."""


class Pool:
    """Open members, oldest first. A use marks the member; eviction skips marked ones once."""

    __slots__ = ("_members", "fewest", "share")

    def __init__(self, share: float, fewest: int) -> None:
        self.share = share
        self.fewest = fewest
        self._members: OrderedDict[Member, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members)

    def limit(self) -> int:
        """The most members that stay open, from the process's current limit of descriptors."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = _PLENTY
        return max(self.fewest, int(descriptors * self.share))

    def admit(self, member: Member) -> None:
        """Add `member`, which has just been opened, and close others if there are too many."""
        members = self._members
        members[member] = None
        # The limit is read only now and then: a system call for each opened file would cost too much.
        if len(members) >= self.fewest and len(members) > self.limit():
            self._evict(len(members) - self.limit())

    def make_room(self) -> None:
        """Close a quarter of the members, the oldest, used or not."""
        for member in list(islice(self._members, len(self._members) // 4 + 1)):
            member.release()

    def discard(self, member: Member) -> None:
        """Forget a member that has been closed."""
        self._members.pop(member, None)

    def _evict(self, excess: int) -> None:
        members = self._members
        newest = next(reversed(members))
        for _ in range(2 * len(members)):
            if excess <= 0:
                return
            member = next(iter(members))
            if member.recently_used or member is newest:
                member.recently_used = False
                members.move_to_end(member)
            else:
                member.release()
                excess -= 1


def open_descriptor(path: str, flags: int) -> int:
    """`os.open` that makes room and tries once more when no descriptor is left, then raises OutOfDescriptorsError."""
    return _with_room(path, lambda: os.open(path, flags | os.O_CLOEXEC, _FILE_MODE))


def map_descriptor(path: str, fd: int, length: int) -> mmap.mmap:
    """Map a file that is open; `mmap` keeps a duplicate of the descriptor."""
    return _with_room(path, lambda: mmap.mmap(fd, length))


def read_whole(path: str) -> bytes:
    """Everything in a file."""
    with open(open_descriptor(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _with_room(path: str, take: Callable[[], T]) -> T:
    try:
        return take()
    except OSError as error:
        if error.errno not in OUT_OF_DESCRIPTORS:
            raise
    MAPPINGS.make_room()
    DESCRIPTORS.make_room()
    try:
        return take()
    except OSError as error:
        if error.errno not in OUT_OF_DESCRIPTORS:
            raise
        raise OutOfDescriptorsError(path) from error


DESCRIPTORS: Final = Pool(share=0.55, fewest=128)
MAPPINGS: Final = Pool(share=0.1, fewest=32)
