"""Logs on their way from one log directory to another, and directories that partitions are to be created in.

A partition moves in this order. At every step a crash leaves enough to go on from:

    step                                            a crash after it leaves
    copy the log to `topic-0.<id>-future`           the log, and a copy that is carried on
    sync the copy, with the replacement file        the same
    rename the copy to `topic-0`                    two logs: the one with the replacement file is kept
    rename the old log to `topic-0.<id>-delete`     the copy; or, if the disk forgot the first rename, a copy with the
                                                    replacement file and no log, which then takes the name
    remove the replacement file                     the copy

Nothing here is in the way of an Apache Kafka broker: it ignores the file, and has the same names and steps otherwise.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

from tidelog.storage import names
from tidelog.storage._pools import open_descriptor
from tidelog.storage.log import Log
from tidelog.storage.replacing import sync_path, unlink_if_exists
from tidelog.wire.partitions import PartitionKey

_PREFERRED_MAX: Final = 10_000
"""Partitions that do not exist yet; clients may name any. The oldest is forgotten."""


class FutureLogs:
    """The copies of one broker's partitions, at most one of each, and its preferred directories."""

    __slots__ = ("_logs", "_preferred")

    def __init__(self) -> None:
        self._logs: dict[PartitionKey, Log] = {}
        self._preferred: dict[PartitionKey, str] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def items(self) -> Iterator[tuple[PartitionKey, Log]]:
        """All copies. They may change while they are visited."""
        return iter(list(self._logs.items()))

    def get(self, key: PartitionKey) -> Log | None:
        """The copy of a partition."""
        return self._logs.get(key)

    def add(self, log: Log) -> None:
        """A copy was begun, or found at start-up."""
        self._logs[log.topic, log.partition] = log

    def pop(self, key: PartitionKey) -> Log | None:
        """A copy is complete, or is not wanted any more."""
        return self._logs.pop(key, None)

    def prefer(self, key: PartitionKey, path: str) -> None:
        """Create the log of a partition in this directory, whenever that will be."""
        if len(self._preferred) >= _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = path

    def take_preferred(self, key: PartitionKey) -> str | None:
        """The directory for a partition that is created now, or deleted."""
        return self._preferred.pop(key, None)


def marking_complete(log: Log) -> Callable[[], None]:
    """A function that leaves the replacement file with a copy. It syncs, on any thread; raises OSError."""
    directory = log.directory

    def mark() -> None:
        path = os.path.join(directory, names.REPLACEMENT_FILE)
        descriptor = open_descriptor(path, os.O_CREAT | os.O_WRONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_path(directory)

    return mark


def is_marked_complete(log: Log) -> bool:
    """Whether a log has the replacement file."""
    return os.path.exists(os.path.join(log.directory, names.REPLACEMENT_FILE))


def unmark(log: Log) -> None:
    """Remove the replacement file, if there is one. Raises OSError."""
    unlink_if_exists(os.path.join(log.directory, names.REPLACEMENT_FILE))


def the_replaced(one: Log, other: Log) -> Log | None:
    """Of two logs of one partition, the one that was replaced by the other; None if that is not known."""
    is_one_new, is_other_new = is_marked_complete(one), is_marked_complete(other)
    if is_one_new == is_other_new:
        return None
    return other if is_one_new else one
