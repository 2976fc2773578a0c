"""What is asked of our broker and of Apache Kafka alike while groups change their protocol, well and badly used."""

from __future__ import annotations

from typing import Any

from tests.compat.groups.raw import Transcript, Wire
from tests.compat.groups.scenarios import (
    RANGE,
    SUBSCRIPTION,
    TOPIC,
    Connect,
    commit_request,
    fetch_request,
    join,
    join_request,
    sync_request,
)
from tidelog.client.aio.consumer.protocol import Assignment, Subscription, encode_assignment, encode_subscription
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest

BOTH = tuple(TopicPartition(TOPIC, index) for index in (0, 1))
LEAVES = -1


def consumer_request(group: str, member: str = "", epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that says everything."""
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
            **fields,
        }
    )


def keeps(
    group: str, reply: ConsumerGroupHeartbeatResponse, owned: ConsumerGroupHeartbeatResponse | None = None
) -> ConsumerGroupHeartbeatRequest:
    """The next heartbeat: it has what the reply, or an earlier one, gave it."""
    given = (owned or reply).assignment
    partitions = [] if given is None else given.topic_partitions
    return consumer_request(group, reply.member_id or "", reply.member_epoch, topic_partitions=partitions)


def stable_classic(wire: Wire, group: str, protocols: list[tuple[str, bytes]] = RANGE) -> tuple[str, int]:
    """One classic member that has both partitions."""
    member, generation = join(wire, group, 9, protocols=protocols)
    assignment = encode_assignment(Assignment(BOTH), 0)
    wire.ask(sync_request(group, member, generation, {member: assignment}, protocol_name=protocols[0][0]), 5)
    return member, generation


def a_consumer_joins_a_classic_group_and_leaves_it(connect: Connect, transcript: Transcript) -> None:
    wire, group = connect(), "upgraded"
    member, generation = stable_classic(wire, group)
    transcript.call(member, "classic")
    note = transcript.note
    consumer = note("joins", wire.ask(consumer_request(group), 0))
    transcript.call(consumer.member_id, "consumer")
    beat = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
    note("heartbeat", wire.ask(beat, 4))
    note("sync too early", wire.ask(sync_request(group, member, generation, {}), 5))
    note("commit", wire.ask(commit_request(group, member, generation), 8))
    note("list", wire.ask(ListGroupsRequest(), 5))
    note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))
    note("describe as classic", wire.ask(DescribeGroupsRequest(groups=[group]), 5))
    again = note("joins again", wire.ask(join_request(group, member), 9))
    synced = note("sync", wire.ask(sync_request(group, member, again.generation_id, {}), 5))
    assert synced.assignment
    note("old generation", wire.ask(beat, 4))
    beat = HeartbeatRequest(group_id=group, member_id=member, generation_id=again.generation_id)
    note("heartbeat", wire.ask(beat, 4))
    consumer = note("consumer", wire.ask(keeps(group, consumer), 0))
    note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))
    note("commit", wire.ask(commit_request(group, member, again.generation_id), 8))
    note("commit, old generation", wire.ask(commit_request(group, member, generation), 8))
    note("commit, consumer", wire.ask(commit_request(group, consumer.member_id, consumer.member_epoch), 9))
    note("commit, old version", wire.ask(commit_request(group, consumer.member_id, consumer.member_epoch), 8))
    note("commit, old epoch", wire.ask(commit_request(group, consumer.member_id, 1), 9))
    note("fetch", wire.ask(fetch_request(group, 9), 9))
    note("leaves", wire.ask(consumer_request(group, consumer.member_id, LEAVES), 0))
    note("list", wire.ask(ListGroupsRequest(), 5))
    note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))
    note("heartbeat", wire.ask(beat, 4))
    note("sync", wire.ask(sync_request(group, member, again.generation_id, {}), 5))
    again = note("joins again", wire.ask(join_request(group, member), 9))
    assignment = encode_assignment(Assignment(BOTH), 0)
    note("sync", wire.ask(sync_request(group, member, again.generation_id, {member: assignment}), 5))
    note("describe as classic", wire.ask(DescribeGroupsRequest(groups=[group]), 5))
    note("fetch", wire.ask(fetch_request(group, 9), 9))
    note("leaves", wire.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)]), 5))


def a_cooperative_member_gives_up_in_two_steps(connect: Connect, transcript: Transcript) -> None:
    wire, group = connect(), "cooperative"

    def owns(*partitions: TopicPartition) -> list[tuple[str, bytes]]:
        return [("cooperative-sticky", encode_subscription(Subscription((TOPIC,), owned=partitions), 1))]

    member, generation = stable_classic(wire, group, owns())
    transcript.call(member, "classic")
    note = transcript.note
    consumer = note("joins", wire.ask(consumer_request(group), 0))
    transcript.call(consumer.member_id, "consumer")
    first = note("joins with all", wire.ask(join_request(group, member, protocols=owns(*BOTH)), 9))
    name = "cooperative-sticky"
    note("sync", wire.ask(sync_request(group, member, first.generation_id, {}, protocol_name=name), 5))
    beat = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
    note("has to join again", wire.ask(beat, 4))
    consumer = note("consumer waits", wire.ask(keeps(group, consumer), 0))
    described = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0)
    (classic,) = (each for each in described.groups[0].members if each.member_id == member)
    (kept,) = classic.assignment.topic_partitions[0].partitions
    second = note("with less", wire.ask(join_request(group, member, protocols=owns(BOTH[kept])), 9))
    note("sync", wire.ask(sync_request(group, member, second.generation_id, {}, protocol_name=name), 5))
    beat = HeartbeatRequest(group_id=group, member_id=member, generation_id=second.generation_id)
    note("has nothing to do", wire.ask(beat, 4))
    note("consumer", wire.ask(keeps(group, consumer), 0))
    note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))


def classic_members_of_a_consumer_group(connect: Connect, transcript: Transcript) -> None:
    wire, group = connect(), "consumers"
    note = transcript.note
    consumer = note("consumer", wire.ask(consumer_request(group), 0))
    transcript.call(consumer.member_id, "consumer")
    asked = note("needs an id", wire.ask(join_request(group), 9))
    transcript.call(asked.member_id, "classic")
    note("other type", wire.ask(join_request(group, asked.member_id, protocol_type="connect"), 9))
    note("no protocols", wire.ask(join_request(group, asked.member_id, protocols=[]), 9))
    note("no subscription", wire.ask(join_request(group, asked.member_id, protocols=[("range", b"")]), 9))
    note("short session", wire.ask(join_request(group, asked.member_id, session_timeout_ms=1), 9))
    joined = note("joins", wire.ask(join_request(group, asked.member_id), 9))
    member, generation = joined.member_id, joined.generation_id
    other = [("roundrobin", SUBSCRIPTION)]
    note("shares no protocol", wire.ask(join_request(group, "other", protocols=other), 9))
    note("other protocol", wire.ask(sync_request(group, member, generation, {}, protocol_name="other"), 5))
    note("other type", wire.ask(sync_request(group, member, generation, {}, protocol_type="connect"), 5))
    note("other generation", wire.ask(sync_request(group, member, generation + 1, {}), 5))
    note("stranger syncs", wire.ask(sync_request(group, "stranger", generation, {}), 5))
    note("sync", wire.ask(sync_request(group, member, generation, {}), 5))
    for who, epoch in ((member, generation), ("stranger", 1), (consumer.member_id, 1), (member, 99)):
        note("heartbeat", wire.ask(HeartbeatRequest(group_id=group, member_id=who, generation_id=epoch), 4))
    consumer = note("gives up", wire.ask(keeps(group, consumer), 0))
    note("has given up", wire.ask(keeps(group, consumer), 0))
    note("heartbeat", wire.ask(HeartbeatRequest(group_id=group, member_id=member, generation_id=generation), 4))
    joined = note("joins again", wire.ask(join_request(group, member), 9))
    note("sync", wire.ask(sync_request(group, member, joined.generation_id, {}), 5))
    members = [MemberIdentity(member_id=who) for who in ("stranger", consumer.member_id, member)]
    members.append(MemberIdentity(member_id="", group_instance_id="nobody"))
    note("leave", wire.ask(LeaveGroupRequest(group_id=group, members=members), 5))
    note("describe", wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0))


def static_members_of_both_protocols(connect: Connect, transcript: Transcript) -> None:
    wire, group = connect(), "static"
    note = transcript.note
    consumer = note("consumer", wire.ask(consumer_request(group), 0))
    transcript.call(consumer.member_id, "consumer")
    first = note("joins", wire.ask(join_request(group, group_instance_id="i"), 9))
    transcript.call(first.member_id, "first")
    note("sync", wire.ask(sync_request(group, first.member_id, first.generation_id, {}, group_instance_id="i"), 5))
    second = note("is back", wire.ask(join_request(group, group_instance_id="i"), 9))
    transcript.call(second.member_id, "second")
    note("sync", wire.ask(sync_request(group, second.member_id, second.generation_id, {}, group_instance_id="i"), 5))
    note("fenced", wire.ask(join_request(group, first.member_id, group_instance_id="i"), 9))
    beat = HeartbeatRequest(
        group_id=group, member_id=first.member_id, generation_id=first.generation_id, group_instance_id="i"
    )
    note("fenced", wire.ask(beat, 4))
    note("unknown instance", wire.ask(join_request(group, second.member_id, group_instance_id="j"), 9))
    note("in use", wire.ask(consumer_request(group, instance_id="i"), 0))
    operator = LeaveGroupRequest(group_id=group, members=[MemberIdentity(group_instance_id="i")])
    note("removed", wire.ask(operator, 5))


def groups_that_cannot_be_upgraded(connect: Connect, transcript: Transcript) -> None:
    wire = connect()
    note = transcript.note
    join(wire, "connect", 9, protocol_type="connect")
    note("other type", wire.ask(consumer_request("connect"), 0))
    join(wire, "malformed", 9, protocols=[("range", b"?")])
    note("malformed", wire.ask(consumer_request("malformed"), 0))
    stable_classic(wire, "classic")
    note("does not join", wire.ask(consumer_request("classic", "somebody", 5), 0))
    note("leaves", wire.ask(consumer_request("classic", "somebody", LEAVES), 0))
    note("bad request", wire.ask(consumer_request("classic", rack_id=""), 0))
    note("list", wire.ask(ListGroupsRequest(types_filter=["consumer"]), 5))


MIGRATIONS = (
    a_consumer_joins_a_classic_group_and_leaves_it,
    a_cooperative_member_gives_up_in_two_steps,
    classic_members_of_a_consumer_group,
    static_members_of_both_protocols,
    groups_that_cannot_be_upgraded,
)
