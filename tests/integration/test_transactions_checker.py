"""The checker finds what it is there to find: one history for each anomaly, and some that are in order."""

import pytest

from tests.integration.transaction_histories import Operation, Outcome, Poll, Send, check

C, A, U = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN


def kinds(*operations: Operation, final: dict[str, dict[int, int]] | None = None) -> list[str]:
    return sorted({anomaly.kind for anomaly in check(operations, final)})


def reader(*found: tuple[int, int], key: int = 0, process: str = "reader", has_moved: bool = False) -> Operation:
    return Operation(process, C, polls=[Poll(key, found)], has_moved=has_moved)


def writer(*sends: Send, outcome: Outcome = C, process: str = "writer") -> Operation:
    return Operation(process, outcome, sends=list(sends))


def test_a_history_in_order_has_no_anomalies() -> None:
    assert (
        kinds(
            writer(Send(0, 1, 0), Send(0, 2, 1)),
            writer(Send(0, 3, 3), outcome=A),
            writer(Send(0, 4, 5)),
            reader((0, 1), (1, 2)),
            reader((5, 4)),
        )
        == []
    )


def test_two_values_at_one_offset() -> None:
    assert kinds(writer(Send(0, 1, 0)), writer(Send(0, 2, 0)), reader((0, 1))) == ["inconsistent offset", "lost write"]


def test_one_value_at_two_offsets() -> None:
    assert kinds(writer(Send(0, 1, 0)), reader((0, 1), (1, 1))) == ["duplicate"]


def test_a_value_that_was_never_sent() -> None:
    assert kinds(reader((0, 9))) == ["phantom"]


def test_a_value_that_was_aborted() -> None:
    assert kinds(writer(Send(0, 1, 0), outcome=A), reader((0, 1))) == ["aborted read"]


def test_a_committed_value_that_was_never_read() -> None:
    assert kinds(writer(Send(0, 1, 0)), writer(Send(0, 2, 1)), reader((1, 2))) == ["lost write"]


def test_a_committed_value_beyond_what_was_read_is_not_lost() -> None:
    assert kinds(writer(Send(0, 1, 0)), writer(Send(0, 2, 1)), reader((0, 1))) == []


def test_half_a_transaction_of_unknown_outcome() -> None:
    """Its one value was read, so the other must be there, too."""
    torn = writer(Send(0, 1, 0), Send(1, 2, 0), outcome=U)
    assert kinds(torn, reader((0, 1)), reader((5, 3), key=1), writer(Send(1, 3, 5))) == ["lost write"]


def test_a_transaction_of_unknown_outcome_may_be_gone_altogether() -> None:
    assert kinds(writer(Send(0, 1), Send(1, 2, 0), outcome=U), writer(Send(1, 3, 5)), reader((5, 3), key=1)) == []


def test_sends_out_of_order() -> None:
    assert kinds(writer(Send(0, 1, 5), Send(0, 2, 4))) == ["nonmonotonic send"]


def test_a_consumer_that_goes_backwards() -> None:
    assert kinds(writer(Send(0, 1, 0), Send(0, 2, 1)), reader((0, 1), (1, 2)), reader((0, 1))) == ["nonmonotonic poll"]


def test_a_consumer_that_was_sent_back_may_read_again() -> None:
    again = reader((0, 1), has_moved=True)
    assert kinds(writer(Send(0, 1, 0), Send(0, 2, 1)), reader((0, 1), (1, 2)), again) == []


def test_a_consumer_that_skips_what_others_have_read() -> None:
    sent = writer(Send(0, 1, 0), Send(0, 2, 1), Send(0, 3, 2))
    skips = [reader((0, 1), process="hasty"), reader((2, 3), process="hasty")]
    assert kinds(sent, reader((0, 1), (1, 2), (2, 3)), *skips) == ["poll skip"]


def test_two_transactions_that_have_read_from_each_other() -> None:
    one = Operation("one", C, sends=[Send(0, 1, 0)], polls=[Poll(1, [(0, 2)])])
    two = Operation("two", C, sends=[Send(1, 2, 0)], polls=[Poll(0, [(0, 1)])])
    assert kinds(one, two) == ["cycle"]


def test_a_process_that_reads_what_it_sends_later() -> None:
    early = Operation("one", C, polls=[Poll(0, [(0, 1)])])
    late = Operation("one", C, sends=[Send(0, 1, 0)])
    assert kinds(early, late) == ["cycle"]


@pytest.mark.parametrize(("offset", "expected"), [(4, []), (2, ["torn offsets"]), (7, ["torn offsets"])])
def test_offsets_belong_to_what_was_committed(offset: int, expected: list[str]) -> None:
    first = Operation("one", C, offsets={0: 2})
    second = Operation("one", C, offsets={0: 4})
    third = Operation("one", A, offsets={0: 7})
    assert kinds(first, second, third, final={"one": {0: offset}}) == expected


@pytest.mark.parametrize(("was_read", "offset", "expected"), [
    (True, 4, []),
    (True, 2, ["torn offsets"]),
    (False, 2, []),
    (False, 4, ["torn offsets"]),
])  # fmt: skip
def test_the_offset_of_a_transaction_goes_with_its_records(was_read: bool, offset: int, expected: list[str]) -> None:
    first = Operation("one", C, offsets={0: 2})
    second = Operation("one", U, sends=[Send(1, 5, 0)], offsets={0: 4})
    seen = [reader((0, 5), key=1)] if was_read else []
    assert kinds(first, second, *seen, final={"one": {0: offset}}) == expected
