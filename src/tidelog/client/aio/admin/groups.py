"""Groups: listed, deleted; their offsets read, set and removed; members taken out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.partitions import by_topic
from tidelog.client.aio.admin.types import GroupListing, MemberToRemove
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_NAMES_UNTIL: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; an admin does not know their ids."""


async def list_groups(driver: Driver, states: Collection[str], types: Collection[str]) -> list[GroupListing]:
    """The groups of all brokers, by id."""

    async def ask(node_id: int, items: list[int]) -> Answers[int, list[GroupListing]]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        reply = await driver.client.send(node_id, request, ListGroupsResponse)
        found = [
            GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in reply.groups
        ]
        return {items[0]: answer_of(reply.error_code, None, found, f"groups of broker {node_id}")}

    await driver.client.refresh()
    listed = await driver.run(list(driver.client.metadata.nodes), driver.to_broker, ask)
    return sorted({group for groups in listed.values() for group in groups})


async def delete_groups(driver: Driver, group_ids: Iterable[str]) -> None:
    """Remove groups without members, and their offsets."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        reply = await driver.client.send(node_id, DeleteGroupsRequest(groups_names=items), DeleteGroupsResponse)
        return {
            each.group_id: answer_of(each.error_code, None, None, f"group {each.group_id!r}") for each in reply.results
        }

    wanted = list(group_ids)
    try:
        await driver.run(wanted, driver.to_group_coordinator, ask)
    finally:
        for group_id in wanted:
            # Or an admin that deletes groups of ever new names would remember them all.
            driver.client.forget_coordinator(CoordinatorType.GROUP, group_id)


async def list_offsets(
    driver: Driver, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has committed, for `partitions` or for all; partitions without an offset are left out."""
    topics = None if partitions is None else by_topic(partitions)

    async def ask(node_id: int, items: list[str]) -> Answers[str, dict[TopicPartition, OffsetAndMetadata]]:
        named = (
            None
            if topics is None
            else [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in topics.items()]
        )
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in topics.items()],
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=named)],
            require_stable=require_stable,
        )
        reply = await driver.client.send(node_id, request, OffsetFetchResponse, at_most=_NAMES_UNTIL)
        group = reply.groups[0] if reply.groups else reply
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in group.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    raise ApiError(error_code_of(each.error_code), f"{topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    where = TopicPartition(topic.name, each.partition_index)
                    found[where] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        return {items[0]: answer_of(group.error_code, None, found, f"group {group_id!r}")}

    return (await driver.run([group_id], driver.to_group_coordinator, ask))[group_id]


async def alter_offsets(driver: Driver, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Set what a group has committed; the group must have no members."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_committed(index, offsets[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )
        reply = await driver.client.send(node_id, request, OffsetCommitResponse, at_most=_NAMES_UNTIL)
        for topic in reply.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    code = error_code_of(each.error_code)
                    raise ApiError(code, f"{topic.name}-{each.partition_index} of group {group_id!r}: {code.text}")
        return {items[0]: None}

    await driver.run([group_id], driver.to_group_coordinator, ask)


async def delete_offsets(driver: Driver, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete the committed offsets of a group for topics that it is not subscribed to."""
    wanted = list(partitions)

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
                )
                for name, indexes in by_topic(wanted).items()
            ],
        )
        reply = await driver.client.send(node_id, request, OffsetDeleteResponse)
        codes = [(reply.error_code, f"group {group_id!r}")] + [
            (each.error_code, f"{topic.name}-{each.partition_index} of group {group_id!r}")
            for topic in reply.topics
            for each in topic.partitions
        ]
        for code, what in codes:
            if code != ErrorCode.NONE:
                raise ApiError(error_code_of(code), f"{what}: {error_code_of(code).text}")
        return {items[0]: None}

    await driver.run([group_id], driver.to_group_coordinator, ask)


async def remove_members(driver: Driver, group_id: str, members: Sequence[MemberToRemove], reason: str) -> None:
    """Remove members from a group, as if they had left."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.group_instance_id, reason=reason or None
                )
                for member in members
            ],
        )
        reply = await driver.client.send(node_id, request, LeaveGroupResponse)
        for each in reply.members:
            if each.error_code != ErrorCode.NONE:
                who = each.group_instance_id or each.member_id
                raise ApiError(error_code_of(each.error_code), f"member {who!r} of group {group_id!r}")
        return {items[0]: answer_of(reply.error_code, None, None, f"group {group_id!r}")}

    await driver.run([group_id], driver.to_group_coordinator, ask)


def _committed(index: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )
