"""Offsets shown to tools that watch groups."""

import pytest

from tests.unit.spark.source.fakes import offsets
from tidelog.client.errors import ConnectionLost
from tidelog.spark.source import group_offsets
from tidelog.spark.source.group_offsets import GroupOffsets
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import FindCoordinatorResponse, OffsetCommitResponse
from tidelog.wire.messages.find_coordinator import Coordinator
from tidelog.wire.messages.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic


class FakeCoordinator:
    """Answers FindCoordinator and OffsetCommit; `refusals` come first."""

    def __init__(self):
        self.refusals = []
        self.lookups = 0
        self.commits = []

    def on_any(self, request, answer):
        self.lookups += 1
        found = Coordinator(key=request.key, node_id=3, host="h", port=1)
        return FindCoordinatorResponse(coordinators=[found])

    def on_node(self, node, request, answer):
        assert node.node_id == 3
        refusal = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if isinstance(refusal, Exception):
            raise refusal
        if refusal is ErrorCode.NONE:
            self.commits.append(
                {
                    (topic.name, each.partition_index): each.committed_offset
                    for topic in request.topics
                    for each in topic.partitions
                }
            )
        told = OffsetCommitResponsePartition(partition_index=0, error_code=refusal)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[told])])


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(group_offsets, "_BACKOFF_S", 0.0)


def test_offsets_are_committed_and_the_coordinator_is_remembered():
    cluster = FakeCoordinator()
    group = GroupOffsets(cluster, "g")
    group.commit(offsets(t_0=5, u_1=7))
    group.commit(offsets(t_0=6))
    assert cluster.commits == [{("t", 0): 5, ("u", 1): 7}, {("t", 0): 6}]
    assert cluster.lookups == 1


def test_a_coordinator_that_moves_or_loads_is_looked_for_again():
    cluster = FakeCoordinator()
    cluster.refusals = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    GroupOffsets(cluster, "g").commit(offsets(t_0=5))
    assert cluster.commits == [{("t", 0): 5}]
    assert cluster.lookups == 3


@pytest.mark.parametrize("trouble", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ConnectionLost("h:1", "gone")])
def test_failures_are_said_and_change_nothing(trouble, caplog):
    cluster = FakeCoordinator()
    cluster.refusals = [trouble]
    group = GroupOffsets(cluster, "g")
    group.commit(offsets(t_0=5))
    assert "offsets were not committed for group 'g' (commitGroupId)" in caplog.text
    group.commit(offsets(t_0=6))
    assert cluster.commits == [{("t", 0): 6}]


def test_a_query_does_not_wait_again_for_what_did_not_come(caplog):
    cluster = FakeCoordinator()
    group = GroupOffsets(cluster, "g")
    cluster.refusals = [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    group.commit(offsets(t_0=5))
    group.commit(offsets(t_0=6))
    assert len(caplog.records) == 2
    assert cluster.commits == []
