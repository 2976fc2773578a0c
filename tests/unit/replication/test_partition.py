"""What a partition answers, by its role, its epoch, its in-sync replicas and who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.replication.replicas import Replica
from tests.unit.storage.logs import batch, marker
from tidelog.replication.partition import ACKS_ALL, READ_COMMITTED
from tidelog.storage.types import AppendOrigin
from tidelog.timing import ManualClock
from tidelog.wire.errors import ApiError, ErrorCode

READ_UNCOMMITTED = 0
EPOCH = 5


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    """Broker 1 with a replica of `topic-0` and no role yet; two replicas must be in sync for acks=all."""
    return Replica(1, tmp_path, ManualClock(), min_insync_replicas=2)


ROLES = {
    "none": lambda replica: None,
    "leader": lambda replica: replica.lead(EPOCH, isr=(1, 2)),
    "leader alone in sync": lambda replica: replica.lead(EPOCH, isr=(1,)),
    "follower": lambda replica: replica.follow_in(EPOCH, leader_id=2),
    "leader, then follower": lambda replica: (
        replica.lead(EPOCH - 1, isr=(1, 2)),
        replica.follow_in(EPOCH, leader_id=2),
    ),
    "offline": lambda replica: (replica.lead(EPOCH, isr=(1, 2)), replica.partition.go_offline()),
}
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("role", "acks", "error"),
    [
        ("none", 1, NOT_LEADER),
        ("none", ACKS_ALL, NOT_LEADER),
        ("leader", 0, None),
        ("leader", 1, None),
        ("leader", ACKS_ALL, None),
        ("leader alone in sync", 0, None),
        ("leader alone in sync", 1, None),
        ("leader alone in sync", ACKS_ALL, TOO_FEW),
        ("follower", 1, NOT_LEADER),
        ("leader, then follower", 1, NOT_LEADER),
        ("offline", 1, OFFLINE),
    ],
)
def test_records_are_taken_by_a_leader_with_enough_in_sync_replicas(
    replica: Replica, role: str, acks: int, error: ErrorCode | None
) -> None:
    ROLES[role](replica)
    if error is None:
        replica.partition.append(batch(b"a"), acks, replica.clock.wall_ms())
        assert replica.log.log_end_offset == 1
        return
    with pytest.raises(ApiError) as refused:
        replica.partition.append(batch(b"a"), acks, replica.clock.wall_ms())
    assert refused.value.code == error
    assert replica.log.log_end_offset == 0, "what is refused is not staged"


@pytest.mark.parametrize(
    ("role", "epoch", "is_leader_only", "error"),
    [
        ("leader", -1, True, None),
        ("leader", EPOCH, True, None),
        ("leader", EPOCH - 1, True, ErrorCode.FENCED_LEADER_EPOCH),
        ("leader", EPOCH + 1, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("follower", -1, True, NOT_LEADER),
        ("follower", EPOCH, True, NOT_LEADER),
        ("follower", EPOCH - 1, True, ErrorCode.FENCED_LEADER_EPOCH),
        ("follower", -1, False, None),
        ("follower", EPOCH + 1, False, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("offline", -1, False, OFFLINE),
        ("offline", EPOCH - 1, True, OFFLINE),
    ],
)
def test_a_reader_is_checked_by_its_epoch_before_the_role(
    replica: Replica, role: str, epoch: int, is_leader_only: bool, error: ErrorCode | None
) -> None:
    ROLES[role](replica)
    if error is None:
        assert replica.partition.readable_end(epoch, False, READ_UNCOMMITTED, is_leader_only) == 0
        return
    with pytest.raises(ApiError) as refused:
        replica.partition.readable_end(epoch, False, READ_UNCOMMITTED, is_leader_only)
    assert refused.value.code == error


@pytest.mark.parametrize(
    ("is_follower", "isolation_level", "end"),
    [(True, READ_UNCOMMITTED, 4), (True, READ_COMMITTED, 4), (False, READ_UNCOMMITTED, 3), (False, READ_COMMITTED, 1)],
)
def test_followers_read_what_is_written_consumers_what_is_committed_or_stable(
    replica: Replica, is_follower: bool, isolation_level: int, end: int
) -> None:
    """Offset 0 is plain, an open transaction has 1 and 2, offset 3 is not replicated, and 4 is only staged."""
    replica.lead(EPOCH, isr=(1, 2))
    partition, now_ms = replica.partition, replica.clock.wall_ms()
    replica.produce(b"plain")
    partition.append(batch(b"open", b"open", producer_id=7, is_transactional=True), 1, now_ms)
    replica.log.write_staged()
    partition.record_fetch(2, 3, 0, replica.clock.monotonic_ms())
    replica.produce(b"not replicated")
    partition.append(batch(b"staged"), 1, now_ms)

    assert partition.readable_end(EPOCH, is_follower, isolation_level) == end


def test_the_end_of_a_transaction_makes_its_records_stable(replica: Replica) -> None:
    replica.lead(EPOCH, isr=(1, 2))
    partition, now_ms = replica.partition, replica.clock.wall_ms()
    partition.append(batch(b"open", producer_id=7, is_transactional=True), 1, now_ms)
    partition.append(marker(7, is_commit=True), 1, now_ms, AppendOrigin.COORDINATOR)
    replica.log.write_staged()
    partition.record_fetch(2, 2, 0, replica.clock.monotonic_ms())

    assert partition.readable_end(EPOCH, False, READ_COMMITTED) == 2


def test_an_append_is_acknowledged_when_it_is_written_or_when_it_is_replicated(replica: Replica) -> None:
    replica.lead(EPOCH, isr=(1, 2))
    partition = replica.partition
    partition.append(batch(b"a"), ACKS_ALL, replica.clock.wall_ms())
    assert not partition.is_acknowledged(1, 1), "it is staged"
    replica.log.write_staged()
    assert partition.is_acknowledged(1, 1)
    assert not partition.is_acknowledged(1, ACKS_ALL)
    partition.record_fetch(2, 1, 0, replica.clock.monotonic_ms())
    assert partition.is_acknowledged(1, ACKS_ALL)


def test_a_leader_that_becomes_a_follower_shows_no_consumer_what_was_not_committed(replica: Replica) -> None:
    """Consumers may read from followers. What it appended in this turn is on no other replica, and is cut off soon."""
    replica.lead(EPOCH, isr=(1, 2))
    replica.partition.append(batch(b"a"), 1, replica.clock.wall_ms())
    replica.manager.staged(replica.partition)
    replica.follow_in(EPOCH + 1, leader_id=2)
    replica.manager.end_turn()

    assert replica.log.log_end_offset == 1
    assert replica.log.high_watermark == 0
    assert replica.partition.readable_end(-1, False, READ_UNCOMMITTED, is_leader_only=False) == 0


def test_each_epoch_begins_where_the_log_ended(replica: Replica) -> None:
    replica.lead(EPOCH, isr=(1,))
    replica.produce(b"a", b"b")
    replica.lead(EPOCH + 2, isr=(1,))
    replica.produce(b"c")
    epochs = replica.log.leader_epochs

    assert epochs.end_offset_for(EPOCH, replica.log.log_end_offset) == (EPOCH, 2)
    assert epochs.end_offset_for(EPOCH + 1, replica.log.log_end_offset) == (EPOCH, 2)
    assert epochs.end_offset_for(EPOCH + 2, replica.log.log_end_offset) == (EPOCH + 2, 3)


def test_an_older_state_makes_neither_a_leader_nor_a_follower(replica: Replica) -> None:
    replica.lead(EPOCH, isr=(1, 2), partition_epoch=9)
    replica.follow_in(EPOCH + 1, leader_id=2, partition_epoch=8)
    assert replica.partition.is_leader
    assert replica.partition.leader_epoch == EPOCH


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_broker_without_a_replica_is_no_follower(replica: Replica, epoch: int, error: ErrorCode) -> None:
    """It may have heard of its replica before the leader has, so with an epoch it is asked to retry."""
    replica.lead(EPOCH, isr=(1, 2))
    replica.partition.check_follower(2, epoch)
    with pytest.raises(ApiError) as refused:
        replica.partition.check_follower(3, epoch)
    assert refused.value.code == error
