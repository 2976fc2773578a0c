"""What is asked of our broker and of Apache Kafka alike: every group API in every version, well and badly used.

Each scenario takes a function that opens connections and a `Transcript` to write the answers into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.groups.raw import Transcript, Wire
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Connect = Callable[[], Wire]
TOPIC = "scenario-topic"
OTHER_TOPIC = "scenario-other"
MEMBER_ID_REQUIRED = 79
KEY_TYPES = ((0,), *[(0, 2, 9)] * 5, (0, 9))
"""What coordinators are asked for, by the version: from 6 on 2 finds those of share groups, which Kafka 3.9 lacks."""
GROUP_SETTINGS = 1 << 10 | 1 << 11
"""DESCRIBE_CONFIGS and ALTER_CONFIGS among the rights of a group, whose settings came with Kafka 4."""
SUBSCRIPTION = b"\0\0\0\0\0\1\0\x0e" + TOPIC.encode() + b"\xff\xff\xff\xff"
RANGE = [("range", SUBSCRIPTION)]


def join_request(group: str, member: str = "", **fields: Any) -> JoinGroupRequest:
    protocols = fields.pop("protocols", RANGE)
    return JoinGroupRequest(
        **{
            "group_id": group,
            "member_id": member,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],  # type: ignore[attr-defined]
            **fields,
        }
    )


def sync_request(group: str, member: str, generation: int, parts: dict[str, bytes], **fields: Any) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=name, assignment=part) for name, part in parts.items()]
    return SyncGroupRequest(
        **{
            "group_id": group,
            "member_id": member,
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": assignments,
            **fields,
        }
    )


def commit_request(
    group: str,
    member: str = "",
    generation: int = -1,
    *,
    topic: str = TOPIC,
    metadata: str | None = "m",
    **fields: Any,
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=42, committed_leader_epoch=0, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        **{
            "group_id": group,
            "member_id": member,
            "generation_id_or_member_epoch": generation,
            "topics": [OffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **fields,
        }
    )


def fetch_request(group: str, version: int, *, is_for_all: bool = False, **fields: Any) -> OffsetFetchRequest:
    if version >= 8:
        topics = None if is_for_all else [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], **fields)
    old = None if is_for_all else [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
    return OffsetFetchRequest(group_id=group, topics=old, **fields)


def join(wire: Wire, group: str, version: int, **fields: Any) -> tuple[str, int]:
    """Join as the only member, whatever it takes; the id and the generation."""
    reply = wire.ask(join_request(group, **fields), version)
    if reply.error_code == MEMBER_ID_REQUIRED:
        reply = wire.ask(join_request(group, reply.member_id, **fields), version)
    return reply.member_id, reply.generation_id


def find_coordinators(connect: Connect, transcript: Transcript) -> None:
    wire = connect()
    for version in range(7):
        for key_type in KEY_TYPES[version]:
            for key in ("some-group", ""):
                request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key, "other"])
                reply = wire.ask(request, version)
                if 0 < version < 4 or reply.error_code:
                    reply.error_message = ""
                transcript.note(f"find v{version} type {key_type} {key!r}", reply)


def lives(connect: Connect, transcript: Transcript) -> None:
    """One member from its first request to its last, in every version of JoinGroup with its companions."""
    for version in range(10):
        wire, group = connect(), f"life-{version}"
        say = f"v{version}"
        reply = transcript.note(f"{say} join", wire.ask(join_request(group), version))
        if reply.error_code == MEMBER_ID_REQUIRED:
            reply = transcript.note(f"{say} again", wire.ask(join_request(group, reply.member_id), version))
        member, generation = reply.member_id, reply.generation_id
        other = min(version, 4)
        transcript.note(f"{say} heartbeat", wire.ask(heartbeat_request(group, member, generation), other))
        transcript.note(f"{say} early commit", wire.ask(commit_request(group, member, generation), max(version, 1)))
        parts = {member: b"\0\0\0\0\0\0\xff\xff\xff\xff"}
        synced = wire.ask(sync_request(group, member, generation, parts), min(version, 5))
        transcript.note(f"{say} sync", synced)
        transcript.note(f"{say} late join", wire.ask(DescribeGroupsRequest(groups=[group]), min(version, 5)))
        transcript.note(f"{say} commit", wire.ask(commit_request(group, member, generation), max(version, 1)))
        transcript.note(f"{say} simple", wire.ask(commit_request(group), max(version, 1)))
        for is_for_all in (False, True) if version >= 2 else (False,):
            fetched = wire.ask(fetch_request(group, max(version, 1), is_for_all=is_for_all), max(version, 1))
            transcript.note(f"{say} fetch all={is_for_all}", fetched)
        transcript.note(f"{say} delete", wire.ask(DeleteGroupsRequest(groups_names=[group]), min(version, 2)))
        for name in (member, "stranger"):
            leave = LeaveGroupRequest(group_id=group, member_id=name, members=[MemberIdentity(member_id=name)])
            transcript.note(f"{say} leave", wire.ask(leave, min(version, 5)))
        transcript.note(f"{say} empty", wire.ask(DescribeGroupsRequest(groups=[group]), min(version, 5)))
        transcript.note(f"{say} simple again", wire.ask(commit_request(group), max(version, 1)))
        transcript.note(f"{say} deleted", wire.ask(DeleteGroupsRequest(groups_names=[group]), min(version, 2)))


def heartbeat_request(group: str, member: str, generation: int, **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(**{"group_id": group, "member_id": member, "generation_id": generation, **fields})


def version_0(connect: Connect, transcript: Transcript) -> None:
    """The oldest commits and fetches; Kafka keeps them in ZooKeeper."""
    wire = connect()
    transcript.note("fetch before", wire.ask(fetch_request("zero", 0), 0))
    transcript.note("commit", wire.ask(commit_request("zero", metadata=""), 0))
    transcript.note("commit unknown topic", wire.ask(commit_request("zero", topic="missing"), 0))
    transcript.note("fetch after", wire.ask(fetch_request("zero", 0), 0))


def refusals(connect: Connect, transcript: Transcript) -> None:
    """What may not be done to a stable group, an unknown one, and one without a name."""
    wire, group = connect(), "refusing"
    member, generation = join(wire, group, 9)
    wire.ask(sync_request(group, member, generation, {member: b"x"}), 5)
    for version in range(10):
        for what, request in {
            "unknown member": join_request(group, "stranger"),
            "other type": join_request(group, protocol_type="connect"),
            "other protocol": join_request(group, protocols=[("sticky", b"")]),
            "no protocol": join_request("new", protocols=[]),
            "no type": join_request("new", protocol_type=""),
            "short session": join_request(group, session_timeout_ms=1),
            "long session": join_request(group, session_timeout_ms=10**9),
            "no name": join_request(""),
        }.items():
            transcript.note(f"join v{version} {what}", wire.ask(request, version))
    for version in range(6):
        for what, sync in {
            "unknown member": sync_request(group, "stranger", generation, {}),
            "old": sync_request(group, member, generation - 1, {}),
            "unknown group": sync_request("none", member, generation, {}),
            "other type": sync_request(group, member, generation, {}, protocol_type="connect"),
            "other name": sync_request(group, member, generation, {}, protocol_name="sticky"),
            "nothing said": sync_request(group, member, generation, {}, protocol_name=None, protocol_type=None),
            "no name": sync_request("", member, generation, {}),
        }.items():
            transcript.note(f"sync v{version} {what}", wire.ask(sync, version))
    for version in range(5):
        for what, heartbeat in {
            "unknown member": heartbeat_request(group, "stranger", generation),
            "old": heartbeat_request(group, member, generation - 1),
            "unknown group": heartbeat_request("none", member, generation),
            "no name": heartbeat_request("", member, generation),
        }.items():
            transcript.note(f"heartbeat v{version} {what}", wire.ask(heartbeat, version))
    for version in range(6):
        for name in ("", "none"):
            leave = LeaveGroupRequest(group_id=name, member_id=member, members=[MemberIdentity(member_id=member)])
            transcript.note(f"leave v{version} {name!r}", wire.ask(leave, version))
    for version in range(1, 10):
        for what, commit in {
            "unknown member": commit_request(group, "stranger", generation),
            "old": commit_request(group, member, generation - 1),
            "unknown group": commit_request("none", member, generation),
            "outsider": commit_request(group),
            "unknown topic": commit_request(group, member, generation, topic="missing"),
            "long metadata": commit_request(group, member, generation, metadata="m" * 5000),
            "no metadata": commit_request(group, member, generation, metadata=None),
        }.items():
            transcript.note(f"commit v{version} {what}", wire.ask(commit, version))
        for name in ("", "none"):
            for is_for_all in (False, True) if version >= 2 else (False,):
                fetch = fetch_request(name, version, is_for_all=is_for_all)
                transcript.note(f"fetch v{version} {name!r} {is_for_all}", wire.ask(fetch, version))


def admin(connect: Connect, transcript: Transcript) -> None:
    wire, group = connect(), "administered"
    member, generation = join(wire, group, 9)
    wire.ask(sync_request(group, member, generation, {member: b"x"}), 5)
    for topic in (TOPIC, OTHER_TOPIC):
        wire.ask(commit_request(group, member, generation, topic=topic), 9)
    for version in range(6):
        request = DescribeGroupsRequest(groups=[group, "none", ""], include_authorized_operations=version == 5)
        described = wire.ask(request, version)
        for found in described.groups if version == 5 else ():
            found.authorized_operations &= ~GROUP_SETTINGS
        transcript.note(f"describe v{version}", described)
    for version, states, types in [
        (4, ["Stable"], []),
        (5, ["stable"], ["Classic"]),
        (5, [], ["consumer"]),
        (4, ["Dead"], []),
    ]:
        listed = wire.ask(ListGroupsRequest(states_filter=states, types_filter=types), version)
        listed.groups = [found for found in listed.groups if found.group_id == group]
        transcript.note(f"list v{version} {states} {types}", listed)
    _delete_offsets(wire, transcript, "with members", group)
    wire.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)]), 5)
    _delete_offsets(wire, transcript, "without members", group)
    _delete_offsets(wire, transcript, "unknown", "none")
    _delete_offsets(wire, transcript, "no name", "")
    for version in range(3):
        names = ["none", group, ""] if version == 2 else ["none", ""]
        transcript.note(f"delete v{version}", wire.ask(DeleteGroupsRequest(groups_names=names), version))


def _delete_offsets(wire: Wire, transcript: Transcript, what: str, group: str) -> None:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
        )
        for name in (TOPIC, OTHER_TOPIC, "missing")
    ]
    reply = wire.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    transcript.note(f"delete offsets {what}", reply)


def two_members(connect: Connect, transcript: Transcript) -> None:
    """A rebalance with a second member, late and repeated requests in between, and a member that leaves."""
    first, second, group = connect(), connect(), "two"
    leader, generation = join(first, group, 5)
    first.ask(sync_request(group, leader, generation, {leader: b"1"}), 3)
    second.post(join_request(group, protocols=[("sticky", b""), *RANGE]), 3)
    _until_rebalance(first, group, leader, generation)
    transcript.note("heartbeat in join", first.ask(heartbeat_request(group, leader, generation), 3))
    transcript.note("sync in join", first.ask(sync_request(group, leader, generation, {}), 3))
    transcript.note("commit in join", first.ask(commit_request(group, leader, generation), 7))
    described = first.ask(DescribeGroupsRequest(groups=[group]), 5)
    rejoined, joined = first.ask(join_request(group, leader), 5), second.take()
    generation, follower = rejoined.generation_id, joined.member_id
    transcript.call(leader, "leader")
    transcript.call(follower, "follower")
    transcript.note("describe in join", described)
    transcript.note("leader joins", rejoined)
    transcript.note("second joined", joined)
    transcript.note(
        "follower repeats join", second.ask(join_request(group, follower, protocols=[("sticky", b""), *RANGE]), 3)
    )
    transcript.note("leader repeats join", first.ask(join_request(group, leader), 5))
    transcript.note("heartbeat before sync", second.ask(heartbeat_request(group, follower, generation), 3))
    transcript.note("commit before sync", second.ask(commit_request(group, follower, generation), 7))
    transcript.note("describe before sync", first.ask(DescribeGroupsRequest(groups=[group]), 5))
    second.post(sync_request(group, follower, generation, {}), 3)
    transcript.note(
        "leader syncs", first.ask(sync_request(group, leader, generation, {leader: b"1", follower: b"2"}), 3)
    )
    transcript.note("follower synced", second.take())
    transcript.note(
        "follower joins stable", second.ask(join_request(group, follower, protocols=[("sticky", b""), *RANGE]), 3)
    )
    transcript.note("follower syncs again", second.ask(sync_request(group, follower, generation, {}), 3))
    leave = LeaveGroupRequest(
        group_id=group, members=[MemberIdentity(member_id=follower), MemberIdentity(member_id="x")]
    )
    transcript.note("follower leaves", second.ask(leave, 3))
    transcript.note("leader gets", first.ask(heartbeat_request(group, leader, generation), 3))
    transcript.note("leader alone", first.ask(join_request(group, leader), 5))


def _until_rebalance(wire: Wire, group: str, member: str, generation: int) -> None:
    """The other connection's JoinGroup has arrived when heartbeats say so."""
    while wire.ask(heartbeat_request(group, member, generation), 3).error_code == 0:
        pass


