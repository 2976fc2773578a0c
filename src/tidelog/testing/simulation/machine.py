"""The operating system as simulated processes see it: chance, the time of day, and disks that lose what was not synced.

Brokers keep real files, each in a directory of its own. While a simulation runs, the few calls of `os` and `time` that
matter go through here: random bytes come from the seed, the time of day from the process's own clock, and writes and
syncs pass the disk of the process that makes them. A sync notes how long the file is. When a host loses power, whatever
a file of a log has beyond that is kept, cut anywhere, or has zeros or garbage in it, as the seed decides: what a page
cache may have done.

Calls from outside of any simulated process are left alone.
"""

from __future__ import annotations

import errno
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidelog.testing.simulation.world import World

_EPOCH_MS: Final = 1_700_000_000_000
"""When every simulation begins."""


_INDEXES: Final = (".index", ".timeindex")
_LARGEST_ENTRY: Final = 24
"""A multiple of the sizes of all entries."""
_WRITTEN_IN_PLACE: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class SimulatedClock:
    """The clock of one host. Its time of day may be wrong; its monotonic time is the world's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew_ms = 0

    def wall_ms(self) -> int:
        return _EPOCH_MS + int(self._world.now * 1000) + self.skew_ms

    def monotonic_ms(self) -> int:
        return int(self._world.now * 1000)


class Disk:
    """The files of one host, in one directory of the real machine."""

    def __init__(self, world: World, directory: str) -> None:
        self.directory = directory
        self.is_full = False
        self.is_failing = False
        self.slow_seconds = 0.0
        """How long a write or a sync may take."""
        self.stall: Callable[[float], None] | None = None
        """Stops the process that writes for some seconds."""
        self.lost_bytes = 0
        """What power failures have taken so far."""
        self._world = world
        self._synced: dict[int, int] = {}

    @property
    def is_troubled(self) -> bool:
        return self.is_full or self.is_failing

    def check_write(self) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, "the simulated disk fails")
        if self.is_full:
            raise OSError(errno.ENOSPC, "the simulated disk is full")
        self._take_time()

    def sync(self, fd: int) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, "the simulated disk fails")
        self._take_time()
        stat = os.fstat(fd)
        self._synced[stat.st_ino] = stat.st_size

    def unsynced_bytes(self, path: str) -> int:
        """How much of a file a power failure may take."""
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return 0
        return max(stat.st_size - self._synced.get(stat.st_ino, 0), 0)

    def _take_time(self) -> None:
        if self.slow_seconds and self.stall is not None:
            self.stall(self._world.between(0, self.slow_seconds))

    def lose_power(self) -> None:
        """Forget some of what was written and not synced."""
        for path in sorted(_files_below(self.directory)):
            if not path.endswith(_WRITTEN_IN_PLACE):
                continue  # everything else is synced before it takes the place of what was there
            stat = os.stat(path)
            synced = min(self._synced.get(stat.st_ino, 0), stat.st_size)
            unsynced = stat.st_size - synced
            if unsynced:
                self._lose(path, synced, unsynced)

    def damage_indexes(self, chance: random.Random) -> None:
        """Remove some indexes, cut others off within an entry, or leave their ends untrimmed or out of range."""
        for path in sorted(_files_below(self.directory)):
            size = os.stat(path).st_size
            if path.endswith(_INDEXES) and chance.random() < 0.4:
                fate = chance.choice(("gone", "cut", "untrimmed", "out of range"))
                if size < 2 or fate == "gone":
                    os.unlink(path)
                elif fate == "cut":
                    os.truncate(path, chance.randrange(size // 2) * 2 + 1)
                else:
                    with open(path, "ab") as file:
                        file.write((b"\0" if fate == "untrimmed" else b"\x7f") * _LARGEST_ENTRY)

    def _lose(self, path: str, synced: int, unsynced: int) -> None:
        """What becomes of a file's last bytes: kept, gone, cut, or some of them never written or something else."""
        chance = self._world.random
        fate = chance.choice(("kept", "gone", "cut", "zeros", "a hole", "garbage"))
        if fate == "kept":
            return
        start = synced + (0 if fate == "gone" else chance.randrange(unsynced))
        size = synced + unsynced
        self.lost_bytes += size - start
        if fate in ("gone", "cut"):
            os.truncate(path, start)
            return
        stop = size if fate == "zeros" else chance.randrange(start, size) + 1
        with open(path, "r+b") as file:
            file.seek(start)
            file.write(chance.randbytes(stop - start) if fate == "garbage" else bytes(stop - start))


class Machine:
    """Which disk and which clock belong to the process that runs now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._disks: dict[str, Disk] = {}
        self._clocks: dict[str, SimulatedClock] = {}

    def add(self, name: str, disk: Disk | None, clock: SimulatedClock) -> None:
        """A process of this name has this disk and this clock."""
        if disk is not None:
            self._disks[name] = disk
        self._clocks[name] = clock

    def _disk(self) -> Disk | None:
        return self._disks.get(self._world.running)

    # --- the calls ---

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Let the calls of simulated processes pass through here."""
        world = self._world
        real_pwrite, real_pwritev, real_fsync = os.pwrite, os.pwritev, os.fsync
        real_urandom, real_time_ns = os.urandom, time.time_ns

        def pwrite(fd: int, data: Any, offset: int) -> int:
            disk = self._disk()
            if disk is not None:
                disk.check_write()
            return real_pwrite(fd, data, offset)

        def pwritev(fd: int, buffers: Sequence[Any], offset: int, *flags: int) -> int:
            disk = self._disk()
            if disk is not None:
                disk.check_write()
            return real_pwritev(fd, buffers, offset, *flags)

        def fsync(fd: Any) -> None:
            disk = self._disk()
            if disk is None:
                real_fsync(fd)
            else:
                disk.sync(fd if isinstance(fd, int) else fd.fileno())

        def urandom(size: int) -> bytes:
            return world.random.randbytes(size) if world.running else real_urandom(size)

        def time_ns() -> int:
            clock = self._clocks.get(world.running)
            return real_time_ns() if clock is None else clock.wall_ms() * 1_000_000

        replaced: list[tuple[Any, str, Callable[..., Any]]] = [
            (os, "pwrite", pwrite),
            (os, "pwritev", pwritev),
            (os, "fsync", fsync),
            (os, "fdatasync", fsync),
            (os, "urandom", urandom),
            (time, "time_ns", time_ns),
        ]
        # Modules that keep a call under a name of their own.
        replaced += [
            (module, "_sync_data", fsync)
            for name, module in list(sys.modules.items())
            if name.startswith("tidelog.storage") and hasattr(module, "_sync_data")
        ]
        state = random.getstate()
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        random.seed(world.seed)
        for owner, name, call in replaced:
            setattr(owner, name, call)
        try:
            yield
        finally:
            for owner, name, call in before:
                setattr(owner, name, call)
            random.setstate(state)


def _files_below(directory: str) -> Iterator[str]:
    for parent, _, names in os.walk(directory):
        for name in names:
            yield os.path.join(parent, name)
