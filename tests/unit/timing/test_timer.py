from typing import Any

import pytest

from tidelog.timing import CallbackTask, Timer, TimerTask, TimingWheel


class Note(TimerTask):
    """Writes its name down when it runs."""

    def __init__(self, deadline_ms: int, name: str, notes: list[str]) -> None:
        super().__init__(deadline_ms)
        self.name = name
        self.notes = notes

    def run(self) -> None:
        self.notes.append(self.name)


def test_a_task_runs_at_its_deadline_and_not_before() -> None:
    timer = Timer()
    notes: list[Any] = []
    assert timer.add(Note(7, "seven", notes))
    assert timer.advance(6) == 0
    assert timer.advance(7) == 1
    assert notes == ["seven"]


@pytest.mark.parametrize("deadline_ms", [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 160_000, 2**31 - 1, 2**63 - 1])
def test_a_far_deadline_cascades_through_the_wheels_and_is_met_exactly(deadline_ms: int) -> None:
    timer, ran_at = Timer(), []
    timer.call_at(deadline_ms, lambda: ran_at.append(now_ms))
    wakeups = 0
    while (expiry_ms := timer.next_expiry_ms()) is not None:
        now_ms = expiry_ms
        timer.advance(now_ms)
        wakeups += 1
    assert ran_at == [deadline_ms]
    assert wakeups <= 15, "one wake-up for each wheel that the task sank through"


def test_tasks_run_in_the_order_of_their_deadlines_whatever_the_order_of_adding() -> None:
    timer = Timer()
    notes: list[Any] = []
    for deadline_ms in (500, 3, 30, 9_000, 2):
        timer.add(Note(deadline_ms, str(deadline_ms), notes))
    assert timer.advance(10_000) == 5
    assert notes == ["2", "3", "30", "500", "9000"]


def test_equal_deadlines_filed_in_different_wheels_are_both_met() -> None:
    timer = Timer()
    notes: list[Any] = []
    timer.add(Note(40, "from the second wheel", notes))
    timer.advance(30)
    timer.add(Note(40, "from the first", notes))
    timer.advance(39)
    assert notes == []
    timer.advance(40)
    assert sorted(notes) == ["from the first", "from the second wheel"]


def test_a_cancelled_task_does_not_run() -> None:
    timer = Timer()
    notes: list[Any] = []
    task = Note(7, "seven", notes)
    timer.add(task)
    assert task.is_pending
    assert task.cancel()
    assert not task.is_pending
    assert not task.cancel()
    assert timer.advance(100) == 0
    assert notes == []


def test_a_cancelled_timer_wakes_nothing() -> None:
    timer = Timer()
    near, far = CallbackTask(7, int), CallbackTask(70, int)
    timer.add(near)
    timer.add(far)
    near.cancel()
    assert timer.next_expiry_ms() == 60, "the bucket of the second wheel that holds 60 to 79"
    far.cancel()
    assert timer.next_expiry_ms() is None


def test_a_bucket_dropped_as_empty_is_used_again() -> None:
    timer = Timer()
    notes: list[Any] = []
    timer.call_at(7, int).cancel()
    assert timer.next_expiry_ms() is None
    timer.add(Note(7, "seven", notes))
    assert timer.next_expiry_ms() == 7
    timer.advance(7)
    assert notes == ["seven"]


def test_a_task_added_too_late_runs_at_the_next_advance() -> None:
    timer = Timer(start_ms=100)
    notes: list[Any] = []
    assert not timer.add(Note(100, "now", notes))
    assert not timer.add(Note(3, "long ago", notes))
    assert timer.next_expiry_ms() == 100
    assert notes == []
    assert timer.advance(100) == 2
    assert notes == ["now", "long ago"]


def test_a_task_may_cancel_one_that_is_due_in_the_same_tick() -> None:
    timer = Timer()
    notes: list[Any] = []
    victim = Note(5, "victim", notes)
    timer.call_at(5, victim.cancel)
    timer.add(victim)
    assert timer.advance(5) == 1
    assert notes == []


def test_a_task_may_move_one_that_is_due_in_the_same_tick_to_the_next_round_of_its_bucket() -> None:
    timer = Timer()
    notes: list[Any] = []
    moved = Note(5, "moved", notes)

    def move() -> None:
        moved.deadline_ms = 25
        timer.add(moved)

    timer.call_at(5, move)
    timer.add(moved)
    timer.advance(24)
    assert notes == []
    timer.advance(25)
    assert notes == ["moved"]


