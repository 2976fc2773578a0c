"""Replication in any order of events: what was acknowledged is kept, and logs agree on what is committed.

Three replicas on real logs, and a controller that elects leaders from the in-sync replicas. Fetches, their responses,
changes of the ISR, crashes and elections come in any order; requests and responses may be lost by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gauntlet.mistakes.replication import TRUNCATION_TO_THE_HIGH_WATERMARK
from tests.gauntlet.planting import planted
from tests.property.replication.schedules import Step, assert_found, play, random_schedule
from tests.unit.replication.replicas import LAG_MS_MAX, Replica
from tidelog.replication.replica_set import AlteredPartition, IsrProposal
from tidelog.timing import ManualClock
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.fetch import FetchResponse

BROKERS = (1, 2, 3)
STEPS = ("produce", "ask", "take", "follow", "commit", "crash", "return", "elect", "lag")


class World:
    """The cluster, and the responses of clients."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.clock = ManualClock()
        self.alive = set(BROKERS)
        self.replicas = {
            broker: Replica(broker, directory, self.clock, alive=self.alive, min_insync_replicas=2, **config)
            for broker in BROKERS
        }
        self.isr: tuple[int, ...] = BROKERS
        self.leader, self.epoch, self.partition_epoch = 1, 0, 0
        self.responses: dict[int, FetchResponse | None] = {}
        self.sent: dict[int, bytes] = {}
        """The value at each end offset of this epoch's records that wait for acknowledgement."""
        self.acknowledged: list[bytes] = []
        self.count = 0
        self._assign()

    def close(self) -> None:
        for replica in self.replicas.values():
            replica.log.close()

    def _assign(self) -> None:
        """Every broker that is alive learns of the leader and the epoch."""
        self._note_acknowledged()
        self.sent.clear()
        self.responses.clear()
        for broker in sorted(self.alive):
            replica = self.replicas[broker]
            replica.proposals.clear()
            if broker == self.leader:
                replica.acknowledged.clear()
                replica.lead(self.epoch, self.isr, BROKERS, self.partition_epoch)
            elif self.leader:
                replica.follow_in(self.epoch, self.leader, BROKERS, partition_epoch=self.partition_epoch)

    def _note_acknowledged(self) -> None:
        leader = self.replicas.get(self.leader)
        if leader is not None:
            self.acknowledged += [self.sent.pop(end) for end in leader.acknowledged if end in self.sent]
            leader.acknowledged.clear()

    # --- steps ---

    def do(self, step: Step) -> None:
        name, who = step
        steps[name](self, BROKERS[who % len(BROKERS)])
        self._note_acknowledged()
        self.check()

    def produce(self, _broker: int) -> None:
        if self.leader:
            leader = self.replicas[self.leader]
            self.count += 1
            value = b"%d" % self.count
            try:
                self.sent[leader.log.log_end_offset + 1] = value
                leader.produce_all(value)
            except ApiError:
                del self.sent[leader.log.log_end_offset + 1]

    def ask(self, broker: int) -> None:
        if self._follows(broker):
            self._lose(broker)
            self.responses[broker] = self.replicas[broker].ask(self.replicas[self.leader])

    def take(self, broker: int) -> None:
        if broker in self.alive and broker in self.responses:
            self.replicas[broker].take(self.responses.pop(broker))

    def follow(self, broker: int) -> None:
        if self._follows(broker):
            self._lose(broker)
            self.replicas[broker].follow(self.replicas[self.leader])

    def _lose(self, broker: int) -> None:
        """A response that was not taken never comes."""
        if self.responses.pop(broker, None) is not None:
            self.replicas[broker].lose()

    def _follows(self, broker: int) -> bool:
        return bool(self.leader) and broker != self.leader and broker in self.alive

    def commit(self, _broker: int) -> None:
        """The controller agrees with the oldest proposal."""
        leader = self.replicas.get(self.leader)
        if leader is not None and leader.proposals:
            self._commit(leader, leader.proposals.pop(0))

    def _commit(self, leader: Replica, proposal: IsrProposal) -> None:
        if proposal.leader_epoch != self.epoch or proposal.partition_epoch != self.partition_epoch:
            return
        if not set(proposal.isr) <= self.alive:
            return  # INELIGIBLE_REPLICA
        self.isr, self.partition_epoch = proposal.isr, self.partition_epoch + 1
        altered = AlteredPartition(self.leader, self.epoch, self.isr, self.partition_epoch)
        if leader.partition.on_altered(proposal, altered, self.clock.monotonic_ms()):
            leader.manager.watermark_moved(leader.partition)
        leader.manager.end_turn()

    def lag(self, _broker: int) -> None:
        self.clock.advance(LAG_MS_MAX // 2 + 1)
        leader = self.replicas.get(self.leader)
        if leader is not None:
            leader.manager.propose_shrinking()

    def crash(self, broker: int) -> None:
        """A broker dies; what it held comes back with it, but for a high watermark that was not written."""
        if broker not in self.alive:
            return
        self._note_acknowledged()
        self.alive.discard(broker)
        replica = self.replicas[broker]
        checkpoint = replica.log.high_watermark - (replica.log.high_watermark - replica.log.log_start_offset) // 2
        replica.crash(high_watermark=checkpoint)
        if len(self.isr) > 1:
            self.isr = tuple(each for each in self.isr if each != broker)
        self._elect(next((each for each in self.isr if each in self.alive and each == self.leader), 0))

    def come_back(self, broker: int) -> None:
        if broker not in self.alive:
            self.alive.add(broker)
            self._elect(self.leader)

    def elect(self, broker: int) -> None:
        if broker in self.alive and broker in self.isr:
            self._elect(broker)

    def _elect(self, wanted: int) -> None:
        """A new epoch, led by the broker that is wanted or another of the in-sync replicas; by none if all are gone."""
        candidates = [each for each in self.isr if each in self.alive]
        self._note_acknowledged()
        self.leader = wanted if wanted in candidates else (candidates[0] if candidates else 0)
        self.epoch += 1
        self.partition_epoch += 1
        self._assign()

    # --- claims ---

    def check(self) -> None:
        """Logs agree below both high watermarks; the leader has everything that was acknowledged, in order."""
        logs = {broker: replica.values for broker, replica in self.replicas.items()}
        for one in BROKERS:
            for other in BROKERS:
                common = min(self.replicas[one].log.high_watermark, self.replicas[other].log.high_watermark)
                assert logs[one][:common] == logs[other][:common], f"{one} and {other} differ below {common}"
        if self.leader:
            assert is_subsequence(self.acknowledged, logs[self.leader]), "an acknowledged record is lost"

    def heal(self) -> None:
        """Faults stop: every broker is there, and follows until nothing is left to fetch."""
        for broker in BROKERS:
            self.come_back(broker)
        assert self.leader, "an in-sync replica is alive"
        self._catch_up()
        self.produce(0)
        self._catch_up()
        self.check()
        logs = [replica.values for replica in self.replicas.values()]
        assert logs[0] == logs[1] == logs[2]
        epochs = [replica.log.leader_epochs.entries() for replica in self.replicas.values()]
        assert set(self.isr) == set(BROKERS)
        ends = {replica.marks for replica in self.replicas.values()}
        assert len(ends) == 1, ends
        assert epochs[0][-1] == epochs[1][-1] == epochs[2][-1]

    def _catch_up(self) -> None:
        for _ in range(6):
            for broker in BROKERS:
                self.follow(broker)
                self.commit(broker)


steps: dict[str, Callable[[World, int], None]] = {
    "produce": World.produce,
    "ask": World.ask,
    "take": World.take,
    "follow": World.follow,
    "commit": World.commit,
    "crash": World.crash,
    "return": World.come_back,
    "elect": World.elect,
    "lag": World.lag,
}


def is_subsequence(part: Sequence[bytes], whole: Sequence[bytes | None]) -> bool:
    remaining = iter(whole)
    return all(any(value == found for found in remaining) for value in part)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=60))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_acknowledged_is_lost_and_logs_agree(schedule: list[Step]) -> None:
    play(World, schedule)


@pytest.mark.long
def test_nothing_is_lost_in_hundreds_of_random_schedules() -> None:
    for seed in range(400):
        play(World, random_schedule(STEPS, seed, 120))


def test_truncation_to_the_high_watermark_is_found() -> None:
    """The property must be able to fail: with the planted mistake it does, within 200 schedules."""
    assert_found(lambda: planted(TRUNCATION_TO_THE_HIGH_WATERMARK), World, STEPS, seeds=200, length=60)
