"""Offsets split into tasks, as the official connector splits them."""

from tidelog.spark.source.ranges import OffsetRange, split_ranges


def _range(partition, start, end):
    return OffsetRange("t", partition, start, end)


def test_one_task_for_each_partition_that_has_something():
    ranges = [_range(0, 0, 5), _range(1, 7, 7), _range(2, 3, 4)]
    assert split_ranges(ranges) == [_range(0, 0, 5), _range(2, 3, 4)]


def test_enough_partitions_are_left_alone():
    ranges = [_range(0, 0, 100), _range(1, 0, 1)]
    assert split_ranges(ranges, min_partitions=2) == ranges


def test_one_range_is_split_evenly_and_the_last_takes_the_rest():
    assert split_ranges([_range(0, 0, 10)], min_partitions=3) == [_range(0, 0, 3), _range(0, 3, 6), _range(0, 6, 10)]


def test_large_ranges_are_split_and_small_ones_left_whole():
    ranges = [_range(0, 0, 10_000), _range(1, 0, 10), _range(2, 0, 10_000)]
    split = split_ranges(ranges, min_partitions=5)
    assert [each.partition for each in split] == [0, 0, 1, 2, 2]
    assert split[2] == _range(1, 0, 10)


def test_there_are_never_more_tasks_than_offsets():
    assert split_ranges([_range(0, 5, 7)], min_partitions=10) == [_range(0, 5, 6), _range(0, 6, 7)]


def test_records_for_each_task_are_limited():
    assert split_ranges([_range(0, 0, 25), _range(1, 0, 10)], max_records_per_partition=10) == [
        _range(0, 0, 8),
        _range(0, 8, 16),
        _range(0, 16, 25),
        _range(1, 0, 10),
    ]


def test_both_limits_together():
    """First so many records for each task, then more tasks if there are still too few."""
    split = split_ranges([_range(0, 0, 100)], min_partitions=8, max_records_per_partition=50)
    assert len(split) == 8
    assert sum(each.size for each in split) == 100


def test_nothing_to_read_is_no_task():
    assert split_ranges([], min_partitions=4) == []
    assert split_ranges([_range(0, 3, 3), _range(1, 5, 2)], min_partitions=4, max_records_per_partition=1) == []
