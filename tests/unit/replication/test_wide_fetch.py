"""Fetches of many partitions give what a fetch gives, in steps, and a change costs the look at one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.unit.steps import counted, done
from tests.unit.storage.logs import append, batch, make_log
from tidelog.replication.fetch import FetchParameters, Wanted, read_partitions
from tidelog.replication.partition import Partition
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.replication.wide_fetch import PARTITIONS_AT_ONCE, WideFetch
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import FetchPartition

WAIT_MS = 500
BATCH_BYTES = len(batch(b"v" * 100))
LOGS = 3
COUNT = 2 * PARTITIONS_AT_ONCE + 10
REPEATED = [number % LOGS for number in range(COUNT)]
"""Partitions to read: the few that exist, again and again."""


class CountingManager(ReplicaManager):
    looked_at = 0

    def partition(self, topic: str, index: int) -> Partition:
        self.looked_at += 1
        return super().partition(topic, index)


def _refuse(error: Exception) -> None:
    raise error


def _refuse_flush(_log: Log, _then: Callable[[], None]) -> None:
    raise AssertionError("nothing is flushed")


class Readers:
    """A broker with a few logs, and fetches that want many partitions of it."""

    def __init__(self, logs: list[Log]) -> None:
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.manager = CountingManager(1, self.clock, self.timer, _refuse, _refuse_flush, lambda: None)
        self.logs = logs
        for index, log in enumerate(logs):
            self.manager.add_partition("topic", index, bytes(16), log).make_leader(0, (1,), (1,))
        self.completed = 0

    def append(self, index: int) -> None:
        append(self.logs[index], b"v" * 100)
        self.manager.staged(self.manager.partition("topic", index))
        self.manager.end_turn()

    def fetch(self, *, min_bytes: int, max_bytes: int = 50 << 20, indexes: Sequence[int] = REPEATED) -> WideFetch:
        parameters = FetchParameters(-1, WAIT_MS, min_bytes, max_bytes, 0, is_first_batch_whole=True)
        wanted = [Wanted("topic", "topic", FetchPartition(index, 0, 1 << 20)) for index in indexes]
        fetch = WideFetch(self.manager, parameters, wanted, self._on_complete, _refuse, WAIT_MS)
        self.manager.wide_fetches.add(fetch)
        return fetch

    def _on_complete(self) -> None:
        self.completed += 1

    def wait(self, fetch: WideFetch) -> None:
        self.manager.fetch_purgatory.try_complete_else_watch(fetch, (), self.clock.monotonic_ms())

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Readers]:
    logs = []
    for index in range(LOGS):
        (tmp_path / str(index)).mkdir()
        logs.append(make_log(tmp_path / str(index)))
    yield Readers(logs)
    for log in logs:
        log.close()


@pytest.mark.parametrize("max_bytes", [1, BATCH_BYTES, 5 * BATCH_BYTES + 7, 700 * BATCH_BYTES, 50 << 20])
def test_it_reads_in_steps_what_is_read_at_once(readers: Readers, max_bytes: int) -> None:
    """The limit of the whole request is shared by all partitions, and only the first batch of all may exceed it."""
    for index in (0, 1, 1):
        readers.append(index)
    fetch = readers.fetch(min_bytes=1, max_bytes=max_bytes)
    (replies, is_enough), pauses = counted(fetch.reading())
    expected, _, _ = read_partitions(readers.manager, fetch._parameters, fetch._wanted)
    sizes = [reply.records and reply.records.length for reply in replies]  # type: ignore[union-attr]
    assert sizes == [reply.records and reply.records.length for reply in expected]  # type: ignore[union-attr]
    assert [reply[:5] for reply in replies] == [reply[:5] for reply in expected]
    assert is_enough
    assert pauses == 2


def test_an_error_is_answered_at_once(readers: Readers) -> None:
    replies, is_enough = done(readers.fetch(min_bytes=1_000_000, indexes=range(COUNT)).reading())
    assert is_enough
    assert replies[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_change_costs_the_look_at_one_partition(readers: Readers) -> None:
    """With every partition looked at, one client that waits for many held the loop at each append of others."""
    fetch = readers.fetch(min_bytes=3 * BATCH_BYTES)
    _, is_enough = done(fetch.reading())
    assert not is_enough
    readers.wait(fetch)
    for expected, index in ((0, 0), (0, 1), (1, 0)):
        before = readers.manager.looked_at
        readers.append(index)
        assert readers.manager.looked_at - before <= 3
        assert readers.completed == expected, "three batches are enough"
    replies, _ = done(fetch.reading(has_waited=True))
    assert [reply.records and reply.records.length for reply in replies[:3]] == [  # type: ignore[union-attr]
        2 * BATCH_BYTES,
        BATCH_BYTES,
        None,
    ]


def test_a_change_while_partitions_are_read_is_not_missed(readers: Readers) -> None:
    fetch = readers.fetch(min_bytes=1, indexes=[0] * PARTITIONS_AT_ONCE + [1] * PARTITIONS_AT_ONCE)
    steps = fetch.reading()
    next(steps)
    readers.append(0)
    _, is_enough = done(steps)
    assert not is_enough, "it was appended after its partition was read"
    assert readers.completed == 0
    readers.wait(fetch)
    assert readers.completed == 1


def test_it_waits_no_longer_than_it_was_asked_to(readers: Readers) -> None:
    fetch = readers.fetch(min_bytes=1)
    done(fetch.reading())
    readers.wait(fetch)
    readers.pass_time(WAIT_MS - 1)
    assert readers.completed == 0
    readers.pass_time(2)
    assert readers.completed == 1
