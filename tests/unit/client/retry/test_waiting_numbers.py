"""The numbers of the waiting records of one key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.retry.waiting_numbers import WaitingNumbers, decode_numbers, latest_values

RANGES = st.builds(lambda head, count: WaitingNumbers(head, head + count), st.integers(0, 1000), st.integers(0, 5))


@given(st.lists(st.sampled_from(["arrive", "fail", "finish", "early"]), max_size=30))
def test_records_are_handled_in_the_order_in_which_they_came(events: list[str]) -> None:
    """Beside a plain list of those that wait."""
    numbers, waiting, arrived = WaitingNumbers(), list[int](), 0
    for event in events:
        if event == "arrive":
            assert numbers.is_turn(None) == (not waiting)
            number, numbers = numbers.wait(None)
            waiting.append(number)
            arrived += 1
        elif waiting and event == "fail":
            assert numbers.is_turn(waiting[0])
            assert numbers.wait(waiting[0]) == (waiting[0], numbers), "it keeps its number"
        elif waiting and event == "early":
            assert numbers.is_turn(waiting[-1]) == (len(waiting) == 1)
        elif waiting:
            numbers = numbers.release(waiting.pop(0))
        assert [each for each in range(-1, arrived + 2) if numbers.has(each)] == waiting
        assert numbers.is_empty == (not waiting)


def test_a_number_that_is_not_known_counts_as_a_new_record() -> None:
    assert WaitingNumbers(3, 3).is_turn(17)
    assert not WaitingNumbers(3, 5).is_turn(17)
    assert WaitingNumbers(3, 5).wait(17) == (5, WaitingNumbers(3, 6))


@given(RANGES, st.booleans())
def test_a_range_is_read_back_with_the_facts_beside_it(numbers: WaitingNumbers, fact: bool) -> None:
    found, facts = decode_numbers(numbers.encode(parked=fact))
    assert (found, facts["parked"]) == (numbers, fact)


@pytest.mark.parametrize(
    "value", [b"", b"nonsense", b"[]", b"null", b"{}", b"\xff", json.dumps({"head": "0", "tail": 1}).encode()]
)
def test_any_other_value_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode_numbers(value)


def test_the_last_value_of_each_key_counts_and_a_tombstone_removes_it() -> None:
    records = [(b"p/a", b"1"), (b"q/a", b"2"), (None, b"3"), (b"p/b", b"4"), (b"p/a", b"5"), (b"p/b", None)]
    assert latest_values(records, b"p/") == {b"a": b"5"}