def static_members(connect: Connect, transcript: Transcript) -> None:
    for version in (5, 8, 9):
        first, second, group = connect(), connect(), f"static-{version}"
        leader, generation = join(first, group, version, group_instance_id="a")
        first.ask(sync_request(group, leader, generation, {leader: b"1"}, group_instance_id="a"), 5)
        say = f"v{version}"
        back = transcript.note(f"{say} back", second.ask(join_request(group, group_instance_id="a"), version))
        new = back.member_id
        for name in (leader, new):
            say = f"v{version} {'old' if name == leader else 'new'}"
            heartbeat = heartbeat_request(group, name, generation, group_instance_id="a")
            transcript.note(f"{say} heartbeat", second.ask(heartbeat, 4))
            sync = sync_request(group, name, generation, {}, group_instance_id="a")
            transcript.note(f"{say} sync", second.ask(sync, 5))
            commit = commit_request(group, name, generation, group_instance_id="a")
            transcript.note(f"{say} commit", second.ask(commit, 9))
        transcript.note(f"{say} describe", second.ask(DescribeGroupsRequest(groups=[group]), 5))
        transcript.note(f"{say} old join", first.ask(join_request(group, leader, group_instance_id="a"), version))
        transcript.note(
            f"{say} unknown", first.ask(heartbeat_request(group, new, generation, group_instance_id="b"), 4)
        )
        identities = [
            MemberIdentity(member_id=leader, group_instance_id="a"),
            MemberIdentity(group_instance_id="b"),
            MemberIdentity(group_instance_id="a"),
        ]
        transcript.note(f"{say} leave", first.ask(LeaveGroupRequest(group_id=group, members=identities), 4))
        transcript.note(f"{say} gone", first.ask(DescribeGroupsRequest(groups=[group]), 5))


SCENARIOS: tuple[Callable[[Connect, Transcript], None], ...] = (
    find_coordinators,
    lives,
    version_0,
    refusals,
    admin,
    two_members,
    static_members,
)
