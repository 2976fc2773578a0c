"""One request that cannot be answered fails alone: the rest of the turn is written and answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.config import LogConfig
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.follower_state import FollowerState
from tidelog.replication.partition import Partition
from tidelog.replication.produce import DelayedProduce, PendingAppend, PendingProduce
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.types import LogRead
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import FetchPartition


class FakeSlot:
    """Where a reply goes, and what became of it."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken
        self.replies: list[bytes] = []
        self.failures: list[tuple[str, Exception]] = []
        self.is_parked = False

    def park(self) -> None:
        self.is_parked = True

    def fill(self, reply: bytes) -> None:
        if self.is_broken:
            raise ZeroDivisionError
        self.replies.append(reply)

    def fail(self, api: str, cause: Exception) -> None:
        self.failures.append((api, cause))


class FakeLog:
    """A log of which everything staged is written in the turn, unless it is broken."""

    parent_directory = "/data"
    config = LogConfig()
    is_due = is_flush_due = False
    log_start_offset = 0

    def __init__(self) -> None:
        self.positions = self.flush_state = self
        self.written = 0
        self.high_watermark = 0
        self.is_broken = False
        self.is_unstable = False

    def on_converted(self, _callback: object) -> None:
        """Nothing is converted here."""

    @property
    def last_stable_offset(self) -> int:
        if self.is_unstable:
            raise ZeroDivisionError
        return self.high_watermark

    @property
    def durable_end_offset(self) -> int:
        return self.written

    log_end_offset = durable_end_offset

    def write_staged(self) -> None:
        if self.is_broken:
            raise ZeroDivisionError
        self.written = 1

    def read(self, *_: object) -> LogRead:
        return LogRead(None, 0, 0, False)

    def aborted_transactions(self, *_: object) -> list[object]:
        return []

    def update_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset


class World:
    """A replica manager with two partitions, `t-0` and `t-1`, and the failures that were reported."""

    def __init__(self) -> None:
        self.reported: list[object] = []
        self.clock = ManualClock()
        self.timer = Timer(0, on_error=lambda failed, _: self.reported.append(failed))
        self.gone: list[LogDirFailure] = []
        self.manager = ReplicaManager(1, self.clock, self.timer, self.on_gone, lambda *_: None, lambda: None)
        self.partitions = [self._add(0), self._add(1)]

    def _add(self, index: int) -> Partition:
        log: Any = FakeLog()
        partition = self.manager.add_partition("t", index, bytes(16), log)
        partition.is_leader = True
        return partition

    def on_gone(self, failure: LogDirFailure) -> None:
        self.gone.append(failure)
        raise ZeroDivisionError

    def produce(self, slot: FakeSlot, *indexes: int) -> PendingProduce:
        """One that waits for a batch in each of the partitions, the first unless said otherwise."""
        batches = [(self.partitions[index], 1) for index in indexes or (0,)]
        return PendingProduce(batches, -1, 1000, lambda _: slot.fill(b"produced"), slot)

    def own_append(self, on_committed: Callable[[ErrorCode, int], None]) -> PendingAppend:
        return PendingAppend(self.partitions[0], 0, 1, 1000, on_committed)

    def stage(self, index: int = 0) -> None:
        self.manager.staged(self.partitions[index])


PARAMETERS = FetchParameters(-1, 1000, 1, 1000, 1, is_first_batch_whole=True)


@pytest.mark.parametrize("indexes", [(0,), (0, 1)])
def test_a_produce_that_cannot_be_answered_fails_alone(indexes: tuple[int, ...]) -> None:
    """The requests behind it in the same turn are answered."""
    world = World()
    broken, before, after = FakeSlot(is_broken=True), FakeSlot(), FakeSlot()
    for index in indexes:
        world.stage(index)
    for slot in (before, broken, after):
        world.manager.answer_when_written(world.produce(slot, *indexes))
    world.manager.end_turn()
    assert len(before.replies) == len(after.replies) == 1
    assert [(api, type(cause)) for api, cause in broken.failures] == [("Produce", ZeroDivisionError)]


