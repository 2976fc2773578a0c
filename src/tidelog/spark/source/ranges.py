"""Offsets split into tasks: one for each partition, or more where `maxRecordsPerPartition` or `minPartitions` say so.

Splits are those of the official connector, to the offset, so that a query moved here runs as many tasks as before.
"""

from collections.abc import Sequence
from typing import NamedTuple


class OffsetRange(NamedTuple):
    """The offsets of one partition from `start` up to, and without, `end`. Not all of them need have a record."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.start


def split_ranges(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """The ranges that have offsets, split. `min_partitions` is aimed at: small ranges are left whole."""
    whole = [each for each in ranges if each.size > 0]
    if max_records_per_partition is not None:
        whole = [part for each in whole for part in _divided(each, -(-each.size // max_records_per_partition))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(each.size for each in whole)
    # The small ones are taken out of the reckoning first; their share is then left to the large ones.
    small = {each for each in whole if _parts(each.size, total, min_partitions) == 1}
    large_total = total - sum(each.size for each in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for each in whole
        for part in _divided(each, 1 if each in small else _parts(each.size, large_total, large_parts))
    ]


def _parts(size: int, total: int, parts: int) -> int:
    """The share of `size` in `parts`, rounded half up, at least one."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _divided(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """`parts` pieces of nearly the same size; the later ones take what does not divide evenly."""
    pieces: list[OffsetRange] = []
    start = whole.start
    for index in range(parts):
        end = start + (whole.end - start) // (parts - index)
        if end > start:
            pieces.append(whole._replace(start=start, end=end))
        start = end
    return pieces
