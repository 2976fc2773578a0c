"""Throttled replication: leaders and followers keep the rate that is set, and replicas in sync are not held up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replication.replicas import Replica
from tidelog.quotas import ReplicationQuota
from tidelog.replication.fetcher import FetcherSettings
from tidelog.timing import ManualClock

RATE = 200_000
ROUND_MS = 5
"""How long a request and its response take."""
WAIT_MS = 500
"""How long a leader lets a fetch wait that it has nothing for."""
SETTINGS = FetcherSettings(partition_bytes_max=1 << 16, wait_ms_max=WAIT_MS, backoff_ms=1000)
VALUE = bytes(10_000)


class Pair:
    """Broker 1 leads with a long log, broker 2 has nothing yet and is not in sync."""

    def __init__(self, directory: Path, *, isr: tuple[int, ...] = (1,)) -> None:
        self.clock = ManualClock()
        throttles: Any = {
            "leader_replication_throttled_replicas": ("0:1",),
            "follower_replication_throttled_replicas": ("0:2",),
        }
        self.leader = Replica(1, directory, self.clock, **throttles)
        self.follower = Replica(2, directory, self.clock, **throttles)
        self.leader.lead(0, isr)
        self.follower_quota = ReplicationQuota(2)
        self.fetcher = self.follower.follow_in(0, 1, quota=self.follower_quota, settings=SETTINGS)

    def fill(self, batches: int = 800) -> None:
        for _ in range(batches):
            self.leader.produce(VALUE)

    def fetched_in(self, seconds: int) -> int:
        """Fetch for so long; the bytes that came."""
        before, end_ms = self.follower.log.size_bytes, self.clock.monotonic_ms() + seconds * 1000
        while self.clock.monotonic_ms() < end_ms:
            request = self.fetcher.build_fetch(self.clock.monotonic_ms())
            if request is None:
                now_ms = self.clock.monotonic_ms()
                due_ms = self.fetcher.next_due_ms(now_ms)
                assert due_ms is not None
                assert due_ms > now_ms, "a fetcher that waits does not spin"
                self.clock.advance(due_ms - now_ms)
                continue
            size = self.follower.log.size_bytes
            self.follower.take(self.leader.serve(request))
            self.clock.advance(ROUND_MS if self.follower.log.size_bytes > size else WAIT_MS)
        return self.follower.log.size_bytes - before

    def close(self) -> None:
        self.leader.log.close()
        self.follower.log.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    world = Pair(tmp_path)
    yield world
    world.close()


def test_a_leader_sends_to_throttled_followers_at_the_rate_that_is_set(pair: Pair) -> None:
    pair.fill()
    pair.leader.manager.leader_quota.set_rate(RATE)
    assert pair.fetched_in(30) == pytest.approx(RATE * 30, rel=0.1)


def test_a_follower_fetches_throttled_replicas_at_the_rate_that_is_set(pair: Pair) -> None:
    pair.fill()
    pair.follower_quota.set_rate(RATE)
    assert pair.fetched_in(30) == pytest.approx(RATE * 30, rel=0.1)


def test_the_slower_side_decides(pair: Pair) -> None:
    pair.fill()
    pair.leader.manager.leader_quota.set_rate(RATE)
    pair.follower_quota.set_rate(2 * RATE)
    assert pair.fetched_in(30) == pytest.approx(RATE * 30, rel=0.1)


def test_without_a_rate_nothing_is_held_back(pair: Pair) -> None:
    pair.fill()
    pair.fetched_in(3)
    assert pair.follower.log.log_end_offset == pair.leader.log.log_end_offset


def test_a_rate_that_is_taken_back_holds_nothing_back(pair: Pair) -> None:
    pair.fill()
    for quota in (pair.leader.manager.leader_quota, pair.follower_quota):
        quota.set_rate(RATE)
    assert pair.fetched_in(5) < RATE * 7
    for quota in (pair.leader.manager.leader_quota, pair.follower_quota):
        quota.set_rate(2**63 - 1)
    pair.fetched_in(5)
    assert pair.follower.log.log_end_offset == pair.leader.log.log_end_offset


def test_a_follower_in_sync_is_not_throttled_by_its_leader_but_counts(tmp_path: Path) -> None:
    """Otherwise acks=all would wait for the throttle."""
    pair = Pair(tmp_path, isr=(1, 2))
    pair.fill(300)
    quota = pair.leader.manager.leader_quota
    quota.set_rate(RATE)
    pair.fetched_in(3)
    assert pair.follower.log.log_end_offset == pair.leader.log.log_end_offset
    assert quota.is_exceeded(pair.clock.monotonic_ms())
    pair.close()


def test_a_follower_that_is_caught_up_asks_although_the_quota_is_used_up(pair: Pair) -> None:
    pair.fill(1)
    pair.follower.follow(pair.leader)
    pair.follower.follow(pair.leader)
    pair.follower_quota.set_rate(1)
    pair.follower_quota.record(1 << 20, pair.clock.monotonic_ms())
    pair.fill(1)
    pair.follower.follow(pair.leader)
    assert pair.follower.log.log_end_offset == 2


def test_replicas_that_are_not_listed_are_not_throttled(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    config = pair.leader.log.config.replace(
        leader_replication_throttled_replicas=("0:3", "1:1"), follower_replication_throttled_replicas=("1:2",)
    )
    pair.leader.log.update_config(config)
    pair.follower.log.update_config(config)
    pair.fill(300)
    pair.leader.manager.leader_quota.set_rate(1)
    pair.follower_quota.set_rate(1)
    pair.fetched_in(3)
    assert pair.follower.log.log_end_offset == 300
    pair.close()


def test_a_throttled_fetch_waits_and_brings_errors_at_once(pair: Pair) -> None:
    pair.fill(5)
    quota = pair.leader.manager.leader_quota
    quota.set_rate(1)
    quota.record(1000, pair.clock.monotonic_ms())
    request = pair.fetcher.build_fetch(pair.clock.monotonic_ms())
    assert request is not None
    waiting = pair.leader.serve_later(request)
    assert waiting == [], "there is something to read, but not for this replica"
    pair.leader.produce(VALUE)
    assert waiting == []
    pair.leader.partition.is_leader = False
    pair.leader.manager.role_changed(pair.leader.partition)
    pair.leader.manager.end_turn()
    assert waiting[0].responses[0].partitions[0].error_code != 0
