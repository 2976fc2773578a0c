"""Share groups: described, and where they begin in each partition (KIP-932)."""

from collections.abc import Iterable, Mapping

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.group_descriptions import assigned_members, coordinator_of
from tidelog.client.aio.admin.partitions import by_topic
from tidelog.client.aio.admin.types import GroupDescription, ShareGroupOffset
from tidelog.client.aio.reactions import check_code
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from tidelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tidelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from tidelog.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

SHARE_PROTOCOL = "share"


async def describe_groups(driver: Driver, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Share groups and their members. One that does not exist is refused with GROUP_ID_NOT_FOUND."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, GroupDescription]:
        request = ShareGroupDescribeRequest(group_ids=items)
        reply = await driver.client.send(node_id, request, ShareGroupDescribeResponse)
        coordinator = coordinator_of(driver, node_id)
        return {
            each.group_id: answer_of(
                each.error_code,
                each.error_message,
                GroupDescription(
                    each.group_id,
                    each.group_state,
                    SHARE_PROTOCOL,
                    each.assignor_name,
                    assigned_members(each.members),
                    coordinator,
                ),
                f"share group {each.group_id!r}",
            )
            for each in reply.groups
        }

    return await driver.run(list(group_ids), driver.to_group_coordinator, ask)


async def list_offsets(
    driver: Driver, group_id: str, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ShareGroupOffset]:
    """Where a group begins, in `partitions` or in all that it has a state of."""
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]

    async def ask(node_id: int, items: list[str]) -> Answers[str, dict[TopicPartition, ShareGroupOffset]]:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        reply = await driver.client.send(node_id, request, DescribeShareGroupOffsetsResponse)
        (group,) = reply.groups
        found: dict[TopicPartition, ShareGroupOffset] = {}
        for topic in group.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.topic_name, each.partition_index)
                check_code(each.error_code, where, each.error_message)
                if each.start_offset >= 0:
                    lag = None if each.lag < 0 else each.lag
                    found[where] = ShareGroupOffset(each.start_offset, lag, each.leader_epoch)
        return {items[0]: answer_of(group.error_code, group.error_message, found, f"share group {group_id!r}")}

    return (await driver.run([group_id], driver.to_group_coordinator, ask))[group_id]


async def alter_offsets(driver: Driver, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set where a group begins; it must have no members."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offsets[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(offsets).items()
            ],
        )
        reply = await driver.client.send(node_id, request, AlterShareGroupOffsetsResponse)
        check_code(reply.error_code, f"share group {group_id!r}", reply.error_message)
        for topic in reply.responses:
            for each in topic.partitions:
                what = f"{TopicPartition(topic.topic_name, each.partition_index)} of share group {group_id!r}"
                check_code(each.error_code, what, each.error_message)
        return {items[0]: None}

    await driver.run([group_id], driver.to_group_coordinator, ask)


async def delete_offsets(driver: Driver, group_id: str, topics: Iterable[str]) -> None:
    """Delete the state of topics from a group; it must have no members."""
    names = list(topics)

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        )
        reply = await driver.client.send(node_id, request, DeleteShareGroupOffsetsResponse)
        check_code(reply.error_code, f"share group {group_id!r}", reply.error_message)
        for each in reply.responses:
            check_code(each.error_code, f"{each.topic_name} of share group {group_id!r}", each.error_message)
        return {items[0]: None}

    await driver.run([group_id], driver.to_group_coordinator, ask)
