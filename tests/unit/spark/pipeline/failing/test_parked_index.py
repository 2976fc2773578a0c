"""Where parked rows lie: what is read, how much of it, and what may be deleted."""

from tidelog.spark.pipeline.failing.ordering import Waiting
from tidelog.spark.pipeline.failing.parked_index import QUOTA_FACTOR, QUOTA_FIRST, ParkedIndex, Run

A, B = b"a", b"b"


def _due(head: int, tail: int) -> Waiting:
    return Waiting(head, tail, is_head_parked=True)


def test_what_is_due_is_read_across_runs_and_no_further_than_numbers_follow() -> None:
    index = ParkedIndex()
    index.add(A, Run(0, 10, 1, 3))
    index.add(A, Run(1, 50, 4, 2))
    index.add(A, Run(1, 70, 9, 2))

    assert index.due({A: _due(2, 11)}, 100) == {A: [Run(0, 11, 2, 2), Run(1, 50, 4, 2)]}
    assert index.due({A: Waiting(2, 11)}, 100) == {}, "its head is in a retry topic"


def test_the_limit_is_shared_and_oldest_rows_come_first() -> None:
    index = ParkedIndex()
    index.add(A, Run(0, 100, 1, 50))
    index.add(B, Run(0, 200, 1, 50))
    wanted = index.due({B: _due(1, 51), A: _due(1, 51)}, 20)
    assert wanted == {A: [Run(0, 100, 1, 10)], B: [Run(0, 200, 1, 10)]}
    assert list(index.due({B: _due(1, 51), A: _due(1, 51)}, 1)) == [A]


def test_a_number_that_was_used_before_is_where_it_was_parked_last() -> None:
    index = ParkedIndex()
    index.add(A, Run(0, 0, 1, 5))
    index.add(A, Run(0, 9, 2, 2))
    assert index.due({A: _due(1, 6)}, 100) == {A: [Run(0, 0, 1, 1), Run(0, 9, 2, 2), Run(0, 3, 4, 2)]}


def test_a_key_whose_row_is_gone_has_nothing_to_read() -> None:
    assert ParkedIndex().due({A: _due(1, 2)}, 100) == {A: []}


def test_more_is_read_while_all_goes_out_and_few_after_a_failure() -> None:
    index = ParkedIndex()
    index.add(A, Run(0, 0, 1, 10_000))

    def read(head: int, after: Waiting) -> int:
        wanted = index.due({A: _due(head, 10_001)}, 10_000)
        index.learn(wanted, {A: after})
        return sum(run.row_count for run in wanted[A])

    assert read(1, _due(1 + QUOTA_FIRST, 10_001)) == QUOTA_FIRST
    assert read(65, Waiting(70, 10_001)) == QUOTA_FIRST * QUOTA_FACTOR
    assert read(71, Waiting(71, 10_001)) == 10, "twice what went out before the row that failed"
    assert read(72, _due(73, 10_001)) == 1


def test_records_are_deleted_up_to_the_first_that_waits_or_is_not_ours() -> None:
    index = ParkedIndex()
    index.add(A, Run(0, 10, 1, 5))
    index.add(B, Run(1, 0, 1, 5))
    index.add_foreign(1, 3, 2)
    starts, ends = {0: 0, 1: 0, 2: 0}, {0: 15, 1: 8, 2: 4}

    index.keep_waiting({A: _due(3, 6), B: _due(1, 6)})
    assert index.first_needed(starts, ends) == {0: 12, 1: 0, 2: 4}
    index.keep_waiting({A: Waiting(3, 6)}, [A, B])
    assert index.first_needed(starts, ends) == {0: 13, 1: 3, 2: 4}
    assert index.first_needed({**starts, 1: 5}, ends)[1] == 8, "the other pipeline has deleted its own"
