"""The timer beside a naive list of deadlines."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.timing import Timer, TimerTask

add = st.tuples(st.just("add"), st.one_of(st.integers(-5, 50), st.integers(0, 10_000), st.integers(0, 2**40)))
cancel = st.tuples(st.just("cancel"), st.integers(0, 200))
advance = st.tuples(st.just("advance"), st.one_of(st.integers(0, 50), st.integers(0, 10_000), st.integers(0, 2**40)))
wake = st.tuples(st.just("wake"), st.just(0))
steps = st.lists(st.one_of(add, cancel, advance, wake), max_size=120)


class Recorded(TimerTask):
    def __init__(self, deadline_ms: int, number: int, ran: list[int]) -> None:
        super().__init__(deadline_ms)
        self.number = number
        self.ran = ran

    def run(self) -> None:
        self.ran.append(self.number)


@settings(deadline=None, max_examples=examples(150))
@given(steps=steps, tick_ms=st.sampled_from([1, 1, 3, 100]), wheel_size=st.sampled_from([2, 3, 20]), tell=st.booleans())
def test_every_task_runs_once_at_its_tick_in_order_and_cancelled_ones_never(
    steps: list[tuple[str, int]], tick_ms: int, wheel_size: int, tell: bool
) -> None:
    now_ms = 1000
    timer = Timer(now_ms, tick_ms=tick_ms, wheel_size=wheel_size)
    ran: list[int] = []
    tasks: list[Recorded] = []
    waiting: dict[int, int] = {}  # number -> the tick it must run at
    for step, value in steps:
        if step == "add":
            task = Recorded(now_ms + value, len(tasks), ran)
            tasks.append(task)
            timer.add(task, now_ms if tell else None)
            waiting[task.number] = -(-task.deadline_ms // tick_ms) * tick_ms
        elif step == "cancel" and tasks:
            task = tasks[value % len(tasks)]
            assert task.cancel() == (task.number in waiting)
            waiting.pop(task.number, None)
        elif step in ("advance", "wake"):
            expiry_ms = timer.next_expiry_ms()
            assert (expiry_ms is None) == (not waiting)
            if waiting and min(waiting.values()) > now_ms:
                assert expiry_ms is not None
                assert expiry_ms <= min(waiting.values()), "the loop would sleep past a deadline"
            now_ms = now_ms + value if step == "advance" else max(now_ms, expiry_ms or 0)
            ran.clear()
            count = timer.advance(now_ms)
            due = [number for number, tick in waiting.items() if tick <= now_ms]
            assert count == len(ran)
            assert sorted(ran) == sorted(due), "lost, early or run twice"
            late = [number for number in ran if tasks[number].deadline_ms + tick_ms > now_ms - value]
            assert late == sorted(late, key=lambda number: waiting[number]), "out of order"
            for number in due:
                del waiting[number]
        assert len(timer) == len(waiting)
        assert all(task.is_pending == (task.number in waiting) for task in tasks)
