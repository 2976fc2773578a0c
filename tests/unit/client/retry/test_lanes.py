"""Concurrency by key."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.retry.lanes import Lanes


@given(st.lists(st.none() | st.integers(0, 3), max_size=40), st.integers(1, 5), st.randoms(use_true_random=False))
def test_work_of_a_key_runs_in_order_one_at_a_time(keys: list[int | None], concurrency: int, random: object) -> None:
    lanes: Lanes[tuple[int | None, int]] = Lanes(concurrency)
    for number, key in enumerate(keys):
        lanes.add(key, (key, number))
    running: list[tuple[int | None, int]] = []
    done: list[tuple[int | None, int]] = []
    while running or lanes.waiting:
        while (found := lanes.begin()) is not None:
            running.append(found[1])
        assert 0 < len(running) <= concurrency
        keyed = [key for key, _ in running if key is not None]
        assert len(keyed) == len(set(keyed))
        work = running.pop(random.randrange(len(running)))  # type: ignore[attr-defined]
        done.append(work)
        lanes.finish(work[0])
    assert sorted(number for _, number in done) == list(range(len(keys)))
    for key in set(keys) - {None}:
        numbers = [number for each, number in done if each == key]
        assert numbers == sorted(numbers)


def test_dropped_work_does_not_hold_up_its_key() -> None:
    lanes: Lanes[str] = Lanes(2)
    for key, work in (("a", "a1"), ("a", "x2"), ("b", "x1"), ("b", "b2"), ("a", "a3")):
        lanes.add(key, work)
    assert lanes.begin() == ("a", "a1")
    lanes.drop(lambda work: work.startswith("x"))
    assert lanes.begin() == ("b", "b2")
    lanes.finish("a")
    assert lanes.begin() == ("a", "a3")
    lanes.finish("b")
    lanes.finish("a")
    assert (lanes.begin(), lanes.running, lanes.waiting) == (None, 0, 0)
