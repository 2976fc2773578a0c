"""Records of the offsets topic: what is written is read back, and no bytes whatever do harm."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.groups import GroupSettings, GroupShard
from tidelog.groups.classic.member import Member
from tidelog.groups.schemas import (
    CommittedOffset,
    GroupValue,
    SchemaError,
    commit_timestamp,
    group_value,
    offset_value,
    partition_key,
    read_group_value,
    read_offset_value,
    read_partition_key,
)
from tidelog.groups.subscription import subscribed_topics

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
KEYS = st.binary(max_size=40) | st.builds(
    lambda head, rest: head + rest, st.sampled_from((b"\0\0", b"\0\1", b"\0\2")), st.binary(max_size=40)
)


@given(INT64, INT32, TEXT, INT64, st.none() | st.integers(0, 2**62))
def test_offsets_are_read_as_written(
    offset: int, epoch: int, metadata: str, committed_at: int, expires_at: int | None
) -> None:
    value = offset_value(offset, epoch, metadata, committed_at, -1 if expires_at is None else expires_at)
    if expires_at is None:
        assert read_offset_value(value) == CommittedOffset(offset, epoch, metadata, committed_at)
    else:
        assert read_offset_value(value) == CommittedOffset(offset, -1, metadata, committed_at, expires_at)


@given(INT64, INT32, TEXT, st.integers(0, 2**63 - 1), st.binary(min_size=16, max_size=16))
def test_offsets_with_topic_ids_are_read_as_written(
    offset: int, epoch: int, metadata: str, committed_at: int, topic_id: bytes
) -> None:
    value = offset_value(offset, epoch, metadata, committed_at, topic_id=topic_id)
    assert read_offset_value(value) == CommittedOffset(offset, epoch, metadata, committed_at, topic_id=topic_id)
    assert commit_timestamp(value) == committed_at


@settings(max_examples=examples(200))
@given(st.binary(max_size=60))
def test_a_broken_offset_of_version_4_is_refused_or_never_expires(rest: bytes) -> None:
    value = b"\0\4" + rest
    commit_timestamp(value)
    with contextlib.suppress(SchemaError):
        assert len(read_offset_value(value).topic_id) == 16


@given(TEXT, INT32)
def test_partition_keys_are_read_as_written(topic: str, partition: int) -> None:
    assert read_partition_key(partition_key(topic, partition)) == (topic, partition)


@given(
    TEXT,
    INT32,
    st.none() | TEXT,
    INT64,
    st.lists(st.tuples(TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(), st.binary()), max_size=3),
)
def test_groups_are_read_as_written(
    protocol_type: str,
    generation: int,
    leader: str | None,
    since_ms: int,
    fields: list[tuple[str, str | None, str, str, int, int, bytes, bytes]],
) -> None:
    members = [Member(*some[:6], (("p", some[6]),), some[7]) for some in fields]
    written = GroupValue(protocol_type, generation, "p", leader, since_ms, members)
    read = read_group_value(group_value(written, {member.member_id: member.assignment for member in members}))
    assert read[:5] == written[:5]
    last = {member.member_id: member.assignment for member in members}
    for before, after in zip(members, read.members, strict=True):
        for name in ("member_id", "instance_id", "client_id", "client_host", "session_timeout_ms", "protocols"):
            assert getattr(before, name) == getattr(after, name)
        assert after.rebalance_timeout_ms == before.rebalance_timeout_ms
        assert after.assignment == last[after.member_id]


@settings(max_examples=examples(200))
@given(st.binary(max_size=60))
def test_readers_raise_nothing_but_their_own_error(value: bytes) -> None:
    for read in (read_group_value, read_offset_value):
        with contextlib.suppress(SchemaError):
            read(value)
    subscribed_topics(value)


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=40), st.sampled_from((-1, 7))), max_size=20))
def test_a_log_with_anything_in_it_is_loaded(records: list[tuple[bytes, bytes | None, int]]) -> None:
    shard = GroupShard(0, GroupSettings(), lambda: "")
    for key, value, producer_id in records:
        shard.replay(key, value, producer_id, 0)
    shard.replay_end_transaction(7, 0, True)
    shard.on_loaded(0)
    shard.expire(10**15)
    for group in list(shard.groups()):
        shard.fetch_offsets(group.group_id, None, True)
        shard.describe(group.group_id)
