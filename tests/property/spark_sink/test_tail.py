"""The end of a log with open transactions, against a model that looks at every record and its marker."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.spark.sink.tail import LogTail

KEYS = (b"ours", b"theirs")


class Step(NamedTuple):
    """A producer writes a record of a key, or its transaction ends."""

    producer_id: int
    key: bytes | None
    is_commit: bool = False


steps = st.lists(
    st.builds(Step, st.integers(1, 3), st.sampled_from([None, *KEYS]), st.booleans()), min_size=1, max_size=30
)


def encoded(step: Step, offset: int) -> bytes:
    if step.key is None:
        return build_end_transaction_marker(
            is_commit=step.is_commit,
            producer_id=step.producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    return build_batch(
        [Record(offset, 0, step.key, b"%d" % offset, ())],
        base_offset=offset,
        producer_id=step.producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def model(log: list[Step]) -> tuple[int | None, list[int]]:
    """The last committed offset of our key, and the offsets in doubt: one for each producer, its latest."""
    committed: list[int] = []
    doubtful: dict[int, int] = {}
    for offset, step in enumerate(log):
        if step.key == KEYS[0]:
            doubtful[step.producer_id] = offset
        elif step.key is None and step.producer_id in doubtful:
            ended = doubtful.pop(step.producer_id)
            committed += [ended] if step.is_commit else []
    return max(committed, default=None), sorted(doubtful.values())


@settings(deadline=None, max_examples=examples(100))
@given(log=steps, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_markers_tell_what_was_committed_however_the_log_is_fetched(log: list[Step], cuts: list[int]) -> None:
    """Fetches may begin before the position they were asked for, with batches that were read already."""
    tail = LogTail(KEYS[0], None)
    position = 0
    for end in sorted({*[min(cut, len(log)) for cut in cuts], len(log)}):
        first = max(position - 1, 0)
        fetched = b"".join(encoded(log[offset], offset) for offset in range(first, end))
        position = tail.read(fetched, position)

    committed, doubtful = model(log)
    assert position == len(log)
    assert (None if tail.committed is None else tail.committed.offset) == committed
    assert [record.offset for record in tail.in_doubt] == doubtful


def test_what_was_known_before_stays_until_something_later_is_committed() -> None:
    known = Record(3, 0, KEYS[0], b"3", ())
    tail = LogTail(KEYS[0], known)
    tail.read(encoded(Step(1, KEYS[0]), 5), 4)
    assert tail.committed == known

    tail.read(encoded(Step(1, None, is_commit=True), 6), 6)
    assert tail.committed is not None
    assert tail.committed.offset == 5


def test_a_record_without_transaction_counts_at_once() -> None:
    tail = LogTail(KEYS[0], None)
    tail.read(build_batch([Record(0, 0, KEYS[0], b"by hand", ())]), 0)

    assert tail.committed is not None
    assert tail.in_doubt == []
