from collections.abc import Callable

import pytest

from tidelog.timing import DelayedOperation, Purgatory, Timer


class Wait(DelayedOperation):
    """Completes when `ready` is set; notes what was called."""

    def __init__(self, deadline_ms: int = 100, then: Callable[[], object] | None = None) -> None:
        super().__init__(deadline_ms)
        self.ready = False
        self.tried = 0
        self.calls: list[str] = []
        self.then = then

    def try_complete(self) -> bool:
        self.tried += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.calls.append("complete")
        if self.then is not None:
            self.then()

    def on_expiration(self) -> None:
        self.calls.append("expire")


def purgatory(purge_interval: int = 1000) -> tuple[Purgatory[Wait], Timer]:
    timer = Timer()
    return Purgatory("test", timer, purge_interval), timer


def test_what_can_complete_at_once_never_waits() -> None:
    waiting, timer = purgatory()
    operation = Wait()
    operation.ready = True
    assert waiting.try_complete_else_watch(operation, ["a"])
    assert operation.calls == ["complete"]
    assert (waiting.watched, waiting.delayed, len(timer)) == (0, 0, 0)


def test_an_event_completes_what_waits_and_cancels_its_timeout() -> None:
    waiting, timer = purgatory()
    operation = Wait()
    assert not waiting.try_complete_else_watch(operation, ["a"])
    assert waiting.check_and_complete("a") == 0
    operation.ready = True
    assert waiting.check_and_complete("a") == 1
    assert operation.calls == ["complete"]
    assert (waiting.watched, waiting.delayed, len(timer)) == (0, 0, 0)


def test_a_key_without_watchers_completes_nothing() -> None:
    waiting, _ = purgatory()
    assert waiting.check_and_complete("a") == 0


def test_the_deadline_completes_what_no_event_did() -> None:
    waiting, timer = purgatory()
    operation = Wait(deadline_ms=100)
    waiting.try_complete_else_watch(operation, ["a"])
    timer.advance(99)
    assert not operation.is_completed
    timer.advance(100)
    assert operation.calls == ["complete", "expire"]
    assert waiting.delayed == 0


def test_a_deadline_that_has_passed_still_waits_for_the_timer_to_advance() -> None:
    """A fetch with max_wait_ms=0 must not be answered from within the code that added it."""
    waiting, timer = purgatory()
    operation = Wait(deadline_ms=0)
    assert not waiting.try_complete_else_watch(operation, ["a"])
    assert operation.calls == []
    assert timer.next_expiry_ms() == 0
    timer.advance(0)
    assert operation.calls == ["complete", "expire"]


def test_completion_happens_exactly_once() -> None:
    waiting, timer = purgatory()
    operation = Wait()
    waiting.try_complete_else_watch(operation, ["a", "b"])
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.ready = True
    assert waiting.check_and_complete("a") == 0
    timer.advance(1000)
    assert operation.calls == ["complete"]
    assert operation.tried == 1, "a completed operation is not tried again"


def test_a_completed_operation_stays_in_its_other_lists_until_they_are_looked_at() -> None:
    waiting, _ = purgatory()
    operation = Wait()
    waiting.try_complete_else_watch(operation, ["a", "b", "c"])
    operation.ready = True
    waiting.check_and_complete("a")
    assert (waiting.watched, waiting.delayed) == (2, 0)
    assert waiting.check_and_complete("b") == 0
    assert waiting.watched == 1


def test_completed_operations_are_swept_once_too_many_stayed_behind() -> None:
    waiting, _ = purgatory(purge_interval=3)
    for _ in range(4):
        operation = Wait()
        waiting.try_complete_else_watch(operation, ["busy", "idle"])
        operation.ready = True
        waiting.check_and_complete("busy")
    assert waiting.watched == 4
    last = Wait()
    waiting.try_complete_else_watch(last, ["idle"])
    assert (waiting.watched, waiting.delayed) == (1, 1)


def test_what_was_dropped_everywhere_does_not_count_towards_the_sweep() -> None:
    """A busy long-poll on one key leaves nothing behind, so idle keys are not walked for it."""
    waiting, _ = purgatory(purge_interval=0)
    sleeper = Wait()
    waiting.try_complete_else_watch(sleeper, ["idle"])
    for _ in range(5):
        operation = Wait()
        waiting.try_complete_else_watch(operation, ["busy"])
        operation.ready = True
        waiting.check_and_complete("busy")
        assert waiting.purge() == 0


