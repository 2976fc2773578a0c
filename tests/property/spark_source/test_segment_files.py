"""Segment files: however a log is cut into segments, pieces and windows, its records are the same; damage raises."""

import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.records.golden import GOLDEN
from tests.unit.spark.source.segment_files import batch, marker, read_rows, transactional, write_segment
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError
from tidelog.spark.source import files_scan

SETTINGS = settings(deadline=None, max_examples=examples(60))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, bytes]], list[int]]:
    """Batches with their base offsets, and the offsets that a read-committed reader sees."""
    batches: list[tuple[int, bytes]] = []
    held: dict[int, list[int]] = {}
    seen: list[int] = []
    offset = 0
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["plain", "transactional", "marker", "gap"]))
        producer = draw(st.integers(1, 2))
        if kind == "gap":
            offset += draw(st.integers(1, 5))
        elif kind == "marker" and producer in held:
            is_commit = draw(st.booleans())
            batches.append((offset, marker(offset, producer, is_commit=is_commit)))
            ended = held.pop(producer)
            seen += ended if is_commit else []
            offset += 1
        else:
            count = draw(st.integers(1, 8))
            offsets = list(range(offset, offset + count))
            if kind == "transactional":
                batches.append((offset, transactional(offset, count, producer)))
                held.setdefault(producer, []).extend(offsets)
            else:
                batches.append((offset, batch(offset, count, codec=draw(st.sampled_from(Codec)))))
                seen += offsets
            offset += count
    stable = min((first[0] for first in held.values()), default=offset)
    return batches, sorted(each for each in seen if each < stable)


@SETTINGS
@given(log=logs().filter(lambda log: len(log[0]) > 0), data=st.data())
def test_records_do_not_depend_on_how_a_log_is_cut(
    log: tuple[list[tuple[int, bytes]], list[int]], data: st.DataObject
) -> None:
    batches, expected = log
    rolls = data.draw(st.sets(st.integers(1, len(batches)), max_size=3))
    window_bytes = data.draw(st.sampled_from([70, 300, 1 << 20]))
    piece_bytes = data.draw(st.sampled_from([1, 400, 1 << 20]))
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(files_scan, "WINDOW_BYTES", window_bytes):
        bounds = [0, *sorted(each for each in rolls if each < len(batches)), len(batches)]
        for first, last in pairwise(bounds):
            if first < last:
                base = batches[first][0] if first else 0
                write_segment(Path(directory) / "t-0", base, [each for _, each in batches[first:last]], index=True)
        rows = read_rows(directory, maxPartitionBytes=piece_bytes)
    assert [row[4] for row in rows] == expected
    assert [row[1] for row in rows] == [b"value-%d" % offset for offset in expected]


@SETTINGS
@given(
    start=st.sampled_from(
        [b"", batch(0, 3), batch(0, 3, codec=Codec.GZIP), GOLDEN["magic 1 gzip"], GOLDEN["magic 0 none"]]
    ),
    position=st.integers(0, 400),
    damage=st.binary(max_size=120),
    is_last=st.booleans(),
)
def test_whatever_the_bytes_there_are_rows_or_one_error(
    start: bytes, position: int, damage: bytes, is_last: bool
) -> None:
    content = start[:position] + damage + start[position + len(damage) :]
    with tempfile.TemporaryDirectory() as directory:
        write_segment(Path(directory) / "t-0", 0, [content])
        if not is_last:
            write_segment(Path(directory) / "t-0", 1 << 40, [])
        with suppress(CorruptRecordError):
            read_rows(directory, includeHeaders="true")
