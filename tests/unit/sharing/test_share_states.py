"""The state of share partitions: epochs that fence, updates and snapshots, and what becomes of the log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.groups.world import Call, Log
from tidelog.coordination import CoordinatorRuntime
from tidelog.sharing.runs import StateBatch
from tidelog.sharing.schemas import SNAPSHOT, UPDATE, SchemaError, ShareKey, encode_key, read_key
from tidelog.sharing.state import NO_START, ShareState, ShareStateSettings, ShareStateShard
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ErrorCode

TOPIC = b"topic".ljust(16, b"\0")
KEY = ShareKey("work", TOPIC, 3)


class StateWorld:
    """One shard behind its runtime."""

    def __init__(self, updates_per_snapshot: int = 5) -> None:
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = Log()
        self.topics = {TOPIC}
        self.deleted_before: list[int] = []
        settings = ShareStateSettings(updates_per_snapshot=updates_per_snapshot)
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            lambda partition: ShareStateShard(partition, settings, self),
            self.log.append,
            self.log.await_commit,
            self.clock,
            self.timer,
        )
        self.runtime.load(0, [])

    def end_offset(self) -> int:
        return len(self.log.records())

    def delete_before(self, offset: int) -> None:
        self.deleted_before.append(offset)

    def has_topic(self, topic_id: bytes) -> bool:
        return topic_id in self.topics

    def call(self, operation: Any) -> Call:
        call = Call()
        self.runtime.execute(0, operation, call)
        return call

    def initialize(self, epoch: int, start: int = NO_START) -> Call:
        return self.call(lambda shard, now_ms: shard.initialize(KEY, epoch, start, now_ms))

    def read(self, leader_epoch: int) -> Call:
        return self.call(lambda shard, now_ms: shard.read(KEY, leader_epoch, now_ms))

    def write(
        self, batches: list[tuple[int, ...]], start: int = NO_START, epoch: int = 1, leader_epoch: int = 7
    ) -> Call:
        found = [StateBatch(*batch) for batch in batches]
        return self.call(lambda shard, now_ms: shard.write(KEY, epoch, leader_epoch, start, 0, found, now_ms))

    @property
    def state(self) -> ShareState:
        return dict(self.runtime.shard(0).states())[KEY]

    def kinds(self) -> list[int]:
        return [read_key(key)[0] for key, _ in self.log.records() if key is not None]

    def collect(self) -> None:
        self.clock.advance(300_000)
        self.timer.advance(self.clock.monotonic_ms())


def test_what_is_written_is_read_by_the_next_leader() -> None:
    world = StateWorld()
    assert world.initialize(1).reply is ErrorCode.NONE
    assert world.read(7).reply.start_offset == NO_START
    world.write([(10, 19, 2, 1), (20, 29, 0, 2)], start=10)
    world.write([(15, 24, 4, 3)], start=12)
    state = world.read(8).reply
    assert state.start_offset == 12
    assert [batch[:4] for batch in state.batches] == [(12, 14, 2, 1), (15, 24, 4, 3), (25, 29, 0, 2)]


def test_what_waits_is_stored_with_its_time_which_only_we_read() -> None:
    """Kafka's own readers of the topic skip a tagged field that they do not know; without a delay there is none."""
    world = StateWorld()
    world.initialize(1)
    world.read(7)
    world.write([(10, 19, 0, 2)], start=10)
    plain = len(world.log.records()[-1][1] or b"")
    world.write([(10, 14, 0, 2, 1_700_000_000_000)])
    assert len(world.log.records()[-1][1] or b"") == plain + 3 + 8, "tag, size, eight bytes; the count was there"
    world.write([(12, 12, 3, 3)])
    assert [tuple(batch) for batch in world.read(8).reply.batches] == [
        (10, 11, 0, 2, 1_700_000_000_000),
        (12, 12, 3, 3, 0),
        (13, 14, 0, 2, 1_700_000_000_000),
        (15, 19, 0, 2, 0),
    ]


def test_an_older_leader_and_an_older_state_are_fenced() -> None:
    world = StateWorld()
    world.initialize(1)
    world.read(7)
    world.read(8)
    assert world.write([(0, 0, 2, 1)], leader_epoch=7).code is ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(7).code is ErrorCode.FENCED_LEADER_EPOCH
    world.initialize(2, 100)
    assert world.initialize(1).code is ErrorCode.FENCED_STATE_EPOCH
    assert world.write([(0, 0, 2, 1)], leader_epoch=8).code is ErrorCode.FENCED_STATE_EPOCH
    assert world.read(8).reply.start_offset == 100


def test_a_state_that_was_never_initialized_is_not_written_or_read() -> None:
    world = StateWorld()
    assert world.read(1).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.write([(0, 0, 2, 1)]).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.runtime.shard(0).summary(KEY).start_offset == NO_START


@pytest.mark.parametrize("batch", [(5, 4, 2, 1), (5, 6, 1, 1), (5, 6, 5, 1)])
def test_what_cannot_be_a_state_is_refused(batch: tuple[int, int, int, int]) -> None:
    world = StateWorld()
    world.initialize(1)
    world.read(7)
    assert world.write([batch]).code is ErrorCode.INVALID_REQUEST


def test_every_so_many_updates_a_snapshot_is_written() -> None:
    world = StateWorld(updates_per_snapshot=3)
    world.initialize(1)
    for offset in range(5):
        world.write([(offset, offset, 2, 1)], start=0)
    assert world.kinds() == [SNAPSHOT, UPDATE, UPDATE, SNAPSHOT, UPDATE, UPDATE]
    assert world.state.snapshot_epoch == 1


def test_a_restart_brings_back_the_same_state() -> None:
    world = StateWorld(updates_per_snapshot=3)
    world.initialize(1)
    for offset in range(8):
        world.write([(offset * 2, offset * 2, 2, 1)], start=1)
    before = world.state
    world.runtime.load(0, list(world.log.batches))
    assert world.state == before


def test_the_log_before_the_last_snapshots_is_deleted() -> None:
    world = StateWorld()
    world.initialize(1)
    world.write([(0, 9, 2, 1)], start=0)
    end = world.end_offset()
    world.collect()
    assert world.deleted_before == [end]
    world.runtime.load(0, world.log.batches[2:])
    assert [tuple(batch[:4]) for batch in world.state.batches] == [(0, 9, 2, 1)]
    world.collect()
    assert world.deleted_before[0] == end


def test_the_state_of_a_deleted_topic_goes_with_the_second_collection() -> None:
    """At the first the broker may not know every topic yet."""
    world = StateWorld()
    world.initialize(1)
    world.topics.clear()
    world.collect()
    assert KEY in dict(world.runtime.shard(0).states())
    world.collect()
    assert KEY not in dict(world.runtime.shard(0).states())


def test_a_deleted_state_stays_deleted() -> None:
    world = StateWorld()
    world.initialize(1)
    assert world.call(lambda shard, now_ms: shard.delete(KEY, now_ms)).reply is ErrorCode.NONE
    world.runtime.load(0, list(world.log.batches))
    assert world.read(1).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_keys_survive_their_encoding_and_broken_ones_are_refused() -> None:
    key = encode_key(UPDATE, ShareKey("grüße", TOPIC, 2**31 - 1))
    assert read_key(key) == (UPDATE, ShareKey("grüße", TOPIC, 2**31 - 1))
    for broken in (key[:-1], key + b"x", key[:3], b"\0\0\xff\xff" + key[4:]):
        with pytest.raises(SchemaError):
            read_key(broken)
