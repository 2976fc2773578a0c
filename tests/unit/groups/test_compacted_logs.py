"""A compacted log keeps the last record of each key: a member's assignment may then come before the member itself."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.unit.groups.consumer_world import Client, ConsumerWorld
from tests.unit.groups.streams_world import GROUP as STREAMS_GROUP
from tests.unit.groups.streams_world import StreamsMember, StreamsWorld
from tests.unit.groups.test_share_groups import GROUP as SHARE_GROUP
from tests.unit.groups.test_share_groups import ShareMember
from tests.unit.groups.world import GROUP, Log
from tidelog.groups import GroupSettings, GroupShard
from tidelog.groups.consumer import schemas as consumer
from tidelog.groups.share import schemas as share
from tidelog.groups.streams import schemas as streams


def consumers() -> tuple[Log, Callable[[GroupShard], Any]]:
    world = ConsumerWorld()
    Client(world).join()
    return world.log, lambda shard: _newer(shard, GROUP).consumer


def shares() -> tuple[Log, Callable[[GroupShard], Any]]:
    world = ConsumerWorld()
    ShareMember(world, "a").beat()
    return world.log, lambda shard: shard.shares.known(SHARE_GROUP)


def applications() -> tuple[Log, Callable[[GroupShard], Any]]:
    world = StreamsWorld()
    world.settle(StreamsMember(world, "a"))
    return world.log, lambda shard: _newer(shard, STREAMS_GROUP).streams


def _newer(shard: GroupShard, group_id: str) -> Any:
    found = shard.group(group_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("make", "member_kind"),
    [(consumers, consumer.MEMBER), (shares, share.MEMBER), (applications, streams.MEMBER)],
)
def test_an_assignment_before_its_member_is_kept(
    make: Callable[[], tuple[Log, Callable[[GroupShard], Any]]], member_kind: int
) -> None:
    log, look = make()
    compacted = {key: value for key, value in log.records() if key is not None}
    members = [each for each in compacted.items() if struct.unpack_from(">h", each[0])[0] == member_kind]
    others = [each for each in compacted.items() if each not in members]
    assert members, "there is a member"
    known = look(replayed(compacted.items())).members
    assert look(replayed([*others, *members])).members == known
    assert all(each.assigned for each in known.values()), "they have something to lose"


def replayed(records: Iterable[tuple[bytes, bytes | None]]) -> GroupShard:
    shard = GroupShard(0, GroupSettings(), lambda: "m")
    for key, value in records:
        shard.replay(key, value, -1, -1)
    return shard
