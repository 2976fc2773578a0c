"""Offsets of groups in transactions: invisible until the commit, unstable where that is asked, gone with an abort."""

import pytest

from tests.compat.transactions.protocol import Producer, Rpc, until
from tidelog.wire.errors import ErrorCode

PENDING = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
NOTHING = (ErrorCode.NONE, -1)


@pytest.fixture
def producer(rpc: Rpc, name: str) -> Producer:
    return rpc.start(name)


def add_offsets(rpc: Rpc, producer: Producer, group: str) -> None:
    until(lambda: rpc.add_offsets(producer, group) is ErrorCode.NONE)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_count_after_the_commit(rpc: Rpc, producer: Producer, topic: str, group: str, version: int) -> None:
    where = (topic, 0)
    add_offsets(rpc, producer, group)
    assert rpc.commit_offset(producer, group, where, 7, version=version) is ErrorCode.NONE
    assert rpc.offset_of(group, where) == NOTHING
    assert rpc.offset_of(group, where, require_stable=True) == PENDING
    rpc.finish(producer, True)
    until(lambda: rpc.offset_of(group, where, require_stable=True) == (ErrorCode.NONE, 7))


def test_offsets_of_an_aborted_transaction_never_were(rpc: Rpc, producer: Producer, topic: str, group: str) -> None:
    where = (topic, 0)
    add_offsets(rpc, producer, group)
    rpc.commit_offset(producer, group, where, 3)
    rpc.finish(producer, True)
    until(lambda: rpc.offset_of(group, where, require_stable=True) == (ErrorCode.NONE, 3))
    add_offsets(rpc, producer, group)
    rpc.commit_offset(producer, group, where, 9)
    assert rpc.offset_of(group, where) == (ErrorCode.NONE, 3), "the last that was committed"
    rpc.finish(producer, False)
    until(lambda: rpc.offset_of(group, where, require_stable=True) == (ErrorCode.NONE, 3))


def test_the_partition_of_the_group_joins_the_transaction(rpc: Rpc, producer: Producer, group: str) -> None:
    add_offsets(rpc, producer, group)
    described = rpc.describe(producer.transactional_id)
    assert [entry.topic for entry in described.topics] == ["__consumer_offsets"]


def test_offsets_and_records_end_together(rpc: Rpc, producer: Producer, topic: str, group: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    add_offsets(rpc, producer, group)
    rpc.commit_offset(producer, group, (topic, 0), 1)
    rpc.finish(producer, True)
    assert rpc.read(topic) == [b"x"]
    until(lambda: rpc.offset_of(group, (topic, 0), require_stable=True) == (ErrorCode.NONE, 1))


@pytest.mark.parametrize(("version", "code"), [
    (3, ErrorCode.INVALID_TXN_STATE),
    (4, ErrorCode.TRANSACTION_ABORTABLE),
])  # fmt: skip
def test_offsets_of_a_group_that_has_not_joined_are_refused(
    rpc: Rpc, producer: Producer, topic: str, group: str, version: int, code: ErrorCode
) -> None:
    rpc.begin(producer, (topic, 0))
    assert rpc.commit_offset(producer, group, (topic, 0), 1, version=version) is code


def test_a_fenced_producer_commits_no_offsets(rpc: Rpc, producer: Producer, topic: str, group: str) -> None:
    add_offsets(rpc, producer, group)
    rpc.start(producer.transactional_id)
    assert rpc.commit_offset(producer, group, (topic, 0), 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_topic_that_does_not_exist_has_no_offsets(rpc: Rpc, producer: Producer, group: str) -> None:
    add_offsets(rpc, producer, group)
    code = rpc.commit_offset(producer, group, ("nowhere", 0), 1)
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_names_a_member_must_be_one(rpc: Rpc, producer: Producer, topic: str, group: str) -> None:
    """A consumer that has lost its partitions must not commit for those who have them now (KIP-447)."""
    add_offsets(rpc, producer, group)
    code = rpc.commit_offset(producer, group, (topic, 0), 1, generation=3, member="gone")
    assert code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_offset_that_was_committed_later_outside_stays(rpc: Rpc, producer: Producer, topic: str, group: str) -> None:
    """Offsets take effect in the order of the log, not of the markers."""
    from tidelog.wire import messages
    from tidelog.wire.messages import offset_commit

    where = (topic, 0)
    add_offsets(rpc, producer, group)
    rpc.commit_offset(producer, group, where, 5)
    entry = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=8, committed_metadata="")
    request = messages.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[entry])],
    )
    rpc.client.call(request, 7)
    assert rpc.offset_of(group, where) == (ErrorCode.NONE, 8)
    rpc.finish(producer, True)
    until(lambda: rpc.offset_of(group, where, require_stable=True) == (ErrorCode.NONE, 8))
