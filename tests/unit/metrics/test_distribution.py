"""Distributions in fixed buckets."""

import pytest

from tidelog.metrics.distribution import (
    BUCKETS,
    Distribution,
    WindowedDistribution,
    bucket_of,
    middle_of,
    quantiles,
)


def test_a_value_is_found_again_within_four_percent() -> None:
    for value in (*range(2000), 12_345, 10**6, 10**9, (1 << 40) - 1):
        assert middle_of(bucket_of(value)) == pytest.approx(value, rel=0.04)


def test_buckets_ascend_without_gaps() -> None:
    found = [bucket_of(value) for value in range(100_000)]
    assert found == sorted(found)
    assert set(found) == set(range(found[-1] + 1))


def test_values_out_of_range_count_at_its_ends() -> None:
    distribution = Distribution()
    distribution.record(-5)
    distribution.record(1 << 60)
    assert distribution.counts[0] == 1
    assert distribution.counts[BUCKETS - 1] == 1
    assert distribution.count == 2


def test_there_are_no_quantiles_without_values() -> None:
    assert quantiles(Distribution().counts, [0.5, 0.99]) == [0, 0]


def test_one_value_is_every_quantile() -> None:
    distribution = Distribution()
    distribution.record(17)
    assert quantiles(distribution.counts, [0.0, 0.5, 0.999, 1.0]) == [17] * 4


def test_a_window_forgets_what_is_older() -> None:
    """A dashboard shows the present latency, not the average of a month."""
    distribution, window = Distribution(), WindowedDistribution(60)
    for _ in range(1000):
        distribution.record(5)
    assert quantiles(window.recent(distribution.counts, 0), [0.5]) == [5]
    for now_seconds in range(15, 120, 15):
        distribution.record(20)
        recent = window.recent(distribution.counts, now_seconds)
    assert sum(recent) <= 5
    assert quantiles(recent, [0.5]) == [20]


def test_readers_at_short_intervals_see_the_whole_window() -> None:
    distribution, window = Distribution(), WindowedDistribution(60)
    for now_seconds in range(600):
        distribution.record(1)
        recent = window.recent(distribution.counts, now_seconds)
    assert 30 <= sum(recent) <= 90
