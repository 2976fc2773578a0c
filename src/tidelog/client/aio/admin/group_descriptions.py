"""Groups and their members, of each protocol, in one shape.

A broker describes groups of the classic protocol, of the newer one (KIP-848) and of Kafka Streams (KIP-1071) by
different requests, and to the first of them says of a group of another kind what it says of one that does not exist:
Dead.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import GroupDescription, MemberDescription
from tidelog.client.aio.consumer.protocol import decode_assignment, decode_subscription
from tidelog.client.errors import UnsupportedByBroker
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.messages import consumer_group_describe, share_group_describe, streams_group_describe
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tidelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

CONSUMER_PROTOCOL = "consumer"
STREAMS_PROTOCOL = "streams"
_DEAD = "Dead"


async def describe_groups(driver: Driver, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Groups and their members. A group that does not exist is described as Dead, without members."""
    described = await driver.run(
        list(group_ids), driver.to_group_coordinator, lambda node_id, items: _ask_classic(driver, node_id, items)
    )
    for ask in (_ask_newer, _ask_streams):
        dead = [group_id for group_id, each in described.items() if each.state == _DEAD]
        newer = await driver.run(dead, driver.to_group_coordinator, _of(driver, ask))
        described |= {group_id: each for group_id, each in newer.items() if each is not None}
    return described


_Ask = Callable[[Driver, int, list[str]], Awaitable[Answers[str, GroupDescription | None]]]


def _of(driver: Driver, ask: _Ask) -> Callable[[int, list[str]], Awaitable[Answers[str, GroupDescription | None]]]:
    return lambda node_id, items: ask(driver, node_id, items)


async def _ask_classic(driver: Driver, node_id: int, items: list[str]) -> Answers[str, GroupDescription]:
    reply = await driver.client.send(node_id, DescribeGroupsRequest(groups=items), DescribeGroupsResponse)
    coordinator = coordinator_of(driver, node_id)
    return {
        # From version 6 on a group that does not exist is an error; here it is described as Dead in any version.
        each.group_id: answer_of(
            ErrorCode.NONE if each.error_code == ErrorCode.GROUP_ID_NOT_FOUND else each.error_code,
            each.error_message,
            _group(each, coordinator),
            f"group {each.group_id!r}",
        )
        for each in reply.groups
    }


async def _ask_newer(driver: Driver, node_id: int, items: list[str]) -> Answers[str, GroupDescription | None]:
    """None for groups that are not of the newer protocol either, and for all if the broker does not know it."""
    try:
        reply = await driver.client.send(
            node_id, ConsumerGroupDescribeRequest(group_ids=items), ConsumerGroupDescribeResponse
        )
    except UnsupportedByBroker:
        return dict.fromkeys(items)
    return _answers(reply.groups, _newer_group, coordinator_of(driver, node_id))


async def _ask_streams(driver: Driver, node_id: int, items: list[str]) -> Answers[str, GroupDescription | None]:
    """None for groups that are no streams groups either, and for all if the broker does not know them."""
    try:
        reply = await driver.client.send(
            node_id, StreamsGroupDescribeRequest(group_ids=items), StreamsGroupDescribeResponse
        )
    except UnsupportedByBroker:
        return dict.fromkeys(items)
    return _answers(reply.groups, _streams_group, coordinator_of(driver, node_id))


def _answers(
    groups: Iterable[Any], describe: Callable[[Any, BrokerNode], GroupDescription], coordinator: BrokerNode
) -> Answers[str, GroupDescription | None]:
    """None for groups of which the broker says that they are of another kind."""
    answers: Answers[str, GroupDescription | None] = {}
    for each in groups:
        if each.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            answers[each.group_id] = None
        else:
            answers[each.group_id] = answer_of(
                each.error_code, each.error_message, describe(each, coordinator), f"group {each.group_id!r}"
            )
    return answers


def coordinator_of(driver: Driver, node_id: int) -> BrokerNode:
    """The broker that answered for a group."""
    return driver.client.metadata.nodes.get(node_id) or BrokerNode(node_id, "", -1)


def assigned_members(
    members: Iterable[consumer_group_describe.Member] | Iterable[share_group_describe.Member],
) -> tuple[MemberDescription, ...]:
    """Members to which the broker has assigned partitions."""
    return tuple(
        MemberDescription(
            each.member_id,
            each.instance_id if isinstance(each, consumer_group_describe.Member) else None,
            each.client_id,
            each.client_host,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, partition)
                    for topic in each.assignment.topic_partitions
                    for partition in topic.partitions
                )
            ),
            tuple(each.subscribed_topic_names),
        )
        for each in members
    )


def _newer_group(group: consumer_group_describe.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    members = assigned_members(group.members)
    return GroupDescription(
        group.group_id, group.group_state, CONSUMER_PROTOCOL, group.assignor_name, members, coordinator
    )


def _streams_group(group: streams_group_describe.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """The partitions of a member are those that its active tasks read."""
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or []
    topics = {
        each.subtopology_id: [*each.source_topics, *(info.name for info in each.repartition_source_topics)]
        for each in subtopologies
    }
    read = tuple(sorted({name for names in topics.values() for name in names}))
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            tuple(
                sorted(
                    TopicPartition(topic, partition)
                    for entry in each.assignment.active_tasks
                    for topic in topics.get(entry.subtopology_id, ())
                    for partition in entry.partitions
                )
            ),
            read,
        )
        for each in group.members
    )
    return GroupDescription(
        group.group_id, group.group_state, STREAMS_PROTOCOL, group.assignor_name or "", members, coordinator
    )


def _group(group: DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    is_consumers = group.protocol_type == CONSUMER_PROTOCOL
    members = tuple(_member(each, is_consumers) for each in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator
    )


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    """A member; what is no consumer's bytes, or malformed, is left out rather than an error."""
    assignment: tuple[TopicPartition, ...] = ()
    subscription: tuple[str, ...] = ()
    if is_consumer:
        try:
            if member.member_assignment:
                assignment = tuple(sorted(decode_assignment(member.member_assignment).partitions))
            if member.member_metadata:
                subscription = tuple(decode_subscription(member.member_metadata).topics)
        except WireError:
            pass
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, assignment, subscription
    )
