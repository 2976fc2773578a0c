"""Roles by the metadata log of a KRaft cluster, where a change of the ISR alone has the leader epoch from before."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.replication.replicas import TOPIC, TOPIC_ID, Replica
from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import LeaderAndIsr
from tidelog.replication.role_changes import RoleChanges
from tidelog.storage.log import Log
from tidelog.timing import ManualClock
from tidelog.wire.errors import ErrorCode


class Followers:
    """Notes what is fetched from whom."""

    def __init__(self) -> None:
        self.followed: list[tuple[int, int]] = []

    def follow(self, partition: Partition) -> None:
        self.followed.append((partition.leader_id, partition.leader_epoch))

    def unfollow(self, keys: Iterable[tuple[str, int]]) -> None:
        """Nothing is fetched."""


class NoLogs:
    """The replica is there already."""

    def open_log(self, topic: str, index: int, topic_id: bytes | None, *, is_new: bool) -> Log:
        raise AssertionError(f"{topic}-{index} ({topic_id!r}, {is_new}) is opened")

    def delete_log(self, topic: str, index: int) -> None:
        raise AssertionError(f"{topic}-{index} is deleted")


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(1, tmp_path, ManualClock())


@pytest.fixture
def followers() -> Followers:
    return Followers()


@pytest.fixture
def roles(replica: Replica, followers: Followers) -> RoleChanges:
    return RoleChanges(replica.manager, NoLogs(), followers, (), replica.clock)


def state(leader: int, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...] = (1, 2)) -> LeaderAndIsr:
    return LeaderAndIsr(leader, leader_epoch, isr, (1, 2), partition_epoch)


def apply(roles: RoleChanges, new: LeaderAndIsr, topic_id: bytes = TOPIC_ID) -> dict[tuple[str, int], ErrorCode]:
    steps = roles.follow_metadata([(TOPIC, topic_id, 0, new, False)])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            errors: dict[tuple[str, int], ErrorCode] = end.value
            return errors


def test_a_leader_learns_another_isr_in_the_epoch_that_it_leads_in(replica: Replica, roles: RoleChanges) -> None:
    apply(roles, state(1, 3, 5))
    assert replica.partition.is_leader
    assert apply(roles, state(1, 3, 6, isr=(1,))) == {(TOPIC, 0): ErrorCode.NONE}
    assert (tuple(replica.partition.isr), replica.partition.leader_epoch) == ((1,), 3)


def test_what_is_not_newer_changes_nothing(replica: Replica, roles: RoleChanges) -> None:
    apply(roles, state(1, 3, 6, isr=(1,)))
    assert apply(roles, state(2, 4, 6)) == {}
    assert apply(roles, state(1, 3, 5)) == {}
    assert replica.partition.is_leader
    assert tuple(replica.partition.isr) == (1,)


def test_a_follower_fetches_anew_in_a_new_leader_epoch_only(
    replica: Replica, roles: RoleChanges, followers: Followers
) -> None:
    apply(roles, state(2, 3, 5))
    apply(roles, state(2, 3, 6))
    assert followers.followed == [(2, 3)]
    apply(roles, state(2, 4, 7))
    assert followers.followed == [(2, 3), (2, 4)]
    apply(roles, state(1, 5, 8))
    assert replica.partition.is_leader


def test_a_partition_of_another_topic_of_the_name_is_left_alone(replica: Replica, roles: RoleChanges) -> None:
    apply(roles, state(1, 3, 5))
    assert apply(roles, state(2, 4, 6), topic_id=b"o" * 16) == {(TOPIC, 0): ErrorCode.INCONSISTENT_TOPIC_ID}
    assert replica.partition.is_leader