def test_completing_may_check_the_same_key_again() -> None:
    waiting, _ = purgatory()
    second = Wait()

    def wake_second() -> None:
        second.ready = True
        assert waiting.check_and_complete("a") == 1

    first = Wait(then=wake_second)
    waiting.try_complete_else_watch(first, ["a"])
    waiting.try_complete_else_watch(second, ["a"])
    first.ready = True
    assert waiting.check_and_complete("a") == 1
    assert first.calls == second.calls == ["complete"]
    assert (waiting.watched, waiting.delayed) == (0, 0)


def test_an_event_raised_while_completing_finds_what_was_tried_in_vain_before() -> None:
    """The list is walked in order; what stands before the operation that completes must not miss the new event."""
    waiting, _ = purgatory()
    before = Wait()

    def wake_before() -> None:
        before.ready = True
        waiting.check_and_complete("a")

    after = Wait(then=wake_before)
    waiting.try_complete_else_watch(before, ["a"])
    waiting.try_complete_else_watch(after, ["a"])
    after.ready = True
    waiting.check_and_complete("a")
    assert before.is_completed
    assert (waiting.watched, waiting.delayed) == (0, 0)


def test_completing_may_add_an_operation_under_the_same_key() -> None:
    """A long-polling consumer sends its next fetch from within the reply to the last one."""
    waiting, _ = purgatory()
    following = Wait()
    first = Wait(then=lambda: waiting.try_complete_else_watch(following, ["a"]))
    waiting.try_complete_else_watch(first, ["a"])
    first.ready = True
    assert waiting.check_and_complete("a") == 1
    assert (waiting.watched, waiting.delayed) == (1, 1)
    following.ready = True
    assert waiting.check_and_complete("a") == 1


def test_a_failing_operation_does_not_keep_the_others_waiting() -> None:
    failed: list[tuple[object, Exception]] = []
    timer = Timer(on_error=lambda task, error: failed.append((task, error)))
    waiting: Purgatory[Wait] = Purgatory("test", timer)
    broken, sound = Wait(then=lambda: 1 // 0), Wait()
    waiting.try_complete_else_watch(broken, ["a"])
    waiting.try_complete_else_watch(sound, ["a"])
    broken.ready = sound.ready = True
    waiting.check_and_complete("a")
    assert sound.calls == ["complete"]
    assert [(task, type(error)) for task, error in failed] == [(broken, ZeroDivisionError)]
    assert (waiting.watched, waiting.delayed) == (0, 0)


def test_an_operation_whose_condition_raises_waits_no_more() -> None:
    """It would raise again at every event."""
    failed: list[Exception] = []

    class Broken(Wait):
        def try_complete(self) -> bool:
            if self.ready:
                raise ZeroDivisionError
            return False

        def on_failure(self, error: Exception) -> None:
            failed.append(error)

    waiting, timer = purgatory()
    broken, sound = Broken(), Wait()
    waiting.try_complete_else_watch(broken, ["a"])
    waiting.try_complete_else_watch(sound, ["a"])
    broken.ready = sound.ready = True
    for _ in range(2):
        waiting.check_and_complete("a")
    timer.advance(10_000)
    assert [type(error) for error in failed] == [ZeroDivisionError]
    assert (broken.calls, sound.calls) == ([], ["complete"])
    assert (waiting.watched, waiting.delayed) == (0, 0)


def test_without_a_handler_the_error_of_an_operation_is_raised() -> None:
    waiting, _ = purgatory()
    broken = Wait(then=lambda: 1 // 0)
    waiting.try_complete_else_watch(broken, ["a"])
    broken.ready = True
    with pytest.raises(ZeroDivisionError):
        waiting.check_and_complete("a")
    waiting.check_and_complete("a")
    assert (waiting.watched, waiting.delayed) == (0, 0)


def test_an_operation_may_wait_under_no_key_for_its_deadline_alone() -> None:
    waiting, timer = purgatory()
    operation = Wait()
    waiting.try_complete_else_watch(operation, [])
    assert waiting.delayed == 1
    timer.advance(100)
    assert (waiting.delayed, waiting.purge()) == (0, 0)


def test_an_operation_cannot_wait_twice() -> None:
    waiting, _ = purgatory()
    operation = Wait()
    waiting.try_complete_else_watch(operation, ["a"])
    with pytest.raises(AssertionError, match="waits already"):
        waiting.try_complete_else_watch(operation, ["b"])
