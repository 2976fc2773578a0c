"""The purgatory beside a dictionary of who waits for what."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.timing import DelayedOperation, Purgatory, Timer

KEYS = "abcd"
keys = st.lists(st.sampled_from(KEYS), max_size=4, unique=True)
watch = st.tuples(st.just("watch"), keys, st.integers(0, 3), st.integers(0, 60))
event = st.tuples(st.just("event"), st.sampled_from(KEYS), st.integers(0, 5), st.just(0))
elapse = st.tuples(st.just("elapse"), st.integers(0, 50), st.just(0), st.just(0))
force = st.tuples(st.just("force"), st.integers(0, 99), st.just(0), st.just(0))
steps = st.lists(st.one_of(watch, watch, event, event, elapse, force), max_size=80)


class Counter(DelayedOperation):
    """Waits until the sum of its keys' counts has grown by `need`."""

    def __init__(self, deadline_ms: int, keys: list[str], need: int, counts: dict[str, int]) -> None:
        super().__init__(deadline_ms)
        self.keys = keys
        self.counts = counts
        self.target = need + self.total()
        self.completions = 0
        self.expirations = 0

    def total(self) -> int:
        return sum(self.counts[key] for key in self.keys)

    def try_complete(self) -> bool:
        return self.total() >= self.target and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


@settings(deadline=None, max_examples=examples(150))
@given(steps=steps, purge_interval=st.sampled_from([0, 1, 5, 1000]))
def test_each_operation_completes_once_at_the_first_event_that_suffices_or_at_its_deadline(
    steps: list[tuple], purge_interval: int
) -> None:
    now_ms = 0
    timer = Timer(now_ms)
    purgatory: Purgatory[Counter] = Purgatory("model", timer, purge_interval)
    counts = dict.fromkeys(KEYS, 0)
    waiting: list[Counter] = []
    everyone: list[Counter] = []
    for step, what, number, delay_ms in steps:
        completed: list[Counter] = []
        expired: list[Counter] = []
        if step == "watch":
            operation = Counter(now_ms + delay_ms, what, number, counts)
            everyone.append(operation)
            assert purgatory.try_complete_else_watch(operation, what, now_ms) == (number == 0)
            (completed if number == 0 else waiting).append(operation)
        elif step == "event":
            counts[what] += number
            completed = [each for each in waiting if what in each.keys and each.total() >= each.target]
            assert purgatory.check_and_complete(what) == len(completed)
        elif step == "elapse":
            now_ms += what
            timer.advance(now_ms)
            completed = expired = [each for each in waiting if each.deadline_ms <= now_ms]
        elif step == "force" and waiting:
            completed = [waiting[what % len(waiting)]]
            assert completed[0].force_complete()
        assert all(each.completions == 1 for each in completed)
        assert all(each.expirations == 1 for each in expired)
        waiting = [each for each in waiting if each not in completed]
        assert not any(each.is_completed for each in waiting)
        assert all(each.completions <= 1 for each in everyone)
        assert purgatory.delayed == len(waiting) == len(timer)
        assert purgatory.watched >= sum(len(each.keys) for each in waiting)
    purgatory.purge()
    assert purgatory.watched == sum(len(each.keys) for each in waiting)
    assert purgatory._stale == 0
