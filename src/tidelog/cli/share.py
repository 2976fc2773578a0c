"""`tidelog share`: list, describe, reset and delete share groups.

The columns of `describe` are those of Kafka's own tool, because operators' scripts read them.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._groups import delete_each, members_of, states_of
from tidelog.cli._resets import Wanted, choose_partitions, find_targets, shown
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import GroupDescription, ShareGroupOffset
from tidelog.client.group_resets import RESETTABLE_STATES
from tidelog.client.types import TopicPartition

_TYPE: Final = "Share"
_WAYS: Final = ("to_earliest", "to_latest", "to_offset", "by_duration", "to_datetime")


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    share = noun(application, "share", "List, describe, reset and delete share groups: queues over topics.")
    verb(share, "list", list_groups, "tidelog share list")
    verb(share, "describe", describe, "tidelog share describe invoices --members")
    verb(share, "reset", reset, "tidelog share reset invoices --topic orders --to-earliest --execute")
    verb(share, "delete", delete, "tidelog share delete invoices")


def list_groups(connection: Connection) -> Result:
    """List the share groups of a cluster and their states."""
    with connection.admin() as admin:
        groups = admin.list_groups(types=[_TYPE])
    document = [{"group": each.group_id, "state": each.state} for each in groups]
    return Result(document, Table(headings=("GROUP", "STATE"), rows=[(each.group_id, each.state) for each in groups]))


def describe(
    connection: Connection,
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups to describe; all if none is named.", metavar="GROUP…")
    ] = None,
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show coordinator, assignor and state.")] = False,
) -> Result:
    """Describe share groups: start offset and lag of every partition, members, or state."""
    if members and state:
        raise CommandError("give only one of --members and --state")
    with connection.admin() as admin:
        names = groups or [each.group_id for each in admin.list_groups(types=[_TYPE])]
        described = list(admin.describe_share_groups(names).values()) if names else []
        if members:
            return members_of(described)
        if state:
            return states_of(described)
        return _offsets({each: admin.list_share_group_offsets(each.group_id) for each in described})


def _offsets(groups: Mapping[GroupDescription, Mapping[TopicPartition, ShareGroupOffset]]) -> Result:
    document = [
        {
            "group": each.group_id,
            "topic": topic,
            "partition": partition,
            "start_offset": place.start_offset,
            "lag": place.lag,
        }
        for each, offsets in groups.items()
        for (topic, partition), place in sorted(offsets.items())
    ]
    tables = [
        Table(
            headings=("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"),
            rows=[
                (each.group_id, *where, place.start_offset, "-" if place.lag is None else place.lag)
                for where, place in sorted(offsets.items())
            ],
            before="" if each.members else f"Share group '{each.group_id}' has no active members.",
        )
        for each, offsets in groups.items()
    ]
    return Result(document, tables)


def reset(
    connection: Connection,
    group: Annotated[str, typer.Argument(help="The group, which must have no members.", metavar="GROUP")],
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic, or partitions of it: orders:0,3; may be repeated.", metavar="TOPIC[:N,N…]"),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics for which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Begin at the earliest offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Begin at the latest offset.")] = False,
    to_offset: Annotated[int | None, typer.Option(help="Begin at this offset.", min=0)] = None,
    by_duration: Annotated[
        str | None, typer.Option(help="Begin this long ago: P1D, PT2H30M.", metavar="DURATION")
    ] = None,
    to_datetime: Annotated[str | None, typer.Option(help="Begin at this time: ISO 8601.", metavar="TIME")] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset the offsets; without this, only show the plan.")
    ] = False,
) -> Result:
    """Set where a share group begins: records from there on are delivered again. Shows the plan unless --execute."""
    wanted = Wanted(to_earliest, to_latest, False, to_offset, None, by_duration, to_datetime)
    wanted.check(_WAYS)
    with connection.admin() as admin:
        starts = {where: place.start_offset for where, place in admin.list_share_group_offsets(group).items()}
        targets = find_targets(admin, wanted, starts, choose_partitions(admin, topic, all_topics, starts))
        if execute:
            _check_empty(admin, group)
            admin.alter_share_group_offsets(group, targets)
    return shown(group, starts, targets, execute)


def _check_empty(admin: Admin, group: str) -> None:
    state = admin.describe_share_groups([group])[group].state
    if state not in RESETTABLE_STATES:
        raise CommandError(f"share group {group!r} is {state}: offsets can be reset only while it has no members")


def delete(
    connection: Connection,
    groups: Annotated[list[str], typer.Argument(help="Groups to delete.", metavar="GROUP…", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Keep the group; delete only its offsets of this topic; may be repeated."),
    ] = None,
) -> Result:
    """Delete share groups that have no members, and what they have done."""
    with connection.admin() as admin:

        def delete_one(group: str) -> None:
            admin.describe_share_groups([group])  # a group of another kind is not deleted by this command
            if topic is None:
                admin.delete_groups([group])
            else:
                admin.delete_share_group_offsets(group, topic)

        return delete_each(groups, topic, delete_one)