def test_a_task_that_adds_itself_again_runs_once_for_each_of_its_deadlines() -> None:
    timer, ran = Timer(), []

    def again() -> None:
        ran.append(task.deadline_ms)
        task.deadline_ms += 10
        timer.add(task)

    task = CallbackTask(10, again)
    timer.add(task)
    assert timer.advance(45) == 4
    assert ran == [10, 20, 30, 40]


def test_a_task_that_is_always_due_does_not_keep_advance_from_returning() -> None:
    timer = Timer()
    task = CallbackTask(0, lambda: timer.add(task))
    timer.add(task)
    assert timer.advance(0) == 1
    assert timer.advance(0) == 1
    assert len(timer) == 1


def test_adding_a_waiting_task_moves_it() -> None:
    timer = Timer()
    notes: list[Any] = []
    task = Note(5, "moved", notes)
    timer.add(task)
    task.deadline_ms = 50
    timer.add(task)
    assert len(timer) == 1
    timer.advance(49)
    assert notes == []
    timer.advance(50)
    assert notes == ["moved"]


def test_an_error_goes_to_the_handler_and_the_other_tasks_run() -> None:
    failed: list[tuple[object, Exception]] = []
    timer = Timer(on_error=lambda task, error: failed.append((task, error)))
    notes: list[Any] = []
    broken = timer.call_at(5, lambda: 1 // 0)
    timer.add(Note(5, "same tick", notes))
    timer.add(Note(6, "later", notes))
    assert timer.advance(6) == 3
    assert notes == ["same tick", "later"]
    assert [(task, type(error)) for task, error in failed] == [(broken, ZeroDivisionError)]


def test_without_a_handler_errors_are_raised_once_all_tasks_have_run() -> None:
    timer = Timer()
    notes: list[Any] = []
    timer.call_at(5, lambda: 1 // 0)
    timer.add(Note(6, "later", notes))
    with pytest.raises(ExceptionGroup) as caught:
        timer.advance(6)
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert notes == ["later"]
    assert len(timer) == 0


def test_a_clock_that_went_back_changes_nothing() -> None:
    timer = Timer(start_ms=100)
    notes: list[Any] = []
    timer.add(Note(110, "x", notes))
    assert timer.advance(50) == 0
    assert timer.advance(110) == 1


def test_a_coarse_tick_delays_a_task_but_never_runs_it_early() -> None:
    timer = Timer(tick_ms=100)
    notes: list[Any] = []
    timer.add(Note(101, "x", notes))
    timer.advance(199)
    assert notes == []
    timer.advance(200)
    assert notes == ["x"]


def test_the_time_of_adding_lets_an_idle_timer_file_a_near_deadline_under_the_finest_wheel() -> None:
    timer = Timer()
    timer.add(CallbackTask(100_005, int), now_ms=100_000)
    assert timer.next_expiry_ms() == 100_005


def test_the_time_of_adding_does_not_skip_what_is_due() -> None:
    timer = Timer()
    notes: list[Any] = []
    timer.add(Note(50, "due", notes))
    timer.add(Note(500, "later", notes), now_ms=100)
    assert timer.advance(100) == 1
    assert notes == ["due"]
    timer.advance(500)
    assert notes == ["due", "later"]


def test_length_counts_what_waits() -> None:
    timer = Timer(start_ms=10)
    tasks = [timer.call_at(deadline_ms, int) for deadline_ms in (5, 11, 500)]
    assert len(timer) == 3
    tasks[1].cancel()
    assert len(timer) == 2
    timer.advance(499)
    assert len(timer) == 1


def test_the_current_time_of_a_wheel_is_cut_to_its_tick() -> None:
    assert TimingWheel(tick_ms=200, wheel_size=20, start_ms=3215).current_ms == 3200


def test_overflow_wheels_are_made_on_demand_with_the_lower_interval_as_tick() -> None:
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=50)
    assert wheel.overflow is None
    above = wheel.overflow_wheel()
    assert (above.tick_ms, above.interval_ms, above.current_ms) == (20, 400, 40)
    assert wheel.overflow_wheel() is above


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(0, 20), (1, 1)])
def test_a_wheel_that_could_not_turn_is_refused(tick_ms: int, wheel_size: int) -> None:
    with pytest.raises(ValueError, match=f"got {tick_ms} and {wheel_size}"):
        TimingWheel(tick_ms, wheel_size, 0)
