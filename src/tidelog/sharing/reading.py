"""What a share partition needs to know of the record batches that were read for it: their extents, and which to hide.

A batch is hidden if it belongs to an aborted transaction and the group reads committed records only, if it is a control
batch, or if it holds no records. Nothing is decoded but headers, and the end markers of transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import CONTROL_BIT, TRANSACTIONAL_BIT
from tidelog.sharing.partition import Acquired, ReadBatch


class ReadRecords(NamedTuple):
    """Batches, and where each begins in the bytes; `ends` has where the last one ends, too."""

    batches: list[ReadBatch]
    starts: list[int]

    def part_of(self, acquired: Sequence[Acquired]) -> tuple[int, int]:
        """The bytes of all batches from the first acquired record to the last one."""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        begin = end = 0
        for index, batch in enumerate(self.batches):
            if batch.last_offset < first:
                begin = self.starts[index + 1]
            if batch.first_offset <= last:
                end = self.starts[index + 1]
        return begin, end


def read_batches(data: bytes, fetch_offset: int, aborted_transactions: Sequence[tuple[int, int]] | None) -> ReadRecords:
    """The batches in `data` from `fetch_offset` on.

    `aborted_transactions` has producer id and first offset of those in the range, in order of their first offsets; None
    for a group that reads uncommitted records as well.
    """
    batches: list[ReadBatch] = []
    starts = [0]
    aborted = sorted(aborted_transactions or (), key=lambda entry: entry[1])
    aborting: set[int] = set()
    position = 0
    for position, header in iterate_batches(data):
        first, last = header.base_offset, header.last_offset
        while aborted and aborted[0][1] <= last:
            aborting.add(aborted.pop(0)[0])
        is_delivered = header.record_count > 0
        if header.attributes & CONTROL_BIT:
            is_delivered = False
            if header.producer_id in aborting and _is_abort(data, position):
                aborting.discard(header.producer_id)
        elif header.attributes & TRANSACTIONAL_BIT and header.producer_id in aborting:
            is_delivered = False
        starts.append(position + header.size_bytes)
        batches.append(ReadBatch(max(first, fetch_offset), last, is_delivered))
    return ReadRecords(batches, starts)


def _is_abort(data: bytes, position: int) -> bool:
    try:
        return any(not parse_end_transaction_marker(record).is_commit for record in iterate_records(data, position))
    except CorruptRecordError:
        return False  # a control batch of another kind
