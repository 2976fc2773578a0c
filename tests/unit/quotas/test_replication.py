"""Which replicas a quota of replication covers."""

from __future__ import annotations

from tidelog.quotas import ReplicationQuota


def test_only_pairs_of_this_broker_are_covered() -> None:
    quota = ReplicationQuota(2)
    replicas = ("0:1", "1:2", "2:2")
    assert [quota.covers("orders", index, replicas) for index in range(4)] == [False, True, True, False]


def test_a_star_covers_every_partition() -> None:
    assert ReplicationQuota(2).covers("orders", 7, ("*",))


def test_without_a_list_nothing_is_covered() -> None:
    assert not ReplicationQuota(2).covers("orders", 0, ())


def test_a_changed_list_is_read_again() -> None:
    quota = ReplicationQuota(2)
    assert quota.covers("orders", 0, ("0:2",))
    assert not quota.covers("orders", 0, ("1:2",))
    assert quota.covers("payments", 0, ("0:2",)), "each topic has its own"


def test_without_a_rate_there_is_no_limit() -> None:
    quota = ReplicationQuota(2)
    assert not quota.is_limited
    quota.record(1 << 60, 0)
    assert not quota.is_exceeded(0)
    quota.set_rate(1000)
    assert quota.is_limited
    assert quota.is_exceeded(0)
