"""High watermark and log end offset, step by step: the tables of the fourth seed, each as a test.

A topic with one partition and two replicas: broker 1 leads (LEO, HW), broker 2 follows (LEO, HW); the leader also keeps
where the follower's log ends (remote LEO), as of its last fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.gauntlet.mistakes.replication import TRUNCATION_TO_THE_HIGH_WATERMARK
from tests.gauntlet.planting import planted
from tests.unit.replication.replicas import Replica
from tidelog.storage.log import Log
from tidelog.timing import ManualClock

LEADER, FOLLOWER = 1, 2


class Row(NamedTuple):
    """One state of the tables."""

    leader_end: int
    remote_end: int
    leader_high_watermark: int
    follower_end: int
    follower_high_watermark: int


class Pair:
    """Broker 1, which leads, and broker 2, which follows."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.a = Replica(LEADER, directory, self.clock)
        self.b = Replica(FOLLOWER, directory, self.clock)

    def begin(self) -> None:
        self.a.lead(0, (1, 2))
        self.b.follow_in(0, LEADER)

    @property
    def row(self) -> Row:
        high_watermark, end = self.a.marks
        follower_high_watermark, follower_end = self.b.marks
        return Row(end, self.a.remote_end(FOLLOWER), high_watermark, follower_end, follower_high_watermark)

    def close(self) -> None:
        self.a.log.close()
        self.b.log.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    pair.begin()
    yield pair
    pair.close()


def test_the_initial_state(pair: Pair) -> None:
    assert pair.row == Row(0, 0, 0, 0, 0)
    pair.b.follow(pair.a)
    assert pair.row == Row(0, 0, 0, 0, 0), "there is nothing to fetch"


def test_a_produce_before_the_follower_fetches(pair: Pair) -> None:
    """The record is written; min(leader LEO=1, remote LEO=0) = 0."""
    pair.a.produce(b"first")
    assert pair.row == Row(1, 0, 0, 0, 0)


def test_the_first_fetch_brings_the_record_and_not_the_high_watermark(pair: Pair) -> None:
    """The fetch offset is 0, so the leader cannot know that the follower will have the record."""
    pair.a.produce(b"first")
    pair.b.follow(pair.a)
    assert pair.row == Row(1, 0, 0, 1, 0)


def test_the_second_fetch_brings_the_high_watermark(pair: Pair) -> None:
    """Its offset, 1, moves the remote LEO and with it the high watermark, which its answer carries."""
    pair.a.produce(b"first")
    pair.b.follow(pair.a)
    pair.b.follow(pair.a)
    assert pair.row == Row(1, 1, 1, 1, 1)


def test_the_generations_of_two_records(pair: Pair) -> None:
    pair.a.produce(b"first")
    pair.b.follow(pair.a)
    assert pair.row == Row(1, 0, 0, 1, 0), "generation 1"
    pair.a.produce(b"second")
    pair.b.follow(pair.a)
    assert pair.row == Row(2, 1, 1, 2, 1), "generation 2"
    pair.b.follow(pair.a)
    assert pair.row == Row(2, 2, 2, 2, 2), "generation 3"


def test_a_fetch_that_waits_is_answered_by_the_produce(tmp_path: Path) -> None:
    """The leader writes, the fetch is completed, and the high watermark follows with the next fetch."""
    pair = Pair(tmp_path)
    pair.begin()
    fetcher = pair.b.fetcher
    assert fetcher is not None
    fetcher.settings = fetcher.settings._replace(wait_ms_max=500)
    request = fetcher.build_fetch(0)
    assert request is not None
    responses = pair.a.serve_later(request)
    assert not responses
    pair.a.produce(b"first")
    pair.b.take(responses[0])
    assert pair.row == Row(1, 0, 0, 1, 0)
    pair.b.follow(pair.a)
    assert pair.row == Row(1, 1, 1, 1, 1)
    pair.close()


