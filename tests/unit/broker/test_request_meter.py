"""Requests are counted by countdowns, and timed as often as their rate needs."""

import pytest

from tidelog.broker.requests.request_meter import ApiMetrics

MILLISECOND_NS = 1_000_000


def serve(api: ApiMetrics, version: int, requests: int, every_ns: int, began_ns: int = 0) -> int:
    """So many requests at one rate, as the dispatcher counts them; how many were timed."""
    timed = 0
    for number in range(requests):
        api.countdown[version] -= 1
        if not api.countdown[version]:
            timed += 1
            api.timed(version, 10**9 + began_ns + number * every_ns, is_next_timed=False)
    return timed


@pytest.mark.parametrize("every_ns", [1_000, 25_000, MILLISECOND_NS, 100 * MILLISECOND_NS])
def test_every_request_of_each_version_is_counted_whatever_its_rate(every_ns: int) -> None:
    api = ApiMetrics("Produce", [1] * 4)
    for requests in (1, 7, 500, 1000):
        before = api.counts
        serve(api, 2, requests, every_ns)
        assert api.counts == [0, 0, before[2] + requests, 0]
    serve(api, 3, 5, every_ns)
    assert api.counts[3] == 5
    assert api.count == sum(api.counts)


def test_slow_requests_are_all_timed_and_fast_ones_about_250_a_second() -> None:
    assert serve(ApiMetrics("Fetch", [1]), 0, 1000, 10 * MILLISECOND_NS) == 1000
    assert 150 <= serve(ApiMetrics("Fetch", [1]), 0, 40_000, 25_000) <= 600, "of 40,000 in a second"
    assert serve(ApiMetrics("Fetch", [1]), 0, 256_000, 100) <= 256_000 // 256 + 10


def test_a_rate_that_falls_is_followed() -> None:
    api = ApiMetrics("Fetch", [1])
    serve(api, 0, 50_000, 1_000)
    serve(api, 0, 300, 100 * MILLISECOND_NS, 50 * MILLISECOND_NS)
    assert serve(api, 0, 10, 100 * MILLISECOND_NS, 31_000 * MILLISECOND_NS) == 10
    assert api.count == 50_310


def test_the_next_request_of_each_version_can_be_timed_at_once_and_none_is_lost_from_the_count() -> None:
    api = ApiMetrics("Fetch", [1, 1])
    serve(api, 0, 1000, 1_000)
    api.time_next()
    assert api.countdown == [1, 1]
    assert api.counts == [1000, 0]
    assert serve(api, 0, 1, 1_000) == 1
    assert api.counts == [1001, 0]