def test_a_produce_that_waits_beyond_its_turn_holds_no_place_among_the_queued_requests() -> None:
    """A follower's fetch, which it waits for, must find room."""
    world = World()
    waiting, answered = FakeSlot(), FakeSlot()
    partition = world.partitions[0]
    replica_set = partition.replica_set
    replica_set.replicas = replica_set.isr = replica_set.maximal_isr = (1, 2)
    replica_set.followers = {2: FollowerState()}
    world.stage(0)
    world.stage(1)
    world.manager.answer_when_written(world.produce(waiting, 0))
    world.manager.answer_when_written(world.produce(answered, 1))
    world.manager.end_turn()
    assert (waiting.is_parked, answered.is_parked) == (True, False)
    assert (len(waiting.replies), len(answered.replies)) == (0, 1)


def test_a_coordinators_append_behind_a_broken_reply_is_committed() -> None:
    """Otherwise all later commits of the partition would wait for it."""
    world = World()
    outcomes: list[tuple[ErrorCode, int]] = []
    world.stage()
    world.manager.answer_when_written(world.produce(FakeSlot(is_broken=True)))
    world.manager.answer_when_written(world.own_append(lambda code, offset: outcomes.append((code, offset))))
    world.manager.end_turn()
    assert outcomes == [(ErrorCode.NONE, 0)]


def test_a_broken_continuation_of_the_brokers_own_is_reported_and_passed_over() -> None:
    world = World()
    slot = FakeSlot()

    def break_down(_code: ErrorCode, _first_offset: int) -> None:
        raise ZeroDivisionError

    own = world.own_append(break_down)
    world.stage()
    world.manager.answer_when_written(own)
    world.manager.answer_when_written(world.produce(slot))
    world.manager.end_turn()
    assert world.reported == [own]
    assert len(slot.replies) == 1


def test_a_log_that_cannot_be_written_leaves_the_others_of_the_turn_alone() -> None:
    """By a mistake of ours: a disk that refuses takes its directory offline."""
    world = World()
    first, second = FakeSlot(), FakeSlot()
    log: Any = world.partitions[0].log
    log.is_broken = True
    for index, slot in enumerate((first, second)):
        world.stage(index)
        world.manager.answer_when_written(world.produce(slot, index))
    world.manager.end_turn()
    assert (len(first.replies), len(second.replies)) == (0, 1)
    world.clock.advance(1000)
    world.timer.advance(world.clock.monotonic_ms())
    assert len(first.replies) == 1, "it timed out"


@pytest.mark.parametrize("ends_by", ["event", "deadline"])
def test_a_delayed_produce_that_cannot_be_answered_fails_alone(ends_by: str) -> None:
    """Its connection fails, as it would otherwise wait for an answer that never comes."""
    world = World()
    slots = [FakeSlot(is_broken=True), FakeSlot()]
    for slot in slots:
        delayed = DelayedProduce(world.produce(slot), 1000)
        world.manager.produce_purgatory.try_complete_else_watch(delayed, [("t", 0)])
    if ends_by == "event":
        world.stage()
        world.manager.end_turn()
    else:
        world.timer.advance(1000)
    assert [api for api, _ in slots[0].failures] == ["Produce"]
    assert len(slots[1].replies) == 1
    assert world.manager.produce_purgatory.delayed == 0


@pytest.mark.parametrize("ends_by", ["event", "deadline", "a broken read"])
def test_a_delayed_fetch_that_cannot_be_answered_fails_alone(ends_by: str) -> None:
    """It is not tried again at the next append."""
    world = World()
    failures: list[Exception] = []

    def break_down(_replies: object) -> None:
        raise ZeroDivisionError

    wanted = [Wanted("t", "t", FetchPartition(0, 0, 1000))]
    answered: list[object] = []
    world.manager.fetch(PARAMETERS, wanted, break_down, failures.append)
    world.manager.fetch(PARAMETERS._replace(isolation_level=0), wanted, answered.append, failures.append)
    if ends_by == "deadline":
        world.timer.advance(1000)
    else:
        log: Any = world.partitions[0].log
        log.is_unstable = ends_by == "a broken read"
        world.stage()
        world.manager.end_turn()
    assert [type(error) for error in failures][:1] == [ZeroDivisionError]
    assert len(answered) + len(failures) == 2
    assert world.manager.fetch_purgatory.delayed == 0
    assert world.reported == []


def test_a_failed_directory_is_announced_to_those_who_wait_even_if_the_listener_fails() -> None:
    world = World()
    slot = FakeSlot()
    world.manager.produce_purgatory.try_complete_else_watch(DelayedProduce(world.produce(slot), 1000), [("t", 0)])
    failure = LogDirFailure("/data", OSError("gone"))
    world.manager.fail_log_dir(failure)
    assert world.reported == [failure]
    assert len(slot.replies) == 1
