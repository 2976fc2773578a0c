"""What `tidelog group` and `tidelog share` have in common: members and states of groups, and how groups are deleted."""

from collections.abc import Callable, Iterable, Sequence

from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import GroupDescription
from tidelog.client.errors import ApiError, ClientError


def members_of(groups: Sequence[GroupDescription]) -> Result:
    """The members of groups."""
    document = [
        {
            "group": each.group_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "host": member.client_host,
            "client_id": member.client_id,
            "assignment": [{"topic": topic, "partition": partition} for topic, partition in member.assignment],
        }
        for each in groups
        for member in each.members
    ]
    rows = [
        (
            each.group_id,
            member.member_id,
            member.group_instance_id or "-",
            member.client_host,
            member.client_id,
            len(member.assignment),
            _assignment_text(member.assignment),
        )
        for each in groups
        for member in each.members
    ]
    headings = ("GROUP", "CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")
    return Result(document, Table(headings=headings, rows=rows))


def _assignment_text(assignment: Iterable[tuple[str, int]]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, partition in assignment:
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(f"{topic}({','.join(partitions)})" for topic, partitions in topics.items()) or "-"


def states_of(groups: Sequence[GroupDescription]) -> Result:
    """The states of groups."""
    document = [
        {
            "group": each.group_id,
            "state": each.state,
            "coordinator": {"id": each.coordinator.node_id, "address": each.coordinator.address},
            "protocol_type": each.protocol_type,
            "assignor": each.protocol,
            "members": len(each.members),
        }
        for each in groups
    ]
    rows = [
        (
            each.group_id,
            f"{each.coordinator.address} ({each.coordinator.node_id})",
            each.protocol or "-",
            each.state,
            len(each.members),
        )
        for each in groups
    ]
    headings = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    return Result(document, Table(headings=headings, rows=rows))


def delete_each(groups: Sequence[str], topics: Sequence[str] | None, delete: Callable[[str], None]) -> Result:
    """Delete groups, or their offsets of `topics`, one after another; the first error ends it."""
    deleted: list[str] = []
    failure: Exception | None = None
    for group in groups:
        try:
            delete(group)
        except (ApiError, ClientError, CommandError) as error:
            failure = error  # what was deleted before is deleted
            break
        deleted.append(group)
    what = "group" if topics is None else f"offsets of {', '.join(topics)} of"
    lines = [f"Deleted {what} {group}." for group in deleted]
    return Result({"deleted": deleted, "topics": topics}, "\n".join(lines), error=failure)
