"""Fetches of many partitions: read in steps, and looked at one partition at a time while they wait.

`DelayedFetch` looks at all its partitions whenever one of them changes, which takes a microsecond and a half for each:
a client that waits for ten thousand partitions would hold the loop for 15 ms at every append of others. A `WideFetch`
keeps count instead, and what a change costs does not depend on how many partitions there are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

from tidelog.replication.fetch import DelayedFetch, FetchParameters, PartitionSource, Wanted, read_partitions
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError
from tidelog.wire.fetch import PartitionReply
from tidelog.wire.partitions import PartitionKey

PARTITIONS_AT_ONCE: Final = 500
"""Partitions that are read in one step, a millisecond or two. A fetch of more is wide."""


class WideFetch(DelayedFetch):
    """One such fetch. `WideFetches` notifies it of changes from before its first partition is read."""

    __slots__ = ("_by_key", "_bytes_by_key", "_bytes_found", "_on_complete", "must_answer")

    def __init__(
        self,
        source: PartitionSource,
        parameters: FetchParameters,
        wanted: Sequence[Wanted],
        on_complete: Callable[[], None],
        fail: Callable[[Exception], None],
        deadline_ms: int,
    ) -> None:
        """`on_complete` is called when the fetch has waited long enough; it reads again."""
        super().__init__(source, parameters, wanted, _respond_nothing, fail, deadline_ms)
        self._on_complete = on_complete
        self._by_key: dict[PartitionKey, Wanted] = {}
        self._bytes_by_key: dict[PartitionKey, int] = {}
        self._bytes_found = 0
        self.must_answer = False
        """There is enough to read by now, or waiting cannot bring more or brings an error."""

    def reading(self, *, has_waited: bool = False) -> Generator[None, None, tuple[list[PartitionReply], bool]]:
        """Read what is wanted, some partitions a step: the replies in order, and whether they need not wait for more.

        A partition that changes after it was read here, and before the fetch waits, sets `must_answer`.
        """
        replies: list[PartitionReply] = []
        bytes_read = 0
        is_enough = self._parameters.max_wait_ms <= 0
        for start in range(0, len(self._wanted), PARTITIONS_AT_ONCE):
            if start:
                yield
            part = self._wanted[start : start + PARTITIONS_AT_ONCE]
            some, size, has_error = read_partitions(
                self._source, self._parameters, part, has_waited=has_waited, bytes_before=bytes_read
            )
            replies += some
            bytes_read += size
            is_enough |= has_error
            if not has_waited:
                self._note(part, some)
        return replies, is_enough or bytes_read >= self._parameters.min_bytes

    def _note(self, part: Sequence[Wanted], replies: Sequence[PartitionReply]) -> None:
        """From now on changes of these partitions count."""
        for entry, reply in zip(part, replies, strict=True):
            if entry.topic is None:
                continue
            key = entry.topic, entry.fetch.partition_index
            self._by_key[key] = entry
            records = reply.records
            if records is not None:
                size = len(records) if isinstance(records, bytes) else records.length
                self._bytes_by_key[key] = size
                self._bytes_found += size

    def _is_enough(self) -> bool:
        return self._bytes_found >= max(self._parameters.min_bytes, 1)

    def changed(self, key: PartitionKey) -> None:
        """A partition changed, which may be one of these."""
        entry = self._by_key.get(key)
        if entry is None:
            return
        try:
            available = self._available(entry)
        except (ApiError, LogDirFailure):
            available = None
        if available is None:
            self.must_answer = True
        else:
            self._bytes_found += available - self._bytes_by_key.get(key, 0)
            self._bytes_by_key[key] = available
            self.must_answer |= self._is_enough()
        if self._purgatory is not None:
            self.try_complete()

    def try_complete(self) -> bool:
        return self.must_answer and self.force_complete()

    def on_complete(self) -> None:
        self._on_complete()

    def let_go(self) -> None:
        """Drop the functions that were handed in, which refer to this fetch: it is over."""
        self._on_complete = _do_nothing
        self._fail = _ignore


class WideFetches:
    """The wide fetches under way; there are few."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: set[WideFetch] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def add(self, fetch: WideFetch) -> None:
        self._under_way.add(fetch)

    def discard(self, fetch: WideFetch) -> None:
        self._under_way.discard(fetch)

    def changed(self, key: PartitionKey) -> None:
        """Notify all fetches of a changed partition. A fetch that raises has failed; the others are still notified."""
        for fetch in tuple(self._under_way):
            try:
                fetch.changed(key)
            except Exception as error:  # noqa: BLE001 - one fetch's failure is not the others'
                self.discard(fetch)
                fetch.fail(error)


def _do_nothing() -> None:
    """The fetch is over."""


def _ignore(_error: Exception) -> None:
    """The fetch is over."""


def _respond_nothing(_replies: list[PartitionReply]) -> None:
    """The handler answers, when it has read again."""
