"""Producer state beside a model that remembers everything, and the snapshot format against hostile bytes."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.storage.logs import NOW_MS, batch
from tidelog.records.header import BatchHeader, read_header
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.producers.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

int16 = st.integers(min_value=-1, max_value=2**15 - 1)
int32 = st.integers(min_value=-1, max_value=2**31 - 1)
int64 = st.integers(min_value=-1, max_value=2**63 - 1)
entries = st.builds(SnapshotEntry, int64, int16, int32, int64, int32, int64, int32, int64)

batches = st.tuples(
    st.integers(min_value=0, max_value=1),  # producer
    st.integers(min_value=0, max_value=2),  # epoch
    st.integers(min_value=0, max_value=9),  # sequence
    st.integers(min_value=1, max_value=3),  # records
)


class Model:
    """Every accepted batch of every producer, in a list."""

    def __init__(self) -> None:
        self.accepted: dict[int, list[tuple[int, int, int, int]]] = {}

    def judge(self, producer: int, epoch: int, sequence: int, count: int) -> ErrorCode | int | None:
        """An error, the first offset of the batch that this one repeats, or None: it is to be appended."""
        history = self.accepted.get(producer, [])
        if not history:
            return None
        current = history[-1][0]
        same_epoch = [entry for entry in history if entry[0] == current]
        for entry_epoch, first, records, offset in same_epoch[-5:]:
            if (entry_epoch, first, records) == (epoch, sequence, count):
                return offset
        if epoch < current:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = 0 if epoch > current else same_epoch[-1][1] + same_epoch[-1][2]
        return None if sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def header_of(producer: int, epoch: int, sequence: int, count: int) -> BatchHeader:
    values = [b""] * count
    return read_header(batch(*values, producer_id=producer, producer_epoch=epoch, sequence=sequence))


def verdict(state: ProducerStateManager, header: BatchHeader) -> ErrorCode | int | None:
    try:
        duplicate = state.check(header, AppendOrigin.CLIENT)
    except ApiError as error:
        return error.code
    return None if duplicate is None else duplicate.first_offset


@settings(deadline=None, max_examples=examples(80))
@given(st.lists(batches, max_size=40))
def test_every_batch_is_judged_as_by_one_who_remembers_all(written: list[tuple[int, int, int, int]]) -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as directory:
        state = ProducerStateManager("t-0", directory)
        offset = 0
        for producer, epoch, sequence, count in written:
            header = header_of(producer, epoch, sequence, count)
            expected = model.judge(producer, epoch, sequence, count)
            assert verdict(state, header) == expected
            if expected is None:
                state.update(header, offset)
                model.accepted.setdefault(producer, []).append((epoch, sequence, count, offset))
                offset += count


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(batches, max_size=30), st.integers(min_value=0, max_value=29))
def test_a_snapshot_carries_all_but_the_older_duplicates(written: list[tuple[int, int, int, int]], at: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        state = ProducerStateManager("t-0", directory)
        offset = 0
        for number, item in enumerate(written):
            header = header_of(*item)
            if verdict(state, header) is None:
                state.update(header, offset)
                offset += item[3]
                state.map_end_offset = offset
            if number == at:
                state.take_snapshot(sync=False)
                again = ProducerStateManager("t-0", directory)
                again.truncate_and_reload(0, offset, NOW_MS)
                assert again.producers.keys() == state.producers.keys()
                for key, entry in again.producers.items():
                    assert entry.snapshot() == state.producers[key].snapshot()
                    assert entry.batches == state.producers[key].batches[-1:]
                state = again


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(entries, max_size=5))
def test_snapshots_round_trip(saved: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(saved), "x") == saved


@settings(deadline=None, max_examples=examples(100))
@given(st.one_of(st.binary(max_size=120), st.lists(entries, max_size=2).map(encode_snapshot)), st.data())
def test_any_bytes_are_a_snapshot_or_refused(data: bytes, draw: st.DataObject) -> None:
    if data and draw.draw(st.booleans()):
        position = draw.draw(st.integers(min_value=0, max_value=len(data) - 1))
        data = data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]
    try:
        decoded = decode_snapshot(data, "x")
    except CorruptSnapshotError:
        return
    assert encode_snapshot(decoded) == data
