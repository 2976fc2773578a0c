import pytest

from tidelog.timing import ManualClock


def test_both_clocks_stand_still_until_advanced() -> None:
    clock = ManualClock(wall_ms=1000, monotonic_ms=5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1000, 5)
    clock.advance(20)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1020, 25)


def test_setting_the_wall_clock_back_leaves_deadlines_alone() -> None:
    clock = ManualClock(wall_ms=1000, monotonic_ms=5)
    clock.set_wall_ms(1)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1, 5)


def test_time_cannot_be_advanced_backwards() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        ManualClock().advance(-1)
