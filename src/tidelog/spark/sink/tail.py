"""The end of a log as it is, open transactions and all: which record of a key was committed, by what the markers say.

For what lies beyond the last stable offset. Pure.
"""

from typing import Any

from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.record import Record

StateRecord = Record | ConsumerRecord[Any, Any]


class LogTail:
    """Reads batches from some offset to the end of the log, in order."""

    def __init__(self, key: bytes, committed: StateRecord | None) -> None:
        """`committed` is the last record of `key` that is known to be committed before."""
        self.committed = committed
        self._key = key
        self._open: dict[int, StateRecord] = {}

    @property
    def in_doubt(self) -> list[StateRecord]:
        """Records of the key whose transactions have not ended, in the order of their offsets."""
        return sorted(self._open.values(), key=lambda record: record.offset)

    def read(self, buffer: bytes, position: int) -> int:
        """Take what was fetched from `position` on; the offset to go on from."""
        for start, header in iterate_batches(memoryview(buffer)):
            if header.next_offset <= position:
                continue
            position = header.next_offset
            for record in iterate_records(buffer, start):
                if header.is_control:
                    self._end(header.producer_id, parse_end_transaction_marker(record).is_commit)
                elif record.key == self._key:
                    self._open[header.producer_id] = record
                    if not header.is_transactional:
                        self._end(header.producer_id, is_commit=True)
        return position

    def _end(self, producer_id: int, is_commit: bool) -> None:
        record = self._open.pop(producer_id, None)
        # As for a reader of committed records, and for compaction, the record with the highest offset is the last.
        if record is not None and is_commit and (self.committed is None or self.committed.offset < record.offset):
            self.committed = record
