"""Finds the aborted batches of a fetch, which read_committed skips.

The broker names, with the records, the aborted transactions that touch them: producer and first offset. A transaction
lasts until its marker; what the same producer writes after that is another one.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from tidelog.records.header import BatchHeader


class AbortedFilter:
    """Follows the batches of one fetch in order."""

    __slots__ = ("_active", "_coming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` are (producer id, first offset)."""
        self._coming = deque(sorted((first_offset, producer_id) for producer_id, first_offset in aborted))
        self._active: dict[int, int] = {}

    def covers(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        self._begin_up_to(header.last_offset)
        return header.is_transactional and header.producer_id in self._active

    def pass_marker(self, header: BatchHeader) -> None:
        """A marker ends the transaction of its producer."""
        self._begin_up_to(header.last_offset)
        self._active.pop(header.producer_id, None)

    def remaining(self) -> Iterator[tuple[int, int]]:
        """The transactions of batches still to come, as (producer id, first offset)."""
        yield from self._active.items()
        for first_offset, producer_id in self._coming:
            yield producer_id, first_offset

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            first_offset, producer_id = self._coming.popleft()
            self._active[producer_id] = first_offset
