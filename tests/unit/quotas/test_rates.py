"""Rates over windows of time, as Kafka measures them, and the time to wait until a bound is kept."""

from __future__ import annotations

import pytest

from tidelog.quotas.rates import Quota, RateWindows, SimpleRate

THREE_SECONDS = RateWindows(sample_count=3, window_ms=1000)


def test_a_simple_rate_reckons_with_at_least_one_window() -> None:
    rate = SimpleRate(THREE_SECONDS)
    rate.record(30, 0)
    assert rate.measure(0) == 30
    assert rate.measure(500) == 30
    assert rate.measure(2000) == 15


def test_the_example_of_the_module() -> None:
    rate = SimpleRate(THREE_SECONDS)
    for value, now_ms in ((5, 0), (3, 700), (4, 1200), (2, 2900)):
        rate.record(value, now_ms)
    assert rate.measure(3000) == pytest.approx(14 / 3)


def test_a_sample_counts_until_its_last_value_is_older_than_all_windows() -> None:
    rate = SimpleRate(THREE_SECONDS)
    rate.record(10, 0)
    rate.record(10, 900)
    assert rate.measure(3899) == pytest.approx(20 / 3.899), "it overlaps the windows, and its whole time counts"
    assert rate.measure(3900) == 0


def test_values_at_a_steady_pace_are_measured_exactly_whatever_the_pace() -> None:
    for interval_ms in (10, 700, 1000, 1500):
        rate = SimpleRate(RateWindows())
        for now_ms in range(0, 60_000, interval_ms):
            rate.record(interval_ms, now_ms)
            if now_ms > 20_000:
                assert rate.measure(now_ms + interval_ms) == pytest.approx(1000, rel=0.001)


def test_samples_do_not_pile_up() -> None:
    rate = SimpleRate(THREE_SECONDS)
    for now_ms in range(0, 1_000_000, 1000):
        rate.record(1, now_ms)
    assert rate.measure(1_000_000) == pytest.approx(1.0)


def test_a_quota_is_exceeded_above_its_bound_and_says_for_how_long() -> None:
    quota = Quota(SimpleRate(RateWindows()), bound=100)
    quota.record(100, 0)
    assert not quota.is_exceeded(0)
    assert quota.throttle_ms(0) == 0
    quota.record(400, 0)
    assert quota.is_exceeded(0)
    assert quota.throttle_ms(0) == 4000
    assert quota.throttle_ms(3000) == 2000
    assert quota.is_exceeded(4999)
    assert not quota.is_exceeded(5000)


def test_a_quota_never_waits_longer_than_its_windows() -> None:
    quota = Quota(SimpleRate(THREE_SECONDS), bound=1)
    quota.record(10**9, 0)
    assert quota.throttle_ms(0) == 3000
    assert not quota.is_exceeded(3000), "the sample is forgotten"
    nothing = Quota(SimpleRate(THREE_SECONDS), bound=0)
    nothing.record(1, 0)
    assert nothing.throttle_ms(0) == 3000


def test_a_bound_may_change_at_any_time() -> None:
    quota = Quota(SimpleRate(THREE_SECONDS), bound=10)
    quota.record(50, 0)
    assert quota.is_exceeded(1000)
    quota.bound = 50
    assert not quota.is_exceeded(1000)
