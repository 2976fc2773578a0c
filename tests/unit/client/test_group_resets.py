"""New offsets of a group, from every way to choose them, and plans as text."""

import pytest

from tidelog.client.group_resets import Bounds, parse_plan, parse_target, write_plan
from tidelog.client.types import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOUNDS = Bounds({FIRST: 10, SECOND: 0}, {FIRST: 100, SECOND: 50})
NOW_MS = 10_000_000


def resolved(way: str, argument: str = "", **committed: int) -> list[int]:
    target = parse_target(way, argument, NOW_MS)
    assert (target.time_ms is not None) == (way in ("time", "duration"))
    places = {TopicPartition("orders", int(name[1:])): offset for name, offset in committed.items()}
    offsets = target.resolve(BOUNDS, places, {FIRST: 33, SECOND: -1})
    assert list(offsets) == [FIRST, SECOND]
    return list(offsets.values())


@pytest.mark.parametrize(
    ("way", "argument", "expected"),
    [
        ("earliest", "", [10, 0]),
        ("latest", "", [100, 50]),
        ("offset", "20", [20, 20]),
        ("offset", "5", [10, 5]),
        ("offset", " 70 ", [70, 50]),
        ("time", "1970-01-01T00:00:01Z", [33, 50]),
        ("duration", "PT1H", [33, 50]),
    ],
)
def test_offsets_stay_inside_their_partitions(way: str, argument: str, expected: list[int]) -> None:
    assert resolved(way, argument) == expected


def test_current_and_shift_begin_at_committed_offsets() -> None:
    assert resolved("current", p0=40) == [40, 50]
    assert resolved("shift", "-30", p0=50, p1=10) == [20, 0]
    assert resolved("shift", "7", p0=50, p1=10) == [57, 17]
    with pytest.raises(ValueError, match=r"a shift needs committed offsets; there are none for orders-1$"):
        resolved("shift", "1", p0=50)


def test_a_duration_is_counted_back_from_now() -> None:
    assert parse_target("duration", "PT1S", NOW_MS).time_ms == NOW_MS - 1000
    assert parse_target("duration", "P100000D", NOW_MS).time_ms == 0


@pytest.mark.parametrize(
    ("way", "argument", "error"),
    [
        ("offset", "-1", "'-1' is not a whole number of 0 or more"),
        ("offset", "", "'' is not a whole number"),
        ("offset", "9" * 19, "is not a whole number"),
        ("shift", "1.5", "'1.5' is not a whole number"),
        ("shift", "--5", "'--5' is not a whole number"),
        ("time", "noon", "ISO 8601"),
        ("duration", "1h", "is not a duration"),
        ("sideways", "", "'sideways' is not one of earliest, latest"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(way: str, argument: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_target(way, argument, NOW_MS)


def test_a_plan_is_read_back_as_it_was_written() -> None:
    targets = {SECOND: 7, FIRST: 5}
    assert write_plan(targets) == "orders,0,5\norders,1,7\n"
    assert parse_plan(write_plan(targets).replace("\n", "\r\n\r\n")) == targets


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("orders,0,1\norders,x,5", "line 2: 'orders,x,5' is not topic,partition,offset"),
        ("orders,0,-5", "line 1"),
        ("orders:0:5", "line 1"),
        (",0,5", "line 1"),
        ("\n\n", "no lines"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_its_line(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_plan(text)
