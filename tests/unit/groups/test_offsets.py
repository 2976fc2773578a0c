"""Committed offsets: who may commit, what is kept, what a transaction changes, what is deleted and what expires."""

from __future__ import annotations

import pytest

from tests.unit.groups.world import GROUP, SESSION_MS, World
from tidelog.coordination import ProducerEpoch
from tidelog.groups import Committer, GroupState
from tidelog.groups.schemas import CommittedOffset, group_key, offset_key_prefix, partition_key, read_offset_value
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.primitives import NO_UUID

DAY_MS = 24 * 60 * 60 * 1000
RETENTION_MS = 7 * DAY_MS
PRODUCER = ProducerEpoch(7, 0)
OTHER_PRODUCER = ProducerEpoch(8, 0)
OLD_ID, NEW_ID, OTHER_ID = (bytes([number]) * 16 for number in (1, 2, 3))


def end_transaction(world: World, producer: ProducerEpoch, *, is_commit: bool) -> None:
    world.runtime.end_transaction(0, producer, 0, is_commit, lambda _: None)


# --- topic ids ---


def test_an_offset_of_a_deleted_topic_is_not_the_new_topics() -> None:
    """Deleted and made again while the coordinator was away: no tombstone was written."""
    world = World()
    world.commit(42, topic_id=OLD_ID, metadata="m"), world.commit(7, topic="u", topic_id=OTHER_ID)
    world.restart()
    assert world.committed(topic_id=OLD_ID) == 42
    assert world.committed(topic_id=NEW_ID) == -1
    assert world.committed("u", topic_id=OTHER_ID) == 7
    assert world.commit(0, topic_id=NEW_ID) is ErrorCode.NONE
    assert world.committed(topic_id=NEW_ID) == 0


def test_offsets_without_an_id_and_topics_without_one_match() -> None:
    """What earlier versions stored, and topics from before there were ids."""
    world = World()
    world.commit(1), world.commit(2, partition=1, topic_id=OLD_ID)
    assert world.committed(topic_id=NEW_ID) == 1
    assert world.committed(partition=1, topic_id=NO_UUID) == 2


@pytest.mark.parametrize("metadata", ["", "m"])
def test_offsets_with_ids_expire_like_others(metadata: str) -> None:
    world = World()
    world.commit(1, topic_id=OLD_ID, metadata=metadata)
    world.advance(RETENTION_MS - DAY_MS)
    assert world.committed() == 1
    world.advance(2 * DAY_MS)
    assert world.committed() == -1


def test_a_commit_by_id_names_a_group_that_does_not_exist() -> None:
    committer = Committer(3, "member", knows_missing_groups=True)
    with pytest.raises(ApiError) as refused:
        World().shard.commit_offsets("none", committer, [], lambda _: 1, 0)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


# --- commits ---


def test_a_commit_is_stored_as_kafka_stores_it_and_read_back() -> None:
    world = World()
    assert world.commit(42, metadata="here", leader_epoch=3) is ErrorCode.NONE
    ((key, value),) = world.log.records()
    assert key == offset_key_prefix(GROUP) + partition_key("t", 0)
    assert value is not None
    assert read_offset_value(value) == CommittedOffset(42, 3, "here", world.clock.wall_ms())
    world.restart()
    assert world.committed() == 42
    assert world.group.state is GroupState.EMPTY


def test_a_commit_with_a_retention_of_its_own_carries_its_expiry() -> None:
    world = World()
    world.commit(1, retention_ms=1_000)
    ((_, value),) = world.log.records()
    assert value is not None
    assert read_offset_value(value).expire_timestamp == world.clock.wall_ms() + 1_000


def test_a_retention_that_ends_after_all_time_ends_with_it() -> None:
    world = World()
    assert world.commit(1, retention_ms=2**63 - 1) is ErrorCode.NONE
    ((_, value),) = world.log.records()
    assert value is not None
    assert read_offset_value(value).expire_timestamp == 2**63 - 1


def test_offsets_of_a_group_that_never_existed_are_no_error() -> None:
    shard = World().shard
    ((topic, entries),) = shard.fetch_offsets("none", [("t", [0, 1])], True).items()
    assert topic == "t"
    assert [(entry.partition, entry.committed, entry.error) for entry in entries] == [(0, None, 0), (1, None, 0)]
    assert shard.fetch_offsets("none", None, True) == {}


def test_all_offsets_of_a_group_can_be_asked_for() -> None:
    world = World()
    world.commit(1), world.commit(2, partition=5), world.commit(3, topic="u")
    found = world.shard.fetch_offsets(GROUP, None, False)
    assert {
        (topic, entry.partition, entry.committed.offset)
        for topic, entries in found.items()
        for entry in entries
        if entry.committed is not None
    } == {("t", 0, 1), ("t", 5, 2), ("u", 0, 3)}


