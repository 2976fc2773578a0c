"""How far the ladder's own topics are read, on a cluster made of lists of times."""

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.failing.held_back import HeldBackView

MAIN = TopicPartition("orders", 0)
RETRY = TopicPartition("orders.retry.1", 0)
PARKED = TopicPartition("orders.retry.parked", 0)


class _Cluster:
    """Records as their timestamps."""

    def __init__(self, records: dict[TopicPartition, list[int]]) -> None:
        self.records = records

    def partitions(self, known: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        return sorted(self.records)

    def topic_ids(self) -> Mapping[str, bytes]:
        return {}

    def missing(self) -> list[str]:
        return []

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int]:
        return {each: len(self.records[each]) for each in partitions}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            each: next((at for at, stamp in enumerate(self.records[each]) if stamp >= time), None)
            for each, time in times.items()
        }


def _view(records: dict[TopicPartition, list[int]], now_ms: int) -> HeldBackView:
    return HeldBackView(_Cluster(records), {RETRY.topic: 1_000}, PARKED.topic, lambda: now_ms)


def test_a_retry_topic_is_read_up_to_the_first_record_that_is_not_due() -> None:
    view = _view({MAIN: [5_000], RETRY: [1_000, 2_000, 3_000]}, now_ms=3_000)
    assert view.latest([MAIN, RETRY]) == {MAIN: 1, RETRY: 2}


def test_when_all_is_due_it_is_read_to_the_end() -> None:
    assert _view({RETRY: [1_000, 2_000]}, now_ms=9_000).latest([RETRY]) == {RETRY: 2}


def test_an_older_record_behind_a_younger_one_waits_with_it_and_is_not_lost() -> None:
    records = {RETRY: [5_000, 1_000]}
    assert _view(records, now_ms=5_500).latest([RETRY], {RETRY: 0}) == {RETRY: 0}
    assert _view(records, now_ms=6_000).latest([RETRY], {RETRY: 0}) == {RETRY: 2}


def test_reading_never_goes_back_behind_what_was_read() -> None:
    """A clock that is set back must not look like lost data."""
    assert _view({RETRY: [1_000, 2_000]}, now_ms=0).latest([RETRY], {RETRY: 1}) == {RETRY: 1}


def test_the_parked_topic_is_not_read_by_the_stream_even_if_a_pattern_names_it() -> None:
    assert _view({MAIN: [], PARKED: [0, 0]}, 0).partitions() == [MAIN]


@given(st.lists(st.integers(0, 5_000), max_size=20), st.integers(0, 7_000), st.integers(0, 20))
def test_nothing_is_read_before_it_is_due(stamps: list[int], now_ms: int, read: int) -> None:
    start = min(read, len(stamps))
    end = _view({RETRY: stamps}, now_ms).latest([RETRY], {RETRY: start})[RETRY]
    assert start <= end <= len(stamps)
    assert all(stamp + 1_000 <= now_ms for stamp in stamps[start:end])
