"""What is asked of our broker and of Apache Kafka in KRaft mode alike: requests that no sound client sends."""

from __future__ import annotations

from typing import Any

from tests.compat.groups.migration_scenarios import consumer_request
from tests.compat.groups.raw import Transcript, Wire
from tests.compat.groups.scenarios import (
    OTHER_TOPIC,
    SUBSCRIPTION,
    TOPIC,
    Connect,
    commit_request,
    fetch_request,
    heartbeat_request,
    join,
    join_request,
    sync_request,
)
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.consumer_group_heartbeat import TopicPartitions
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

ODD_PLACES = ((-1, 0, 0), (5, 99, 0), (5, -1, 0), (5, 0, -5), (5, 0, 10**6), (2**63 - 1, 0, 0))
LEAVES = -1
LEAVES_FOR_NOW = -2


def odd_commits(connect: Connect, transcript: Transcript) -> None:
    """Offsets, partitions and epochs that cannot be, and lists with nothing or too much in them."""
    wire, group = connect(), "odd-commits"
    for version in (2, 5, 7, 9):
        for offset, partition, epoch in (
            (-1, 0, 0),
            (5, 99, 0),
            (5, -1, 0),
            (5, 0, -5),
            (5, 0, 10**6),
            (2**63 - 1, 0, 0),
        ):
            place = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_leader_epoch=epoch
            )
            _commit(wire, transcript, f"v{version} {offset} {partition} {epoch}", version, group, [(TOPIC, [place])])
        for retention_ms in (0, 1, -5) if version < 5 else ():
            request = commit_request(group, retention_time_ms=retention_ms)
            transcript.note(f"v{version} kept for {retention_ms}", wire.ask(request, version))
        places = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset) for offset in (1, 2)]
        _commit(wire, transcript, f"v{version} twice", version, group, [(TOPIC, places)])
        _commit(wire, transcript, f"v{version} no partitions", version, group, [(TOPIC, [])])
        _commit(wire, transcript, f"v{version} no topics", version, group, [])
        _commit(wire, transcript, f"v{version} no topic's name", version, group, [("", places[:1])])
        transcript.note(f"v{version} what there is", wire.ask(fetch_request(group, 5, is_for_all=True), 5))
        for generation, member in ((0, ""), (-1, "x"), (-2, ""), (5, "x")):
            transcript.note(
                f"v{version} {generation} {member!r}", wire.ask(commit_request(group, member, generation), version)
            )


def _commit(
    wire: Wire,
    transcript: Transcript,
    what: str,
    version: int,
    group: str,
    topics: list[tuple[str, list[OffsetCommitRequestPartition]]],
) -> None:
    listed = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics]
    transcript.note(what, wire.ask(OffsetCommitRequest(group_id=group, topics=listed), version))


def odd_fetches(connect: Connect, transcript: Transcript) -> None:
    """Several groups, known and not, and members that are none."""
    wire, group = connect(), "odd-fetches"
    wire.ask(commit_request(group), 9)
    topics = [
        OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 0, 1, 7]),
        OffsetFetchRequestTopics(name="missing", partition_indexes=[0]),
    ]
    for version in (8, 9):
        for what, wanted in {"some": topics, "all": None, "none": []}.items():
            groups = [OffsetFetchRequestGroup(group_id=name, topics=wanted) for name in (group, "unknown", "", group)]
            for is_stable in (False, True):
                reply = wire.ask(OffsetFetchRequest(groups=groups, require_stable=is_stable), version)
                transcript.note(f"v{version} {what} {is_stable}", reply)
    for member, epoch in (("x", -1), ("x", 5), ("", 0), (None, 3)):
        asking = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=None)
        transcript.note(f"{member} {epoch}", wire.ask(OffsetFetchRequest(groups=[asking]), 9))


def odd_joins(connect: Connect, transcript: Transcript) -> None:
    wire = connect()
    odd: dict[str, dict[str, Any]] = {
        "negative-timeout": {"rebalance_timeout_ms": -5},
        "protocol-twice": {"protocols": [("range", b""), ("range", b"1")]},
        "protocol-without-name": {"protocols": [("", b"")]},
        "much-metadata": {"protocols": [("range", b"x" * 300_000)]},
        "no-instance": {"group_instance_id": ""},
        "long-instance": {"group_instance_id": "x" * 300},
        "odd-instance": {"group_instance_id": "a/b"},
    }
    for version in (5, 7, 9):
        for what, fields in odd.items():
            reply = wire.ask(join_request(f"odd-join-{what}-{version}", **fields), version)
            transcript.note(f"v{version} {what}", reply)
        stranger = join_request(f"odd-join-{version}", "stranger", group_instance_id="i")
        transcript.note(f"v{version} stranger", wire.ask(stranger, version))


def odd_administration(connect: Connect, transcript: Transcript) -> None:
    """Filters that match nothing, members that are none, and everything twice."""
    wire, group = connect(), "odd-administration"
    member, generation = join(wire, group, 9)
    wire.ask(sync_request(group, member, generation, {member: SUBSCRIPTION}), 5)
    for states in (["bogus"], ["STABLE", "bogus"], [""]):
        for types in ([], ["bogus"], ["CLASSIC"]):
            listed = wire.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
            listed.groups = [found for found in listed.groups if found.group_id == group]
            transcript.note(f"list {states} {types}", listed)
    for name, instance in (("x", None), ("", "no"), ("x", "no"), (member, "no"), ("", None)):
        leaving = LeaveGroupRequest(
            group_id=group, members=[MemberIdentity(member_id=name, group_instance_id=instance)]
        )
        transcript.note(f"leave {instance}", wire.ask(leaving, 5))
    transcript.note("delete", wire.ask(DeleteGroupsRequest(groups_names=[group, group, "unknown", ""]), 2))
    twice = [MemberIdentity(member_id=member)] * 2
    transcript.note("leave twice", wire.ask(LeaveGroupRequest(group_id=group, members=twice), 5))
    transcript.note("describe twice", wire.ask(DescribeGroupsRequest(groups=[group, group]), 5))
    for what in ("delete", "delete again"):
        transcript.note(what, wire.ask(DeleteGroupsRequest(groups_names=[group]), 2))
    transcript.note("describe what is gone", wire.ask(DescribeGroupsRequest(groups=[group]), 5))


