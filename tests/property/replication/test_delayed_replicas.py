"""Delayed records of three replicas in any order of events: each acknowledged one is delivered once, never early.

The world is that of `test_replication`: fetches, their responses, changes of the ISR, crashes and elections come in any
order. Records are produced with delays, time passes, and whichever replica leads delivers, with or without followers
that copy what it appended. A crashed replica comes back with its last checkpoint, or with none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.replication.schedules import Step, assert_found, play, random_schedule
from tests.property.replication.test_replication import BROKERS, World, steps
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import ACKS_ALL
from tidelog.replication.produce import Errors, PendingProduce
from tidelog.storage.log import Log
from tidelog.wire.errors import ApiError

STEPS = (*(name for name in steps if name != "produce"), "delay", "delay", "deliver", "deliver", "tick", "checkpoint")
DELAYS_MS = (5, 20, 100)


class DelayedWorld(World):
    """The cluster, its delayed records, and what producers know of them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, tidelog_delay_enable=True)
        self.delayed: dict[int, DelayedPartition] = {}
        self.known: set[bytes] = set()
        self.due: dict[bytes, int] = {}

    def do(self, step: Step) -> None:
        name, who = step
        table: dict[str, Callable[[World, int], None]] = {**steps, **own_steps}  # type: ignore[dict-item]
        table[name](self, BROKERS[who % len(BROKERS)])
        self.follow_logs()
        self.check()

    def follow_logs(self) -> None:
        for broker in self.alive:
            partition = self.replicas[broker].partition
            found = self.delayed.get(broker)
            if found is None or found.partition is not partition:
                found = self.delayed[broker] = DelayedPartition(partition, recent_max=3)
            while found.apply():
                pass

    # --- steps ---

    def delay(self, who: int) -> None:
        if not self.leader:
            return
        leader = self.replicas[self.leader]
        self.count += 1
        value = b"%d" % self.count
        now_ms = self.clock.wall_ms()
        wait_ms = DELAYS_MS[who % len(DELAYS_MS)]
        record = Record(0, now_ms, b"k", value, (("tidelog-delay", b"%d" % wait_ms),))
        try:
            info = leader.partition.append(bytearray(build_batch([record])), ACKS_ALL, now_ms)
        except ApiError:
            return
        self.due[value] = now_ms + wait_ms
        epoch = self.epoch

        def respond(errors: Errors) -> None:
            # A broker answers what waits when its role changes; these replicas do not.
            if epoch == self.epoch and (not errors or errors[0] is None):
                self.known.add(value)

        leader.manager.staged(leader.partition)
        end = info.last_offset + 1
        leader.manager.answer_when_written(PendingProduce(((leader.partition, end),), ACKS_ALL, 30_000, respond))
        leader.manager.end_turn()

    def produce(self, broker: int) -> None:
        self.delay(broker)

    def deliver(self, _broker: int) -> None:
        self.follow_logs()
        delayed = self.delayed.get(self.leader)
        if delayed is None or not delayed.may_change:
            return
        try:
            has_delivered = delayed.deliver(self.clock.wall_ms())
        except ApiError:
            return
        if has_delivered:
            leader = self.replicas[self.leader]
            leader.manager.staged(leader.partition)
            leader.manager.end_turn()

    def tick(self, _broker: int) -> None:
        self.clock.advance(10)

    def checkpoint(self, broker: int) -> None:
        delayed = self.delayed.get(broker)
        if delayed is not None and broker in self.alive:
            checkpoint = delayed.checkpoint()
            checkpoint.write()
            delayed.checkpoint_written(checkpoint)

    # --- claims ---

    def check(self) -> None:
        now_ms = self.clock.wall_ms()
        for replica in self.replicas.values():
            visible = visible_records(replica.log)
            doubled = [value for value, count in Counter(record.value for record in visible).items() if count > 1]
            assert not doubled, f"{doubled} are delivered twice"
            assert all(self.due[record.value or b""] <= now_ms for record in visible), "a record is early"

    def heal(self) -> None:
        for broker in BROKERS:
            self.come_back(broker)
        self._catch_up()
        self.clock.advance(1000)
        for _ in range(50):
            self.deliver(0)
            self._catch_up()
        self.follow_logs()
        self.check()
        logs = [[record.value for record in visible_records(replica.log)] for replica in self.replicas.values()]
        assert logs[0] == logs[1] == logs[2]
        assert self.known <= set(logs[0]), "an acknowledged record is not delivered"
        assert [len(delayed.index) for delayed in self.delayed.values()] == [0, 0, 0]


own_steps: dict[str, Callable[[DelayedWorld, int], None]] = {
    "delay": DelayedWorld.delay,
    "deliver": DelayedWorld.deliver,
    "tick": DelayedWorld.tick,
    "checkpoint": DelayedWorld.checkpoint,
}


def visible_records(log: Log) -> list[Record]:
    """What consumers see: no control batches."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, log.log_end_offset, True).slice
        if piece is None:
            break
        data = piece.read()
        for position, header in iterate_batches(data):
            if not header.is_control:
                found += iterate_records(data, position)
            offset = header.next_offset
    return found


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=50))
@settings(max_examples=examples(18), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_is_delivered_once_whoever_leads(schedule: list[Step]) -> None:
    play(DelayedWorld, schedule)


@pytest.mark.long
def test_each_is_delivered_once_in_many_random_schedules() -> None:
    for seed in range(40):
        play(DelayedWorld, random_schedule(STEPS, seed, 120))


@contextmanager
def hasty_leaders() -> Iterator[None]:
    """Leaders that deliver before they know what the leader before them delivered."""
    is_leader = property(lambda delayed: delayed.partition.is_leader)
    with mock.patch.object(DelayedPartition, "may_change", is_leader):
        yield


def test_a_leader_that_does_not_wait_is_found() -> None:
    """The property must be able to fail: with a planted mistake it does, within 100 schedules."""
    assert_found(hasty_leaders, DelayedWorld, STEPS, seeds=100, length=80)
