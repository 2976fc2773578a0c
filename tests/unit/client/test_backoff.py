from tidelog.client.backoff import Backoff


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(100, 1000, lambda: 0.5)
    assert [backoff.after(failures) for failures in range(7)] == [0, 100, 200, 400, 800, 1000, 1000]


def test_jitter_spreads_a_fifth_to_either_side() -> None:
    assert Backoff(100, 1000, lambda: 0.0).after(1) == 80
    assert 119 <= Backoff(100, 1000, lambda: 0.999).after(1) <= 120
    assert Backoff(100, 1000, lambda: 0.0).after(50) == 800


def test_a_million_failures_cost_no_million_digit_numbers() -> None:
    assert Backoff(1, 60_000, lambda: 0.5).after(1_000_000) == 60_000


def test_an_initial_wait_beyond_the_limit_is_the_limit() -> None:
    assert Backoff(5000, 1000, lambda: 0.5).after(1) == 1000
    assert Backoff(0, 0).after(3) == 0
