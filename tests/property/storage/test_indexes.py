"""Indexes beside a sorted list."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.storage.leader_epochs import EpochEntry, LeaderEpochCache
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex

BASE = 1000
gaps = st.lists(st.integers(min_value=1, max_value=50), max_size=120)


def ascending(steps: list[int], start: int) -> list[int]:
    found = []
    for step in steps:
        start += step
        found.append(start)
    return found


even_gaps = st.builds(lambda gap, count: [gap] * count, st.integers(1, 60), st.integers(1, 60))
"""As batches of one size leave them."""


@settings(deadline=None, max_examples=examples(60))
@given(gaps | even_gaps, st.lists(st.integers(min_value=BASE - 5, max_value=BASE + 3000), max_size=20), st.data())
def test_offset_lookups_agree_with_a_plain_search(steps: list[int], wanted: list[int], data: st.DataObject) -> None:
    entries = [(offset, slot * 9) for slot, offset in enumerate(ascending(steps, BASE))]
    with tempfile.TemporaryDirectory() as directory:
        index = OffsetIndex(f"{directory}/0.index", BASE, 2000, is_new=True)
        index.create()
        for entry in entries:
            index.append(*entry)
        if data.draw(st.booleans()):
            index.trim()
            index = OffsetIndex(index.path, BASE, 2000, is_new=False)
        cut = data.draw(st.integers(min_value=BASE, max_value=BASE + 6001))
        index.truncate_to(cut)
        entries = [entry for entry in entries if entry[0] < cut]
        assert index.entries() == len(entries)
        for offset in wanted:
            expected = max((entry for entry in entries if entry[0] <= offset), default=(BASE, 0))
            assert index.lookup(offset) == expected
            following = min((position for found, position in entries if found > offset), default=-1)
            assert index.bracket(offset)[2] == (following if offset >= BASE else -1)
        index.release()


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(min_value=0, max_value=300), st.integers(min_value=0, max_value=20)), max_size=60),
    st.lists(st.integers(min_value=-1, max_value=301), max_size=20),
    st.integers(min_value=BASE, max_value=BASE + 1300),
)
def test_time_lookups_agree_with_a_plain_search(added: list[tuple[int, int]], wanted: list[int], cut: int) -> None:
    entries: list[tuple[int, int]] = []
    offset = BASE
    with tempfile.TemporaryDirectory() as directory:
        index = TimeIndex(f"{directory}/0.timeindex", BASE, 2000, is_new=True)
        index.create()
        for timestamp, step in added:
            offset += step
            index.maybe_append(timestamp, offset)
            if not entries or timestamp > entries[-1][0]:
                entries.append((timestamp, offset))
        index.truncate_to(cut)
        entries = [entry for entry in entries if entry[1] < cut]
        for timestamp in wanted:
            expected = max((entry for entry in entries if entry[0] <= timestamp), default=(-1, BASE))
            assert index.lookup(timestamp) == expected
        index.release()


operations = st.one_of(
    st.tuples(st.just("assign"), st.integers(min_value=0, max_value=12), st.integers(min_value=0, max_value=60)),
    st.tuples(st.just("end"), st.integers(min_value=0, max_value=60), st.just(0)),
    st.tuples(st.just("start"), st.integers(min_value=0, max_value=60), st.just(0)),
)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(operations, max_size=25), st.integers(min_value=-1, max_value=13))
def test_leader_epochs_stay_in_order_and_answer_consistently(done: list[tuple[str, int, int]], asked: int) -> None:
    cache = LeaderEpochCache("/nowhere")
    for name, first, second in done:
        if name == "assign":
            cache.assign(first, second)
            assert cache.latest_epoch >= 0
        elif name == "end":
            cache.truncate_from_end(first)
        else:
            cache.truncate_from_start(first)
        entries = cache.entries()
        assert list(entries) == sorted(entries)
        assert len({entry.start_offset for entry in entries}) == len({entry.epoch for entry in entries}) == len(entries)
    epoch, end_offset = cache.end_offset_for(asked, 100)
    assert epoch <= asked
    if epoch >= 0 and EpochEntry(epoch, cache.entries()[0].start_offset) not in cache.entries():
        assert end_offset >= cache.entries()[0].start_offset
