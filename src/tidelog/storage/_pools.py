"""How many files the room keeps open: bounded pools with second-chance eviction.

A process has few descriptors (often 20,000, sockets included) and a broker may hold many more log and index files than
that. Each open file or mapping is a member of a pool; when a pool is full, a member that has not been used since the
last sweep gives its descriptor up and takes a new one at its next use. The two pools are process-wide because the limit
they obey is: `DESCRIPTORS` for log files, `MAPPINGS` for memory-mapped indexes.
"""

import errno
import os
import resource
from collections import OrderedDict
from itertools import islice
from typing import Final, Protocol

_FILE_MODE: Final = 0o644
_PLENTY: Final = 1 << 18
"""What a process without a limit is taken to have."""


class Member(Protocol):
    """Something that holds a descriptor it can do without."""

    recently_used: bool

    def release(self) -> None:
        """Give the descriptor up, and the place in the pool; the next use takes new ones."""


class Pool:
    """Open members, oldest first. A use marks the member; eviction passes over marked ones once."""

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
        """Count `member`, which has just been opened, and close others where there are too many."""
        members = self._members
        members[member] = None
        # The limit is asked for only now and then: a system call for each opened file would be felt.
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
    """`os.open` that makes room and tries once more when the process, or the system, has no descriptor left.

    Sockets take descriptors, too, and nobody knows how many: running out of them must not look like a failed disk.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    MAPPINGS.make_room()
    DESCRIPTORS.make_room()
    return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)


DESCRIPTORS: Final = Pool(share=0.55, fewest=128)
MAPPINGS: Final = Pool(share=0.1, fewest=32)