def odd_heartbeats(connect: Connect, transcript: Transcript) -> None:
    """The newer protocol: fields that cannot be, and epochs that were or will be."""
    wire, group = connect(), "odd-heartbeats"
    odd: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "no member": {"member_epoch": 5},
        "no member leaves": {"member_epoch": LEAVES},
        "epoch -3": {"member_id": "m", "member_epoch": -3},
        "no instance": {"member_id": "m", "member_epoch": LEAVES_FOR_NOW},
        "empty instance": {"instance_id": ""},
        "empty rack": {"rack_id": ""},
        "no timeout": {"rebalance_timeout_ms": -1},
        "no topics": {"subscribed_topic_names": None},
        "empty topics": {"subscribed_topic_names": []},
        "nothing owned": {"topic_partitions": None},
        "something owned": {"topic_partitions": [TopicPartitions(topic_id=b"\1" * 16, partitions=[0])]},
        "unknown assignor": {"server_assignor": "nope"},
        "empty assignor": {"server_assignor": ""},
        "stranger": {"member_id": "x", "member_epoch": 3},
    }
    for what, fields in odd.items():
        request = consumer_request(f"{group}-{what}")
        for name, value in fields.items():
            setattr(request, name, value)
        transcript.note(what, wire.ask(request, 0))
    member = transcript.note("join", wire.ask(consumer_request(group), 0)).member_id
    transcript.note("again", wire.ask(consumer_request(group, member), 0))
    other = consumer_request(group, member, subscribed_topic_names=[OTHER_TOPIC])
    transcript.note("again with another topic", wire.ask(other, 0))
    for epoch in (0, 1, 0, 1, 2, 3, 77):
        transcript.note(f"epoch {epoch}", wire.ask(consumer_request(group, member, epoch), 0))
    for epoch in (0, 2, 99):
        transcript.note(f"commit in {epoch}", wire.ask(commit_request(group, member, epoch), 9))
        asking = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=None)
        transcript.note(f"fetch in {epoch}", wire.ask(OffsetFetchRequest(groups=[asking]), 9))
    transcript.note("classic heartbeat", wire.ask(heartbeat_request(group, member, 1), 4))
    transcript.note("classic sync", wire.ask(sync_request(group, member, 1, {}), 5))
    transcript.note("delete", wire.ask(DeleteGroupsRequest(groups_names=[group]), 2))
    for epoch in (LEAVES, 1):
        transcript.note(f"epoch {epoch} in the end", wire.ask(consumer_request(group, member, epoch), 0))
    transcript.note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))


def odd_static_heartbeats(connect: Connect, transcript: Transcript) -> None:
    """One instance id, several members that want it, and the old one that does not give up."""
    wire, group = connect(), "odd-static"

    def beat(what: str, member: str = "", epoch: int = 0, instance: str | None = "i") -> str:
        reply = wire.ask(consumer_request(group, member, epoch, instance_id=instance), 0)
        transcript.note(what, reply)
        return reply.member_id or ""

    first = beat("join")
    beat("join again", first)
    beat("another", "other")
    beat("another instance", first, 0, "j")
    beat("no instance", first, 1, None)
    beat("leave for now", first, LEAVES_FOR_NOW)
    beat("late", first, 1)
    beat("back", "other")
    beat("the first is late", first, 1)
    beat("the first leaves", first, LEAVES)
    for member, instance in ((first, "i"), ("other", "no"), ("other", "i")):
        commit = commit_request(group, member, 1, group_instance_id=instance)
        transcript.note(f"commit {instance}", wire.ask(commit, 9))
    beat("leave", "other", LEAVES)
    transcript.note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))


def a_static_member_is_replaced_in_a_rebalance(connect: Connect, transcript: Transcript) -> None:
    first, second, third, group = connect(), connect(), connect(), "odd-replaced"
    old, generation = join(first, group, 9, group_instance_id="a")
    first.ask(sync_request(group, old, generation, {old: b"1"}, group_instance_id="a"), 5)
    transcript.call(old, "old")
    second.post(join_request(group, group_instance_id="b"), 9)
    while first.ask(heartbeat_request(group, old, generation, group_instance_id="a"), 4).error_code == 0:
        pass
    third.post(join_request(group, group_instance_id="a"), 9)
    transcript.note("new", third.take())
    transcript.note("other", second.take())
    transcript.note("old heartbeat", first.ask(heartbeat_request(group, old, generation, group_instance_id="a"), 4))
    transcript.note("old join", first.ask(join_request(group, old, group_instance_id="a"), 9))
    for member in (old, ""):
        leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member, group_instance_id="a")])
        transcript.note(f"leave as {'old' if member else 'instance'}", first.ask(leaving, 5))


ODDITIES = [
    odd_commits,
    odd_fetches,
    odd_joins,
    odd_administration,
    odd_heartbeats,
    odd_static_heartbeats,
    a_static_member_is_replaced_in_a_rebalance,
]
