"""The compiled kernels do what plain Python does, byte for byte; skipped where NumPy or Numba are not installed."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.storage_cleaner.strategies import Step, histories, pairs
from tests.property.storage_cleaner.test_model import History
from tests.unit.storage.cleaner.support import NOW_MS, make_log, plan, run
from tidelog.records._varint import encode_varint
from tidelog.records.batch import iterate_records, record_data
from tidelog.records.builder import build_batch
from tidelog.records.checksum import crc32c
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import read_header
from tidelog.records.kernels.compaction import (
    Compactor,
    Filtered,
    IndexCursor,
    IndexEntry,
    PlainCompactor,
    Rules,
)
from tidelog.records.record import Record
from tidelog.storage.cleaner.jobs import CleanJob, GroupCleaned, JobDone
from tidelog.storage.cleaner.swap import remove_cleaned
from tidelog.storage.cleaner.worker import kernel_cache_directory

pytest.importorskip("numba")
os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache_directory())

np = pytest.importorskip("numpy")
compiled = pytest.importorskip("tidelog.records.kernels.compaction_compiled")
hashing = pytest.importorskip("tidelog.records.kernels._hashing")
numbers = pytest.importorskip("tidelog.records.kernels._bytes")

RULES = Rules(NOW_MS, 100)


def _compiled(keys_max: int | None = None, memory_bytes: int = 16 << 20) -> Compactor:
    compactor: Compactor = compiled.CompiledCompactor(memory_bytes, 0.9, keys_max, secret=os.urandom(16))
    return compactor


def _plain(keys_max: int | None = None) -> Compactor:
    return PlainCompactor(16 << 20, 0.9, keys_max)


# --- whole cleanings ---


@settings(deadline=None, max_examples=examples(25))
@given(histories, st.one_of(st.none(), st.integers(1, 5)))
def test_both_write_the_same_files(steps: list[Step], keys_max: int | None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(directory)
        for step in steps:
            history.do(step)
        history.log.roll(NOW_MS)
        job = plan(history.log, history.model.now_ms + 120)
        assert _outcome(job, _compiled(keys_max)) == _outcome(job, _plain(keys_max))


def _outcome(job: CleanJob, compactor: Compactor) -> tuple[list[object], dict[str, bytes]]:
    """All events, apart from what differs between any two runs, and all files."""
    events: list[object] = []
    for event in run(job, compactor):
        if isinstance(event, GroupCleaned):
            events.append(event._replace(inode=0))
        elif isinstance(event, JobDone):
            events.append(event._replace(map_utilization=0.0))
    files = {path.name: path.read_bytes() for path in Path(job.directory).glob("*.cleaned")}
    remove_cleaned(job.directory)
    return events, files


def test_a_run_goes_on_over_full_buffers_and_windows(tmp_path: Path) -> None:
    """Output buffer, index entries and scratch rows all overflow in the course of this."""
    log = make_log(tmp_path, index_interval_bytes=0, segment_index_bytes=1 << 20)
    records = [Record(index, NOW_MS + index, b"%d" % (index % 9000), bytes(60)) for index in range(20_000)]
    batches = [build_batch(records[start : start + 4]) for start in range(0, 12_000, 4)]
    batches.append(build_batch([Record(i, NOW_MS, b"%d" % i, b"v") for i in range(20_000)]))
    for batch in batches:
        log.append_as_leader(bytearray(_rebased(batch)), 0, NOW_MS)
    log.write_staged()
    log.update_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
    job = plan(log)
    assert _outcome(job, _compiled()) == _outcome(job, _plain())


def _rebased(batch: bytes) -> bytes:
    return build_batch([record._replace(offset=index) for index, record in enumerate(iterate_records(batch))])


# --- single batches, sound or not ---


@settings(deadline=None, max_examples=examples(200))
@given(
    pairs,
    pairs,
    st.booleans(),
    st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    st.integers(-1, 2),
)
def test_both_select_and_refuse_the_same_records(
    earlier: list[tuple[bytes | None, bytes | None]],
    later: list[tuple[bytes | None, bytes | None]],
    is_log_append_time: bool,
    horizon_ms: int | None,
    damage: list[tuple[int, int]],
    miscount: int,
) -> None:
    first = build_batch([Record(i, NOW_MS, *pair) for i, pair in enumerate(earlier)], delete_horizon_ms=horizon_ms)
    second = build_batch([Record(100 + i, NOW_MS, *pair) for i, pair in enumerate(later)], base_offset=100)
    header = read_header(first)
    attributes = header.attributes | (8 if is_log_append_time else 0)
    header = header._replace(attributes=attributes, record_count=max(header.record_count + min(miscount, 0), 0))
    data = bytearray(record_data(first, 0, read_header(first)))
    for position, byte in damage:
        data[position % len(data)] = byte
    outcomes = []
    for compactor in (_compiled(), _plain()):
        compactor.index_records(record_data(second, 0, read_header(second)), read_header(second), 0)
        compactor.latest_offset = 105
        outcomes.append(_filtered(compactor, bytes(data), header))
    assert outcomes[0] == outcomes[1]


def _filtered(compactor: Compactor, data: bytes, header: Any) -> Filtered | str | None:
    try:
        return compactor.filter_records(data, header, RULES)
    except CorruptRecordError:
        return "corrupt"


@settings(deadline=None, max_examples=examples(200))
@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_are_read_or_refused_by_both(data: bytes, count: int) -> None:
    header = read_header(build_batch([Record(0, 0, b"", b"")]))._replace(record_count=count)
    outcomes = []
    for compactor in (_compiled(), _plain()):
        try:
            compactor.index_records(data, header, 0)
        except CorruptRecordError:
            outcomes.append((-1, False))
        else:
            outcomes.append((compactor.latest_offset, compactor.is_full))
    assert outcomes[0] == outcomes[1]


class _Nowhere:
    def __init__(self) -> None:
        self.cursor = IndexCursor(0, 4096)
        self.data = b""

    def write(self, data: Any, entries: Any) -> None:
        assert all(isinstance(entry, IndexEntry) for entry in entries)
        self.data += bytes(data)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(pairs, min_size=1, max_size=5), st.integers(0, 2**31), st.integers(0, 255))
def test_a_run_stops_before_a_batch_that_is_damaged(
    batches: list[list[tuple[bytes | None, bytes | None]]], position: int, byte: int
) -> None:
    window, starts = bytearray(), []
    for number, batch in enumerate(batches):
        starts.append(len(window))
        window += build_batch(
            [Record(10 * number + i, 0, *pair) for i, pair in enumerate(batch)], base_offset=10 * number
        )
    position %= len(window)
    damaged = max(index for index, start in enumerate(starts) if start <= position)
    before, window[position] = window[position], byte
    compactor, sink = _compiled(), _Nowhere()
    reached = compactor.index_run(window, 0, len(window), 0)
    rewritten = compactor.rewrite_run(window, 0, len(window), RULES, sink)
    # Base offset and leader epoch are not under the checksum: a change there is not damage that can be seen.
    if byte != before and position - starts[damaged] not in (*range(8), *range(12, 16)):
        assert reached == rewritten == starts[damaged]
    assert reached in (*starts, len(window))


# --- the parts ---


@given(st.binary(max_size=300), st.integers(0, 20), st.integers(0, 20))
@settings(deadline=None)
def test_the_checksum_is_that_of_the_extension(data: bytes, start: int, cut: int) -> None:
    end = max(start, len(data) - cut)
    padded = np.frombuffer(bytearray(data.ljust(end + 1, b"\0")), dtype=np.uint8)
    assert hashing.crc32c(padded, start, end) == crc32c(bytes(padded[start:end]))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"),
        (3, "9c70b60c5267a94e5f33b6b02985ed51"),
    ],
)
def test_keys_are_hashed_with_siphash(size: int, expected: str) -> None:
    """The vectors of the reference implementation: key 00…0f, input 00, 01, 02, …"""
    data = np.arange(16, dtype=np.uint8)
    secret = np.frombuffer(bytes(range(16)), dtype="<u8").astype(np.uint64)
    low, high = hashing.siphash(data, 0, size, secret[0], secret[1])
    assert (int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")).hex() == expected


@given(st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None)
def test_varints_are_read_as_they_are_written(value: int) -> None:
    data = np.zeros(16, dtype=np.uint8)
    end = numbers.put_varint(data, 3, value)
    encoded = encode_varint(value)
    assert bytes(data[3:end]) == encoded
    assert numbers.varint_bytes(value) == len(encoded)
    assert numbers.varlong_at(data, 3, 16) == (value, end)
    assert numbers.varlong_at(data, 3, end - 1)[1] == -1


def test_different_keys_have_different_hashes() -> None:
    compactor = _compiled(memory_bytes=24 * 4000)
    records = [Record(i, 0, b"%d" % i, b"v") for i in range(3000)]
    batch = build_batch(records)
    compactor.index_records(record_data(batch, 0, read_header(batch)), read_header(batch), 0)
    assert not compactor.is_full
    assert all(compactor.keeps(record, may_drop_tombstone=False) for record in records)
    assert compactor.utilization() == 0.75


def test_a_small_log_gets_a_small_table() -> None:
    large = compiled.CompiledCompactor(128 << 20, 0.9, secret=bytes(16), records_max=1000)
    assert large._table.nbytes < 64 * 1024
