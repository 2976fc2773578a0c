"""Log directories written by hand: batches of any kind, with the indexes and checkpoints that a test asks for."""

from collections.abc import Iterable
from pathlib import Path
from struct import pack
from typing import Any

from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.spark.source.columns import full_schema
from tidelog.spark.source.files import SegmentFileReader
from tidelog.spark.source.files_options import read_file_options
from tidelog.spark.source.files_plan import plan

START_MS = 1_700_000_000_000


def batch(base_offset: int, count: int, **options: Any) -> bytes:
    """A batch whose records say where they are; each is a second later than the one before."""
    records = [
        Record(offset, START_MS + 1000 * offset, b"k%d" % (offset % 3), b"value-%d" % offset)
        for offset in range(base_offset, base_offset + count)
    ]
    return build_batch(records, base_offset=base_offset, **options)


def transactional(base_offset: int, count: int, producer_id: int) -> bytes:
    return batch(base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return build_end_transaction_marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=offset,
        timestamp=START_MS,
        coordinator_epoch=0,
    )


def write_segment(directory: Path, base_offset: int, batches: Iterable[bytes], *, index: bool = False) -> Path:
    """A `.log` file, with an offset index that names every batch but the first if asked for."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    entries, data = b"", b""
    for each in batches:
        if data and index:
            first = int.from_bytes(each[:8], "big")
            entries += pack(">ii", first - base_offset, len(data))
        data += each
    path.write_bytes(data)
    if index:
        # A broker reserves room in the index of the segment it writes.
        path.with_suffix(".index").write_bytes(entries + bytes(64))
    return path


def read_rows(path: object, schema: Any = None, **options: Any) -> list[tuple[Any, ...]]:
    """Everything that the reader gives, as tuples; the splits one after another."""
    given = {"path": str(path), **{name.lower().replace("__", "."): str(value) for name, value in options.items()}}
    reader = SegmentFileReader(schema or full_schema(given), given)
    return [
        tuple(row.values()) for split in reader.partitions() for each in reader.read(split) for row in each.to_pylist()
    ]


def read_offsets(path: object, **options: Any) -> list[int]:
    """The offsets alone."""
    return [row[4] for row in read_rows(path, **options)]


def splits_of(path: object, **options: Any):
    """What the driver plans."""
    given = {"path": str(path), **{name.lower(): str(value) for name, value in options.items()}}
    return plan(read_file_options(given))
