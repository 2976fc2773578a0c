"""A partition as a broker keeps it, in the fewest words: what it stores, and what it remembers of producers.

The rules are Kafka's: a batch is taken if its sequence follows the last one of its epoch, if it begins a newer epoch at
0, or if the broker knows nothing of the producer; one of the last five batches is a duplicate and is answered with the
offset it has; an older epoch is fenced.
"""

from dataclasses import dataclass, field

from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.wire.errors import ErrorCode

REMEMBERED_BATCHES = 5


@dataclass
class Remembered:
    """What a partition knows of one producer."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First sequence, last sequence, base offset; the latest last."""


@dataclass
class LogModel:
    """One partition."""

    values: list[bytes] = field(default_factory=list)
    producers: dict[int, Remembered] = field(default_factory=dict)

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Take a batch, or say why not; the code and the base offset."""
        header = read_header(data)
        count = header.record_count
        first, last = header.base_sequence, (header.base_sequence + count - 1) & 0x7FFFFFFF
        known = self.producers.get(header.producer_id)
        if header.producer_id >= 0 and known is not None:
            if header.producer_epoch < known.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if header.producer_epoch == known.epoch:
                for old_first, old_last, offset in known.batches:
                    if (old_first, old_last) == (first, last):
                        return ErrorCode.NONE, offset
                if first != (known.batches[-1][1] + 1) & 0x7FFFFFFF:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif first != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.values)
        self.values += [record.value or b"" for record in iterate_records(data)]
        if known is None or known.epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = Remembered(header.producer_epoch)
        known.batches = [*known.batches, (first, last, offset)][-REMEMBERED_BATCHES:]
        return ErrorCode.NONE, offset
