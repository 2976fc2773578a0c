"""Progress of groups: committed offsets, end offsets, and the members that read each partition."""

from collections.abc import Collection
from typing import Any, NamedTuple

from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import LATEST, GroupDescription, MemberDescription
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode


class Progress(NamedTuple):
    """One partition of a group. None: no committed offset, no such partition, or no member."""

    group: str
    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Records behind the end."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def describe_group(admin: Admin, group: str) -> GroupDescription:
    """A group; ApiError if there is no such group."""
    described = admin.describe_groups([group])[group]
    if described.state == "Dead" and not admin.list_consumer_group_offsets(group):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r} does not exist")
    return described


def progress_of(admin: Admin, described: GroupDescription) -> list[Progress]:
    """Every partition that the group has committed or reads now."""
    group = described.group_id
    committed = admin.list_consumer_group_offsets(group)
    readers = {partition: member for member in described.members for partition in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends = end_offsets(admin, partitions)
    return [
        Progress(
            group,
            partition.topic,
            partition.partition,
            committed[partition].offset if partition in committed else None,
            ends.get(partition),
            readers.get(partition),
        )
        for partition in partitions
    ]


def end_offsets(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where partitions end; those of topics that were deleted are left out."""
    existing = {topic.name for topic in admin.list_topics(include_internal=True)}
    there = [partition for partition in partitions if partition.topic in existing]
    if not there:
        return {}
    return {partition: place.offset for partition, place in admin.list_offsets(dict.fromkeys(there, LATEST)).items()}


def or_dash(number: float | None) -> object:
    """A cell of a table."""
    return "-" if number is None else number


def progress_as_json(each: Progress) -> dict[str, Any]:
    """One partition of a group as a JSON object."""
    member = each.member
    return {
        "group": each.group,
        "topic": each.topic,
        "partition": each.partition,
        "committed": each.committed,
        "end": each.end,
        "lag": each.lag,
        "member_id": None if member is None else member.member_id,
        "host": None if member is None else member.client_host,
        "client_id": None if member is None else member.client_id,
    }
