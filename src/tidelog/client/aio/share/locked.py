"""What one fetch locked of one partition: the record batches, and the ranges of offsets that are ours.

The batches may have records before, between and behind these ranges, which others have or which are done; they are
passed over. An offset of ours without a record, because compaction has removed it, is acknowledged as a gap.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding, deserialize
from tidelog.client.aio.consumer.errors import CorruptRecords, DeserializationFailed
from tidelog.client.aio.share.types import GAP, RELEASED, Ack, Origin, ShareRecord
from tidelog.wire.primitives import Buffer

_ADVICE: Final = "it is released, unless acknowledge_offset() rejects it"


class LockedRange(NamedTuple):
    """Neighbouring offsets that were locked."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Taken(NamedTuple):
    """Records for the application, what this client acknowledges by itself, and why the records end here, if so."""

    records: list[ShareRecord[Any, Any]]
    acks: dict[int, Ack]
    error: Exception | None = None


class LockedRecords:
    """The records of one partition in one ShareFetch response, until all have been taken."""

    __slots__ = ("_decoding", "_end_offset", "_fetch", "_ranges", "locked_until_ms", "origin")

    def __init__(
        self, origin: Origin, data: Buffer, locked: Iterable[LockedRange], locked_until_ms: int, decoding: Decoding
    ) -> None:
        self.origin = origin
        self.locked_until_ms = locked_until_ms
        self._ranges = deque(sorted(locked))
        self._decoding = decoding
        self._fetch = CompletedFetch(
            origin.where, self._ranges[0].first_offset, data, Decoding(check_crcs=decoding.check_crcs)
        )
        self._end_offset = self._fetch.end_offset

    @property
    def is_done(self) -> bool:
        """Whether every offset of ours was taken."""
        return not self._ranges

    def all_offsets(self) -> Iterable[int]:
        """The offsets of ours that were not taken."""
        for first, last, _ in self._ranges:
            yield from range(first, last + 1)

    def take(self, limit: int) -> Taken:
        """Up to `limit` records. A record that cannot be deserialized is left out, released, and ends this part."""
        taken = Taken([], {})
        while self._ranges and len(taken.records) < limit:
            try:
                rows = [] if self._fetch.is_done else self._fetch.take(limit - len(taken.records))
            except CorruptRecords as error:
                return self._release_rest(taken)._replace(error=error)
            if not rows:
                return self._release_rest(taken)
            for index, row in enumerate(rows):
                count = self._count_of(row.offset, taken.acks)
                if not count:
                    continue
                try:
                    made = row if self._decoding.is_plain else deserialize(row, self._decoding, _ADVICE)
                except DeserializationFailed as error:
                    self._fetch.put_back(rows[index + 1 :])
                    return taken._replace(error=error)
                taken.records.append(ShareRecord(*made, count))
        return taken

    def _count_of(self, offset: int, acks: dict[int, Ack]) -> int:
        """How often the record at `offset` was delivered; 0 if it is not ours. What lies before it are gaps."""
        while self._ranges and self._ranges[0].last_offset < offset:
            first, last, _ = self._ranges.popleft()
            acks.update(dict.fromkeys(range(first, last + 1), GAP))
        if not self._ranges or offset < self._ranges[0].first_offset:
            return 0
        first, last, count = self._ranges[0]
        acks.update(dict.fromkeys(range(first, offset), GAP))
        if offset == last:
            self._ranges.popleft()
        else:
            self._ranges[0] = LockedRange(offset + 1, last, count)
        return count

    def _release_rest(self, taken: Taken) -> Taken:
        """No more records can be read: what should have one is released, the rest are gaps."""
        for offset in self.all_offsets():
            has_been_read = self._fetch.is_done and offset < self._end_offset
            taken.acks[offset] = GAP if has_been_read else RELEASED
        self._ranges.clear()
        return taken
