"""Order by key, driven as the topics drive it: any cut into batches, any outcome, beside what must hold in the end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.present import present
from tidelog.spark.pipeline.failing.ordering import (
    Seen,
    Settled,
    Verdict,
    Waiting,
    any_head_parked,
    apply_changes,
    key_of,
    load_keys,
    settle,
    skip_heads,
)
from tidelog.spark.pipeline.failing.parked_index import ParkedIndex, Run

A = b"a"


def _seen(offset: int, *, failed: bool = False, sequence: int | None = None, dead: bool = False) -> Seen:
    return Seen(A, ("orders", 0, offset), sequence, failed, dead)


def _verdicts(settled: dict) -> list[tuple[str, int | None]]:
    return [(each.verdict.value, each.sequence) for _, each in sorted(settled.items())]


def test_rows_after_a_failed_row_of_their_key_wait_behind_it() -> None:
    settled, changes = settle([_seen(0), _seen(1, failed=True), _seen(2)], {})
    assert _verdicts(settled) == [("emit", None), ("retry", 0), ("park", 1)]
    assert changes == {A: Waiting(0, 2, is_head_parked=False)}


def test_rows_of_other_keys_pass() -> None:
    settled, changes = settle([Seen(b"b", ("orders", 0, 5), None, has_failed=False)], {A: Waiting(0, 1)})
    assert _verdicts(settled) == [("emit", None)]
    assert not changes


def test_when_the_head_is_well_again_the_next_is_tried() -> None:
    settled, changes = settle([_seen(0, sequence=0)], {A: Waiting(0, 3)})
    assert _verdicts(settled) == [("emit", None)]
    assert changes == {A: Waiting(1, 3, is_head_parked=True)}
    assert any_head_parked(apply_changes({}, changes))


def test_a_key_is_free_when_all_that_waited_is_out() -> None:
    rows = [_seen(7, sequence=1), _seen(8, sequence=2), _seen(1)]
    settled, changes = settle(rows, {A: Waiting(1, 3, is_head_parked=True)})
    assert set(_verdicts(settled)) == {("emit", None)}
    assert changes == {A: None}
    assert apply_changes({A: Waiting(1, 3)}, changes) == {}


def test_a_dead_head_lets_the_others_on() -> None:
    settled, changes = settle([_seen(0, sequence=0, failed=True, dead=True)], {A: Waiting(0, 2)})
    assert _verdicts(settled) == [("dead", None)]
    assert changes == {A: Waiting(1, 2, is_head_parked=True)}


def test_a_parked_row_whose_turn_it_is_not_stays_where_it_lies() -> None:
    for state in ({A: Waiting(0, 3)}, {A: Waiting(4, 6)}, {}):
        settled, changes = settle([_seen(4, sequence=2)._replace(is_parked=True)], state)
        assert _verdicts(settled) == [("stay", 2)]
        assert not changes


def test_a_row_that_is_not_next_and_came_from_elsewhere_is_parked() -> None:
    settled, changes = settle([_seen(4, sequence=2)], {A: Waiting(0, 3)})
    assert _verdicts(settled) == [("park", 2)]
    assert not changes


def test_a_next_row_that_is_gone_is_passed_over() -> None:
    keys = {A: Waiting(1, 3, is_head_parked=True), b"b": Waiting(1, 2, is_head_parked=True), b"c": Waiting(0, 2)}
    assert skip_heads(keys, {A, b"b"}) == {A: Waiting(2, 3, is_head_parked=True), b"b": None}


def test_an_unknown_number_is_last_in_line() -> None:
    """The state was deleted: rows are neither lost nor stuck."""
    settled, _ = settle([_seen(4, sequence=9), _seen(5, sequence=10, failed=True)], {})
    assert _verdicts(settled) == [("emit", None), ("retry", 0)]


def test_the_state_of_keys_is_read_back() -> None:
    mine = [(A, Waiting(0, 2).encode()), (b"b", Waiting(1, 4, is_head_parked=True).encode()), (A, None)]
    records = [(key_of("p", key), value) for key, value in mine]
    records.append((key_of("other", b"b"), None))
    assert load_keys("p", records, lambda _: None) == {b"b": Waiting(1, 4, is_head_parked=True)}


@given(st.none() | st.binary(), st.none() | st.binary())
def test_foreign_records_among_the_keys_are_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert len(load_keys("", [(key, value)], lambda _: None)) <= 1


class _World:
    """The topics of one pipeline as lists, and a driver that reads them in batches."""

    def __init__(self, failures: dict[int, int], attempts_max: int, choices: st.DataObject) -> None:
        self.failures = failures
        self.attempts_max = attempts_max
        self.data = choices
        self.main: list[tuple[bytes, int]] = []
        self.retry: list[tuple[bytes, int, int, int]] = []
        self.parked: list[tuple[bytes, int, int, int]] = []
        self.log_start = 0
        self.keys: dict[bytes, Waiting] = {}
        self.index = ParkedIndex()
        self.indexed = 0
        self.output: list[tuple[bytes, int]] = []
        self.dead: list[tuple[bytes, int]] = []

    def batch(self, limit: int) -> None:
        """Read some of each topic, as admission and due times may cut it, and settle it."""
        if self.data.draw(st.integers(0, 9)) == 0:
            self.index, self.indexed = ParkedIndex(), self.log_start  # the driver was started again
        wanted = self._due(limit)
        taken = {"orders": self._take(self.main), "retry": self._take(self.retry)}
        rows = {(topic, 0, offset): row for topic, read in taken.items() for offset, row in enumerate(read)}
        for run in (run for runs in wanted.values() for run in runs):
            assert run.offset >= self.log_start, "a row that is needed was deleted"
            for offset in range(run.offset, run.offset + run.row_count):
                rows["parked", 0, offset] = self.parked[offset]
        seen = []
        for place, row in rows.items():
            attempts, sequence = (row[2], row[3]) if len(row) == 4 else (0, None)
            fails = attempts < self.failures.get(row[1], 0)
            is_dead = fails and attempts + 1 >= self.attempts_max
            seen.append(Seen(row[0], place, sequence, fails, is_dead, place[0] == "parked"))
        settled, changes = settle(seen, self.keys)
        assert settled.keys() == rows.keys()
        for each in sorted(seen, key=lambda each: (each.sequence is None, each.sequence or 0, each.place)):
            self._put(rows[each.place], settled[each.place])
        self.keys = apply_changes(self.keys, changes)
        self.index.learn(wanted, self.keys)
        self.index.keep_waiting(self.keys, list(changes))
        self.log_start = self.index.first_needed({0: self.log_start}, {0: self.indexed}).get(0, self.log_start)

    def _due(self, limit: int) -> dict[bytes, list[Run]]:
        if not any_head_parked(self.keys):
            return {}
        for offset in range(self.indexed, len(self.parked)):
            key, _, _, sequence = self.parked[offset]
            self.index.add(key, Run(0, offset, sequence, 1))
        self.indexed = len(self.parked)
        self.index.keep_waiting(self.keys)
        wanted = self.index.due(self.keys, limit)
        assert all(wanted.values()), "every row that is due is found"
        assert sum(run.row_count for runs in wanted.values() for run in runs) <= limit
        return wanted

    def _take(self, topic: list) -> list:
        count = self.data.draw(st.integers(0, len(topic)))
        taken, topic[:] = topic[:count], topic[count:]
        return taken

    def _put(self, row: tuple, settled: Settled) -> None:
        attempts = row[2] if len(row) == 4 else 0
        if settled.verdict is Verdict.EMIT:
            self.output.append(row[:2])
        elif settled.verdict is Verdict.DEAD:
            self.dead.append(row[:2])
        elif settled.verdict is Verdict.RETRY:
            self.retry.append((row[0], row[1], attempts + 1, present(settled.sequence)))
        elif settled.verdict is Verdict.PARK:
            self.parked.append((row[0], row[1], attempts, present(settled.sequence)))

    @property
    def is_empty(self) -> bool:
        return not (self.main or self.retry or self.keys)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=25), st.data())
def test_every_row_comes_out_once_and_in_its_keys_order(keys: list[bytes], data: st.DataObject) -> None:
    """However topics are cut into batches, and however often rows fail: nothing lost, nothing twice, order kept."""
    rows = [(key, number) for number, key in enumerate(keys)]
    failures = {number: data.draw(st.sampled_from([0, 0, 0, 1, 2, 5])) for _, number in rows}
    world = _World(failures, 3, data)
    world.main = list(rows)
    for _ in range(40):
        world.batch(data.draw(st.integers(1, 30)))
    for _ in range(200):
        if world.is_empty:
            break
        _drain(world)
    assert world.is_empty
    assert len(world.parked) <= len(rows), "no row is parked twice"
    assert world.log_start == world.indexed, "nothing is kept that does not wait"
    assert sorted(world.output + world.dead, key=lambda row: row[1]) == rows
    assert {number for _, number in world.dead} == {number for number, times in failures.items() if times >= 3}
    for key in set(keys):
        assert [row for row in world.output if row[0] == key] == sorted(row for row in world.output if row[0] == key)
        assert [row for row in world.dead if row[0] == key] == sorted(row for row in world.dead if row[0] == key)


def _drain(world: _World) -> None:
    """A batch that reads all there is."""

    def take(topic: list) -> list:
        taken, topic[:] = list(topic), []
        return taken

    world._take = take  # type: ignore[method-assign]
    world.batch(1000)
