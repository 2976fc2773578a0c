import pytest

from tidelog.timing import ManualClock, Scheduler, Timer


class World:
    """A timer, a clock and a scheduler, advanced together."""

    def __init__(self) -> None:
        self.clock = ManualClock(monotonic_ms=1000)
        self.errors: list[str] = []
        self.timer = Timer(1000, on_error=lambda task, error: self.errors.append(f"{task!r}: {error!r}"))
        self.scheduler = Scheduler(self.timer, self.clock)
        self.ran_at: list[int] = []

    def note(self) -> None:
        self.ran_at.append(self.clock.monotonic_ms() - 1000)

    def pass_ms(self, by_ms: int) -> None:
        """Let time pass millisecond by millisecond."""
        for _ in range(by_ms):
            self.clock.advance(1)
            self.timer.advance(self.clock.monotonic_ms())

    def jump_ms(self, by_ms: int) -> None:
        """Let time pass while the loop is busy."""
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())


def test_a_one_shot_task_runs_once_after_its_delay() -> None:
    world = World()
    task = world.scheduler.schedule("once", world.note, 30)
    assert world.scheduler.tasks() == [task]
    world.pass_ms(100)
    assert world.ran_at == [30]
    assert len(world.scheduler) == 0


def test_a_task_without_delay_runs_at_the_next_advance() -> None:
    world = World()
    world.scheduler.schedule("now", world.note)
    assert world.ran_at == []
    world.jump_ms(0)
    assert world.ran_at == [0]


def test_a_periodic_task_keeps_its_rate() -> None:
    world = World()
    world.scheduler.schedule("retention", world.note, delay_ms=30, period_ms=50)
    world.pass_ms(200)
    assert world.ran_at == [30, 80, 130, 180]


def test_missed_runs_are_skipped_and_the_rate_is_kept() -> None:
    world = World()
    world.scheduler.schedule("retention", world.note, delay_ms=10, period_ms=10)
    world.pass_ms(10)
    world.jump_ms(1005)
    assert world.ran_at == [10, 1015]
    world.pass_ms(10)
    assert world.ran_at == [10, 1015, 1020]


def test_a_cancelled_task_does_not_run_again() -> None:
    world = World()
    task = world.scheduler.schedule("retention", world.note, 10, 10)
    world.pass_ms(20)
    assert task.cancel()
    world.pass_ms(20)
    assert world.ran_at == [10, 20]
    assert len(world.scheduler) == len(world.timer) == 0


def test_a_task_may_cancel_itself() -> None:
    world = World()

    def run() -> None:
        world.note()
        task.cancel()

    task = world.scheduler.schedule("retention", run, 10, 10)
    world.pass_ms(50)
    assert world.ran_at == [10]
    assert len(world.scheduler) == 0


def test_a_periodic_task_that_raises_comes_round_again() -> None:
    world = World()
    world.scheduler.schedule("broken", lambda: 1 // 0, 10, 10)
    world.pass_ms(20)
    assert len(world.errors) == 2
    assert "'broken'" in world.errors[0]


def test_shutdown_cancels_everything() -> None:
    world = World()
    world.scheduler.schedule("a", world.note, 10, 10)
    world.scheduler.schedule("b", world.note, 10)
    world.scheduler.cancel_all()
    world.pass_ms(30)
    assert world.ran_at == []
    assert len(world.timer) == 0


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="'retention' needs a period"):
        World().scheduler.schedule("retention", int, 0, 0)