def test_the_high_watermark_of_a_follower_does_not_fall_to_that_of_a_new_leader(tmp_path: Path) -> None:
    """What it has shown to consumers near it stays committed, whatever the new leader knows as yet."""
    pair = Pair(tmp_path)
    pair.begin()
    pair.a.produce(b"first")
    for _ in range(2):
        pair.b.follow(pair.a)
    assert pair.row == Row(1, 1, 1, 1, 1)
    pair.b.crash(high_watermark=0)
    pair.b.lead(1, (1, 2, 3), (1, 2, 3))
    pair.a.follow_in(1, FOLLOWER)
    pair.a.follow(pair.b)
    assert pair.b.marks == (0, 1), "broker 3 has not fetched from it yet"
    assert pair.a.marks == (1, 1)
    pair.close()


# --- the two failures that truncation by high watermark leads to ---


def lose_a_record(pair: Pair) -> None:
    """Both have two records; the follower crashes with a high watermark that is one behind, then the leader crashes."""
    a, b = pair.a, pair.b
    pair.begin()
    a.produce(b"m1")
    b.follow(a)
    a.produce_all(b"m2")
    b.follow(a)
    b.ask(a)  # the leader's high watermark is 2, and the answer does not reach the follower
    assert a.acknowledged == [1, 2]
    assert pair.row == Row(2, 2, 2, 2, 1)
    b.crash()
    b.follow_in(0, LEADER)  # the leader crashes before it is asked for anything
    a.crash(high_watermark=1)
    b.lead(1, (2,))
    a.follow_in(1, FOLLOWER)
    a.follow(b)


def test_an_acknowledged_record_is_lost_by_truncation_to_the_high_watermark(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with planted(TRUNCATION_TO_THE_HIGH_WATERMARK):
        lose_a_record(pair)
    assert pair.a.values == pair.b.values == [b"m1"], "the record that was acknowledged is gone"
    pair.close()


def test_an_acknowledged_record_survives_with_leader_epochs(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    lose_a_record(pair)
    assert pair.a.values == pair.b.values == [b"m1", b"m2"]
    pair.close()


def part_the_logs(pair: Pair) -> None:
    """The leader has two records, the follower one; both crash, the follower comes back first and takes another."""
    a, b = pair.a, pair.b
    pair.begin()
    a.produce(b"m1")
    b.follow(a)
    b.follow(a)
    a.produce(b"m2")
    b.ask(a)
    a.crash(high_watermark=2)  # as if its high watermark had come to 2 with the ISR down to itself
    b.crash()
    b.lead(1, (2,))
    b.produce(b"m3")
    assert b.marks == (2, 2)
    a.follow_in(1, FOLLOWER)
    for _ in range(3):
        a.follow(b)


def test_logs_part_for_good_by_truncation_to_the_high_watermark(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with planted(TRUNCATION_TO_THE_HIGH_WATERMARK):
        part_the_logs(pair)
    assert pair.a.values == [b"m1", b"m2"]
    assert pair.b.values == [b"m1", b"m3"]
    assert pair.a.marks == pair.b.marks == (2, 2), "and nothing shows it"
    pair.close()


def test_logs_agree_again_with_leader_epochs(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    part_the_logs(pair)
    assert pair.a.values == pair.b.values == [b"m1", b"m3"]
    assert pair.a.log.leader_epochs.entries() == pair.b.log.leader_epochs.entries()
    pair.close()


class SlowToSync(Replica):
    """A broker whose syncs in the background never come to an end."""

    def flush(self, log: Log, done: object) -> None:
        """Nothing is synced by this."""


def test_a_follower_says_that_it_has_records_when_they_are_synced_as_the_topic_asks(tmp_path: Path) -> None:
    """With flush.messages=1 what is acknowledged is on the disks of all in-sync replicas, whoever leads next."""
    clock = ManualClock()
    leader = Replica(LEADER, tmp_path, clock, flush_messages=1)
    follower = SlowToSync(FOLLOWER, tmp_path, clock, flush_messages=1)
    leader.lead(0, (1, 2))
    follower.follow_in(0, LEADER)
    leader.produce_all(b"first")
    for _ in range(2):
        follower.follow(leader)
    assert leader.acknowledged == [1]
    assert follower.log.recovery_point == 1
    leader.log.close()
    follower.log.close()
