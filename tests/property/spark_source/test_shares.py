"""However offsets are shared out or split, none is lost, repeated or starved."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.types import TopicPartition
from tidelog.spark.source.admission import backlog, limit_bytes, limit_offsets
from tidelog.spark.source.ranges import OffsetRange, split_ranges

quick = settings(max_examples=examples(60), deadline=None)
limits = st.none() | st.integers(1, 200)


@st.composite
def logs(draw):
    """Where partitions begin and end; some end before they begin, as after a loss."""
    starts, ends = {}, {}
    for index in range(draw(st.integers(1, 8))):
        where = TopicPartition("t", index)
        starts[where] = draw(st.integers(0, 10**6))
        ends[where] = starts[where] + draw(st.integers(-5, 10**6) | st.integers(0, 3))
    return starts, ends


@quick
@given(logs(), st.integers(1, 10**7))
def test_every_partition_with_a_backlog_advances_and_none_too_far(bounds, limit):
    starts, ends = bounds
    limited = limit_offsets(limit, starts, ends)
    assert limited.keys() == ends.keys()
    waiting = backlog(starts, ends)
    for each, end in limited.items():
        assert (starts[each] < end <= ends[each]) if each in waiting else end == ends[each]
    taken = sum(limited[each] - starts[each] for each in waiting)
    assert taken <= max(limit, 0) + len(waiting), "only shares below one are rounded up"


@quick
@given(logs(), st.integers(1, 10**9), st.floats(0.1, 10**5))
def test_bytes_never_starve_a_partition(bounds, limit, size):
    starts, ends = bounds
    sizes = dict.fromkeys(starts, size)
    limited = limit_bytes(limit, starts, ends, sizes)
    waiting = backlog(starts, ends)
    for each, end in limited.items():
        assert (starts[each] < end <= ends[each]) if each in waiting else end == ends[each]
    taken = sum((limited[each] - starts[each]) * size for each in waiting)
    assert taken <= limit * 1.0001 + size * len(waiting)


@quick
@given(logs(), limits, limits)
def test_splits_cover_every_offset_once_and_in_order(bounds, min_partitions, max_records):
    starts, ends = bounds
    whole = [OffsetRange(each[0], each[1], starts[each], ends[each]) for each in sorted(ends)]
    if sum(max(each.size, 0) for each in whole) > 10**5 and max_records is not None:
        max_records += 10**4
    split = split_ranges(whole, min_partitions, max_records)
    for each in whole:
        parts = [part for part in split if part.partition == each.partition]
        if each.size <= 0:
            assert not parts
            continue
        assert parts[0].start == each.start
        assert parts[-1].end == each.end
        assert all(part.size > 0 for part in parts)
        assert all(one.end == two.start for one, two in pairwise(parts))
    if max_records is not None:
        assert all(part.size <= max_records for part in split)


@quick
@given(logs(), st.integers(1, 64))
def test_enough_offsets_make_enough_tasks_nearly(bounds, min_partitions):
    """The official connector rounds shares, so it may fall short by less than one task for each partition."""
    starts, ends = bounds
    whole = [OffsetRange(each[0], each[1], starts[each], ends[each]) for each in sorted(ends)]
    available = sum(max(each.size, 0) for each in whole)
    split = split_ranges(whole, min_partitions)
    assert len(split) >= min(min_partitions, available) - len(whole)
