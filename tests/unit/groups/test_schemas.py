"""Records of `__consumer_offsets`, against bytes laid out by hand after Kafka's definitions."""

from __future__ import annotations

import pytest

from tidelog.groups.classic.member import Member
from tidelog.groups.schemas import (
    CommittedOffset,
    GroupValue,
    SchemaError,
    group_key,
    group_value,
    offset_key_prefix,
    offset_value,
    partition_key,
    read_group_value,
    read_offset_value,
    read_partition_key,
)
from tidelog.groups.subscription import subscribed_topics

OFFSET = bytes.fromhex("000000000000002a")
TIME = bytes.fromhex("0000000000000007")
ID = bytes(range(16))
EXPIRY = bytes.fromhex("0000000000000009")


def test_keys_are_kafkas() -> None:
    assert offset_key_prefix("gr") + partition_key("top", 3) == b"\0\1\0\2gr\0\3top\0\0\0\3"
    assert group_key("gr") == b"\0\2\0\2gr"
    assert read_partition_key(partition_key("thémé", 7)) == ("thémé", 7)


def test_offsets_are_written_in_version_3_with_a_topic_id_in_4_or_with_an_expiry_in_1() -> None:
    assert offset_value(42, 5, "m", 7) == b"\0\3" + OFFSET + b"\0\0\0\5\0\1m" + TIME
    assert offset_value(42, 5, "m", 7, topic_id=ID) == b"\0\4" + OFFSET + b"\0\0\0\5\2m" + TIME + b"\1\0\x10" + ID
    assert offset_value(42, 5, "", 7, topic_id=ID) == b"\0\4" + OFFSET + b"\0\0\0\5\1" + TIME + b"\1\0\x10" + ID
    assert offset_value(42, 5, "m", 7, 9, ID) == offset_value(42, 5, "m", 7, 9)
    assert offset_value(42, 5, "m", 7, 9) == b"\0\1" + OFFSET + b"\0\1m" + TIME + EXPIRY


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\0\0" + OFFSET + b"\0\1m" + TIME, CommittedOffset(42, -1, "m", 7)),
        (b"\0\1" + OFFSET + b"\0\1m" + TIME + EXPIRY, CommittedOffset(42, -1, "m", 7, 9)),
        (b"\0\2" + OFFSET + b"\0\0" + TIME, CommittedOffset(42, -1, "", 7)),
        (b"\0\3" + OFFSET + b"\0\0\0\5\0\1m" + TIME, CommittedOffset(42, 5, "m", 7)),
        (b"\0\4" + OFFSET + b"\0\0\0\5\2m" + TIME + b"\0", CommittedOffset(42, 5, "m", 7)),
        (
            b"\0\4" + OFFSET + b"\0\0\0\5\2m" + TIME + b"\2\0\x10" + ID + b"\1\2??",
            CommittedOffset(42, 5, "m", 7, topic_id=ID),
        ),
    ],
)
def test_offsets_of_every_version_are_read(value: bytes, expected: CommittedOffset) -> None:
    assert read_offset_value(value) == expected


GROUP_3 = (
    b"\0\3\0\x08consumer\0\0\0\2\0\5range\0\1m"
    + TIME
    + b"\0\0\0\1\0\1m\0\1i\0\1c\0\2/h\0\0\0\x14\0\0\0\x0a\0\0\0\2su\0\0\0\1a"
)
GROUP_0 = b"\0\0\0\x08consumer\0\0\0\2\0\5range\0\1m" + b"\0\0\0\1\0\1m\0\1c\0\2/h\0\0\0\x0a\0\0\0\2su\0\0\0\1a"
GROUP_1 = (
    b"\0\1\0\x08consumer\0\0\0\2\0\5range\0\1m" + b"\0\0\0\1\0\1m\0\1c\0\2/h\0\0\0\x14\0\0\0\x0a\0\0\0\2su\0\0\0\1a"
)
GROUP_2 = b"\0\2" + GROUP_1[2:26] + TIME + GROUP_1[26:]


def test_groups_are_written_in_version_3() -> None:
    member = Member("m", "i", "c", "/h", 10, 20, (("sticky", b"no"), ("range", b"su")))
    assert group_value(GroupValue("consumer", 2, "range", "m", 7, [member]), {"m": b"a"}) == GROUP_3
    empty = GroupValue("consumer", 3, None, None, 7, [])
    assert group_value(empty, {}) == b"\0\3\0\x08consumer\0\0\0\3\xff\xff\xff\xff" + TIME + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("value", "instance_id", "rebalance_timeout_ms", "since_ms"),
    [(GROUP_0, None, 10, -1), (GROUP_1, None, 20, -1), (GROUP_2, None, 20, 7), (GROUP_3, "i", 20, 7)],
    ids=["version 0", "version 1", "version 2", "version 3"],
)
def test_groups_of_every_version_are_read(
    value: bytes, instance_id: str | None, rebalance_timeout_ms: int, since_ms: int
) -> None:
    group = read_group_value(value)
    assert group[:5] == ("consumer", 2, "range", "m", since_ms)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.client_id, member.client_host) == ("m", instance_id, "c", "/h")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10, rebalance_timeout_ms)
    assert (member.protocols, member.assignment) == ((("range", b"su"),), b"a")


@pytest.mark.parametrize("length", range(len(GROUP_3)))
def test_a_group_cut_off_anywhere_is_an_error_of_its_own(length: int) -> None:
    with pytest.raises(SchemaError):
        read_group_value(GROUP_3[:length])


@pytest.mark.parametrize("value", [b"", b"\0\4" + OFFSET * 4, b"\0\3" + OFFSET, b"\0\0" + OFFSET + b"\xff\xff" + TIME])
def test_offsets_that_make_no_sense_are_an_error_of_their_own(value: bytes) -> None:
    with pytest.raises(SchemaError):
        read_offset_value(value)


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (b"\0\0\0\0\0\2\0\1t\0\1u\xff\xff\xff\xff", {"t", "u"}),
        (b"\0\3\0\0\0\0", set()),
        (b"", None),
        (b"\0\0\0\0\0\2\0\1t", None),
        (b"\0\0\x7f\xff\xff\xff", None),
        (b"\0\0\0\0\0\1\xff\xff", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
    ],
)
def test_topics_are_read_from_every_version_of_a_subscription(metadata: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(metadata) == topics