def test_a_member_commits_in_its_generation() -> None:
    world = World()
    (member,) = world.stable(None)
    assert world.commit(1, member_id=member, generation=1) is ErrorCode.NONE
    assert world.commit(2, member_id=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit(2, member_id="unknown", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == 1


def test_while_a_group_has_members_no_other_client_commits() -> None:
    world = World()
    world.stable(None)
    assert world.commit(1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_group_that_is_gone_is_illegal() -> None:
    assert World().commit(1, member_id="m", generation=3) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_commit_while_others_join_but_not_before_it_has_its_assignment() -> None:
    world = World()
    (member,) = world.stable(None)
    world.join()
    assert world.commit(1, member_id=member, generation=1) is ErrorCode.NONE
    world.join(member)
    assert world.commit(2, member_id=member, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_metadata_is_bounded_for_each_partition() -> None:
    world = World(offset_metadata_max_bytes=3)
    assert world.commit(1, metadata="four") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.log.batches == []
    assert world.commit(1, metadata="abc") is ErrorCode.NONE
    assert world.commit(2, metadata=None) is ErrorCode.NONE


def test_a_topic_or_partition_that_does_not_exist_is_refused() -> None:
    world = World()
    for partition in (-1, 3):
        code = world.commit(1, partition=partition, partition_count=lambda _: 3)
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.commit(1, partition_count=lambda _: 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.shard.group(GROUP) is None


def test_a_commit_that_the_log_refuses_is_not_seen() -> None:
    world = World()
    world.commit(1)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit(2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed() == 1


# --- transactions ---


def test_offsets_of_a_transaction_are_seen_when_it_commits() -> None:
    world = World()
    world.commit(1)
    world.commit(5, producer=PRODUCER)
    assert world.committed() == 1
    (entry,) = world.shard.fetch_offsets(GROUP, [("t", [0])], True)["t"]
    assert (entry.committed, entry.error) == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    (entry,) = world.shard.fetch_offsets(GROUP, None, True)["t"]
    assert entry.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.restart()
    assert world.committed() == 1
    end_transaction(world, PRODUCER, is_commit=True)
    assert world.committed() == 5
    world.restart()
    assert world.committed() == 5


def test_offsets_of_an_aborted_transaction_never_were() -> None:
    world = World()
    world.commit(5, producer=PRODUCER)
    end_transaction(world, PRODUCER, is_commit=False)
    assert world.committed() == -1
    assert world.shard.group(GROUP) is None, "nothing is left of the group"


def test_a_later_commit_is_not_undone_by_an_earlier_transaction() -> None:
    world = World()
    world.commit(5, producer=PRODUCER)
    world.commit(9)
    end_transaction(world, PRODUCER, is_commit=True)
    assert world.committed() == 9


def test_of_two_transactions_the_one_that_wrote_last_wins() -> None:
    world = World()
    world.commit(5, producer=PRODUCER)
    world.commit(6, producer=OTHER_PRODUCER)
    end_transaction(world, OTHER_PRODUCER, is_commit=True)
    end_transaction(world, PRODUCER, is_commit=True)
    assert world.committed() == 6
    world.restart()
    assert world.committed() == 6


def test_a_transaction_commits_for_a_member_or_for_none() -> None:
    """Producers before 2.5 do not name a member; those that do are fenced like one."""
    world = World()
    (member,) = world.stable(None)
    assert world.commit(1, producer=PRODUCER) is ErrorCode.NONE
    assert world.commit(1, member_id=member, generation=1, producer=PRODUCER) is ErrorCode.NONE
    assert world.commit(1, member_id=member, generation=0, producer=PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit(1, member_id="x", generation=1, producer=PRODUCER) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(1, member_id="x", generation=1, producer=PRODUCER, group_id="none") is (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


# --- deletion ---


def delete_offsets(world: World, *partitions: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
    return world.execute(lambda shard, _, now_ms: shard.delete_offsets(GROUP, partitions, now_ms)).reply


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    world = World()
    (member,) = world.stable(None)
    for topic in ("t", "u"):
        world.commit(1, topic=topic, member_id=member, generation=1)
    assert delete_offsets(world, ("t", 0), ("u", 0), ("v", 0)) == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("v", 0): ErrorCode.NONE,
    }
    assert (world.committed("t"), world.committed("u")) == (1, -1)
    world.restart()
    assert (world.committed("t"), world.committed("u")) == (1, -1)


def test_of_a_group_that_is_no_consumer_group_nothing_is_deleted_while_it_has_members() -> None:
    world = World()
    world.stable(None, protocol_type="connect")
    with pytest.raises(ApiError) as caught:
        world.shard.delete_offsets(GROUP, [("t", 0)], 0)
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_no_group_cannot_be_deleted() -> None:
    with pytest.raises(ApiError) as caught:
        World().shard.delete_offsets(GROUP, [("t", 0)], 0)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_simple_group_goes_with_its_last_offset() -> None:
    world = World()
    world.commit(1)
    delete_offsets(world, ("t", 0))
    assert world.shard.group(GROUP) is None


def test_a_group_is_deleted_with_its_offsets_unless_it_has_members() -> None:
    world = World()
    (member,) = world.stable(None)
    world.commit(1, member_id=member, generation=1)
    assert world.delete_group() is ErrorCode.NON_EMPTY_GROUP
    world.leave((member, None))
    assert world.delete_group() is ErrorCode.NONE
    assert world.log.records()[-1] == (group_key(GROUP), None)
    assert world.delete_group() is ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert world.shard.group(GROUP) is None


def test_a_group_with_very_many_offsets_is_deleted_in_several_batches() -> None:
    world = World()
    for partition in range(4_500):
        world.commit(1, partition=partition)
    before = len(world.log.batches)
    assert world.delete_group() is ErrorCode.NONE
    assert len(world.log.batches) == before + 3
    assert world.shard.group(GROUP) is None


def test_offsets_of_deleted_topics_are_forgotten() -> None:
    world = World()
    world.commit(1, topic="t")
    world.commit(1, topic="tt")
    world.commit(2, topic="t", group_id="other")
    world.commit(3, topic="t", partition=1, producer=PRODUCER)
    world.execute(lambda shard, _, now_ms: shard.forget_topics(["t"], now_ms))
    assert (world.committed("t"), world.committed("tt")) == (-1, 1)
    assert world.shard.group("other") is None
    end_transaction(world, PRODUCER, is_commit=True)
    assert world.committed("t", 1) == -1


# --- expiry ---


def test_offsets_of_a_simple_group_expire_after_their_last_commit() -> None:
    world = World()
    world.commit(1)
    world.advance(RETENTION_MS - DAY_MS)
    world.commit(2, partition=1)
    world.advance(DAY_MS + world.settings.offsets_retention_check_interval_ms)
    assert (world.committed(partition=0), world.committed(partition=1)) == (-1, 2)
    world.advance(RETENTION_MS)
    assert world.shard.group(GROUP) is None
    assert world.log.records()[-1] == (offset_key_prefix(GROUP) + partition_key("t", 1), None)
    world.restart()
    assert world.shard.group(GROUP) is None


def test_offsets_of_a_group_expire_after_its_last_member_has_gone() -> None:
    world = World()
    (member,) = world.stable(None, session_timeout_ms=DAY_MS // 48)
    world.commit(1, member_id=member, generation=1)
    for _ in range(48 * 14):
        world.advance(DAY_MS // 48 - 1)
        assert world.heartbeat(member, 1) is ErrorCode.NONE
    assert world.committed() == 1
    world.leave((member, None))
    world.advance(RETENTION_MS - 1)
    assert world.committed() == 1
    world.advance(world.settings.offsets_retention_check_interval_ms + 1)
    assert world.committed() == -1
    assert world.shard.group(GROUP) is None
    assert world.log.records()[-1] == (group_key(GROUP), None)


def test_offsets_of_topics_that_members_no_longer_read_expire() -> None:
    world = World()
    (member,) = world.stable(None)
    for topic in ("t", "u"):
        world.commit(1, topic=topic, member_id=member, generation=1)
    while world.committed("u") == 1 and world.clock.monotonic_ms() < RETENTION_MS * 2:
        world.advance(SESSION_MS // 2)
        world.clock.set_wall_ms(world.clock.wall_ms() + DAY_MS)
        world.heartbeat(member, 1)
        world.shard.expire(world.clock.wall_ms())
        world.execute(lambda shard, _, now_ms: shard.expire(now_ms))
    assert (world.committed("t"), world.committed("u")) == (1, -1)


def test_an_offset_with_its_own_expiry_goes_by_that() -> None:
    world = World()
    world.commit(1, retention_ms=DAY_MS)
    world.advance(DAY_MS + world.settings.offsets_retention_check_interval_ms)
    assert world.committed() == -1


def test_offsets_that_a_transaction_may_replace_do_not_expire() -> None:
    world = World()
    world.commit(1)
    world.commit(2, producer=PRODUCER)
    world.advance(RETENTION_MS * 2)
    assert world.committed() == 1


def test_very_many_offsets_are_searched_a_part_at_a_time() -> None:
    world = World(offsets_retention_check_interval_ms=RETENTION_MS)
    for number in range(40):
        for partition in range(200):
            world.commit(1, partition=partition, group_id=f"g{number}")
    before = len(world.log.batches)
    world.advance(RETENTION_MS + world.settings.offsets_retention_check_interval_ms + 100)
    assert list(world.shard.groups()) == []
    assert len(world.log.batches) - before >= 4


def test_a_group_that_was_never_joined_is_forgotten() -> None:
    world = World()
    world.join(needs_member_id=True)
    world.advance(SESSION_MS + world.settings.offsets_retention_check_interval_ms)
    assert world.shard.group(GROUP) is None
    assert world.log.batches == []


def test_records_that_cannot_be_read_are_passed_over() -> None:
    world = World()
    world.commit(1)
    shard = world.shard
    for key in (b"", b"\0\1\0", b"\0\1\0\1\xff\0\0", b"\0\2\0\1\xff", b"\0\x09\0\1g"):
        shard.replay(key, b"x", -1, -1)
    shard.replay(offset_key_prefix(GROUP) + partition_key("t", 1), b"\0\x09junk", -1, -1)
    shard.replay(group_key("broken"), b"\0\3", -1, -1)
    assert world.committed() == 1
    assert world.committed(partition=1) == -1
    assert list(shard.fetch_offsets(GROUP, None, False)) == ["t"]
