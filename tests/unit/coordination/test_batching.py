"""Decisions of one turn share a batch: in order, answered together, and never ahead of a log that refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.coordination.fakes import FakeLog, Numbers
from tidelog.coordination import Batching, CoordinatorRuntime, Decision, ProducerEpoch, ShardState
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ApiError, ErrorCode

BYTES_MAX = 400


class World:
    """A runtime whose turns end on request."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = FakeLog()
        self.replies: list[Any] = []
        self.bytes_max: int | ErrorCode = BYTES_MAX
        self._before_write: list[Callable[[], None]] = []
        batching = Batching(self._bytes_max, self._before_write.append, self._reload)
        self.runtime: CoordinatorRuntime[Numbers] = CoordinatorRuntime(
            Numbers, self.log.append, self.log.await_commit, self.clock, self.timer, batching=batching
        )
        self.runtime.load(0, [])
        self.runtime.load(1, [])

    def _bytes_max(self, _partition: int) -> int:
        if isinstance(self.bytes_max, ErrorCode):
            raise ApiError(self.bytes_max)
        return self.bytes_max

    def _reload(self, partition: int) -> None:
        self.runtime.load(partition, self.log.batches)

    def ask(self, operation: Callable[[Numbers], Decision[Any]], partition: int = 0) -> None:
        self.runtime.execute(partition, lambda shard, _now_ms: operation(shard), self.replies.append)

    def set(self, key: bytes, value: bytes | None, partition: int = 0) -> None:
        self.ask(lambda shard: shard.set(key, value), partition)

    def end_turn(self) -> None:
        callbacks, self._before_write[:] = list(self._before_write), []
        for callback in callbacks:
            callback()

    @property
    def codes(self) -> list[ErrorCode]:
        return [reply.code for reply in self.replies if isinstance(reply, ApiError)]

    def appended(self) -> list[list[tuple[bytes | None, bytes | None]]]:
        return [[(record.key, record.value) for record in iterate_records(batch)] for batch in self.log.batches]


@pytest.fixture
def world() -> World:
    return World()


def test_the_decisions_of_a_turn_are_one_batch(world: World) -> None:
    for number in range(3):
        world.set(b"k%d" % number, b"v")
    assert world.log.batches == []
    world.end_turn()
    assert world.appended() == [[(b"k0", b"v"), (b"k1", b"v"), (b"k2", b"v")]]
    assert world.replies == []
    world.log.commit()
    assert world.replies == ["set"] * 3


def test_the_next_decision_sees_what_the_turn_has_changed(world: World) -> None:
    world.set(b"a", b"1")
    world.ask(lambda shard: shard.get(b"a"))
    assert world.replies == [], "its records are not committed"
    world.end_turn()
    world.log.commit()
    assert world.replies == ["set", b"1"]


def test_partitions_have_batches_of_their_own(world: World) -> None:
    world.set(b"a", b"1", partition=0)
    world.set(b"b", b"2", partition=1)
    world.set(b"c", b"3", partition=0)
    world.end_turn()
    assert world.appended() == [[(b"a", b"1"), (b"c", b"3")], [(b"b", b"2")]]


def test_each_turn_has_a_batch_of_its_own(world: World) -> None:
    for key in (b"a", b"b"):
        world.set(key, b"1")
        world.end_turn()
    world.end_turn()
    assert world.appended() == [[(b"a", b"1")], [(b"b", b"1")]]


def test_a_full_batch_is_appended_and_another_begun(world: World) -> None:
    for number in range(9):
        world.set(b"k%d" % number, b"v" * 50)
    world.end_turn()
    assert [key for batch in world.appended() for key, _ in batch] == [b"k%d" % number for number in range(9)]
    assert max(map(len, world.log.batches)) <= BYTES_MAX
    assert len(world.log.batches) > 2


