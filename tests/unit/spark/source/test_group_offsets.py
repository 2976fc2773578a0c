"""Offsets shown to tools that watch groups."""

from concurrent.futures import Future
from typing import Any, cast

from tests.unit.spark.source.fakes import offsets
from tidelog.client.errors import ApiError
from tidelog.spark.source.group_offsets import GroupOffsets
from tidelog.wire.errors import ErrorCode


class FakeCluster:
    """Commits that end when the test says so."""

    def __init__(self):
        self.commits: list[Any] = []

    def begin_group_commit(self, group_id, committed):
        assert group_id == "g"
        self.commits.append((committed, Future()))
        return self.commits[-1][1]

    @property
    def committed(self):
        return [committed for committed, _ in self.commits]

    def end(self, index, error=None):
        future = self.commits[index][1]
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def test_offsets_are_committed_one_after_the_other():
    cluster = FakeCluster()
    group = GroupOffsets(lambda: cast(Any, cluster), "g")
    group.commit(offsets(t_0=5, u_1=7))
    cluster.end(0)
    group.commit(offsets(t_0=6))
    cluster.end(1)
    assert cluster.committed == [offsets(t_0=5, u_1=7), offsets(t_0=6)]


def test_a_query_does_not_wait_and_only_the_newest_offsets_follow():
    cluster = FakeCluster()
    group = GroupOffsets(lambda: cast(Any, cluster), "g")
    for offset in (5, 6, 7):
        group.commit(offsets(t_0=offset))
    assert cluster.committed == [offsets(t_0=5)]
    cluster.end(0)
    assert cluster.committed == [offsets(t_0=5), offsets(t_0=7)]
    cluster.end(1)
    group.commit(offsets(t_0=8))
    assert cluster.committed[-1] == offsets(t_0=8)


def test_failures_are_said_and_change_nothing(caplog):
    cluster = FakeCluster()
    group = GroupOffsets(lambda: cast(Any, cluster), "g")
    group.commit(offsets(t_0=5))
    cluster.end(0, ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert "offsets were not committed for group 'g' (commitGroupId)" in caplog.text
    group.commit(offsets(t_0=6))
    assert cluster.committed == [offsets(t_0=5), offsets(t_0=6)]