def test_records_that_no_shared_batch_takes_are_appended_alone(world: World) -> None:
    """The log refuses them, or compression makes them fit."""
    world.set(b"a", b"1")
    world.set(b"large", b"v" * BYTES_MAX)
    world.set(b"b", b"2")
    world.end_turn()
    assert [[key for key, _ in batch] for batch in world.appended()] == [[b"a"], [b"large"], [b"b"]]


def test_a_transaction_and_its_marker_keep_their_places_in_the_log(world: World) -> None:
    producer = ProducerEpoch(7, 1)
    world.set(b"a", b"1")
    world.ask(lambda _: Decision("pending", ((b"b", b"2"),), producer=producer))
    world.set(b"c", b"3")
    world.runtime.end_transaction(0, producer, 0, True, world.replies.append)
    world.set(b"d", b"4")
    world.end_turn()
    headers = [read_header(batch) for batch in world.log.batches]
    assert [(header.is_transactional, header.is_control) for header in headers] == [
        (False, False),
        (True, False),
        (False, False),
        (True, True),
        (False, False),
    ]
    world.log.commit()
    assert world.replies == ["set", "pending", "set", None, "set"]
    world.runtime.load(0, world.log.batches)
    assert world.runtime.shard(0).values == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}


def test_a_decision_with_a_follow_up_keeps_its_place_in_the_log(world: World) -> None:
    world.set(b"a", b"1")
    world.ask(lambda shard: shard.set_and_note(b"b", b"2"))
    world.set(b"c", b"3")
    world.end_turn()
    assert [[key for key, _ in batch] for batch in world.appended()] == [[b"a"], [b"b"], [b"c"]]


@pytest.mark.parametrize(
    ("refusal", "answer", "state"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ShardState.ACTIVE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, ShardState.NOT_HERE),
    ],
)
def test_a_log_that_takes_nothing_refuses_before_anything_is_replayed(
    world: World, refusal: ErrorCode, answer: ErrorCode, state: ShardState
) -> None:
    shard = world.runtime.shard(0)
    world.bytes_max = refusal
    world.set(b"a", b"1")
    assert world.codes == [answer]
    assert shard.values == {}
    assert world.runtime.state_of(0) is state


def test_a_batch_that_is_refused_at_last_brings_the_shard_back_to_its_log(world: World) -> None:
    """Its records were replayed and are not in the log; nothing may be decided upon them."""
    world.set(b"a", b"1")
    world.end_turn()
    world.log.commit()
    world.set(b"a", b"2")
    world.set(b"b", b"2")
    world.ask(lambda shard: shard.get(b"b"))
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.end_turn()
    assert world.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert world.runtime.shard(0).values == {b"a": b"1"}
    world.log.refusal = None
    world.set(b"b", b"3")
    world.end_turn()
    world.log.commit()
    assert world.replies[-1] == "set"


def test_a_batch_that_is_refused_takes_those_behind_it_along(world: World) -> None:
    world.set(b"a", b"1")
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.ask(lambda shard: shard.set_and_note(b"b", b"2"))
    assert world.codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
    assert world.runtime.shard(0).values == {}
    assert world.log.batches == []


def test_a_lost_log_takes_its_shard_along(world: World) -> None:
    world.set(b"a", b"1")
    world.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    world.end_turn()
    assert world.codes == [ErrorCode.NOT_COORDINATOR]
    assert world.runtime.state_of(0) is ShardState.NOT_HERE


def test_a_partition_that_leaves_within_a_turn_appends_nothing(world: World) -> None:
    world.set(b"a", b"1")
    world.runtime.unload(0)
    world.end_turn()
    assert world.codes == [ErrorCode.NOT_COORDINATOR]
    assert world.log.batches == []


def test_records_that_cannot_be_replayed_fail_their_request_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.timer.on_error = lambda *_: None
    world.set(b"a", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(Numbers, "replay", lambda *_: 1 // 0)
        world.set(b"b", b"2")
    world.set(b"c", b"3")
    world.end_turn()
    world.log.commit()
    assert [getattr(reply, "code", reply) for reply in world.replies] == ["set", ErrorCode.UNKNOWN_SERVER_ERROR, "set"]
