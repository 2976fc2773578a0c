"""`tidelog group`: list, describe, reset and delete consumer groups.

The columns of `describe` are those of Kafka's own tool, because operators' scripts read them.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._groups import delete_each, members_of, states_of
from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.group._progress import Progress, describe_group, or_dash, progress_as_json, progress_of, watch_groups
from tidelog.cli.group._reset import reset
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import GroupDescription


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    group = noun(application, "group", "List, describe, reset and delete consumer groups.")
    verb(group, "list", list_groups, "tidelog group list --state stable")
    verb(group, "describe", describe, "tidelog group describe billing --watch")
    verb(group, "reset", reset, "tidelog group reset billing --topic orders --to-earliest --execute")
    verb(group, "delete", delete, "tidelog group delete billing")


_STATES: Final = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
)
_TYPES: Final = ("Classic", "Consumer")


def list_groups(
    connection: Connection,
    state: Annotated[
        list[str] | None, typer.Option(help="Only groups in this state; may be repeated.", show_default="any")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of this type: classic or consumer.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show state, type and protocol.")] = False,
) -> Result:
    """List the groups of a cluster."""
    states = [_known("--state", each, _STATES) for each in state or ()]
    types = [_known("--type", each, _TYPES) for each in type_ or ()]
    with connection.admin() as admin:
        groups = admin.list_groups(states=states, types=types)
    rows = [(each.group_id, each.state, each.type, each.protocol_type) for each in groups]
    document = [dict(zip(("group", "state", "type", "protocol_type"), row, strict=True)) for row in rows]
    if verbose or state or type_:
        return Result(document, Table(headings=("GROUP", "STATE", "TYPE", "PROTOCOL"), rows=rows))
    return Result(document, "\n".join(each.group_id for each in groups))


def _known(option: str, given: str, names: Sequence[str]) -> str:
    """The name, found case-insensitively."""
    for name in names:
        if name.lower() == given.lower():
            return name
    raise CommandError(f"{option} {given!r} must be one of {', '.join(names)}")


HEADINGS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)


def describe(
    connection: Connection,
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups to describe; all if none is named.", metavar="GROUP…")
    ] = None,
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show coordinator, assignor and state.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the lag continuously, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two updates of --watch.", min=0.05)] = 2.0,
    times: Annotated[
        int | None, typer.Option(help="End --watch after this many updates.", min=1, show_default="no end")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> Result | None:
    """Describe groups: offsets and lag of every partition, members, or state."""
    if sum((members, state, watch)) > 1:
        raise CommandError("give only one of --members, --state and --watch")
    with connection.admin() as admin:
        names = groups or [each.group_id for each in admin.list_groups()]
        if watch:
            watch_groups(admin, names, every, times, output)
            return None
        described = [describe_group(admin, name) for name in names]
        if members:
            return members_of(described)
        if state:
            return states_of(described)
        return _offsets([(each, progress_of(admin, each)) for each in described])


def _offsets(groups: Sequence[tuple[GroupDescription, Sequence[Progress]]]) -> Result:
    tables = [
        Table(
            headings=HEADINGS,
            rows=[_row(each) for each in rows],
            before="" if described.members else f"Consumer group '{described.group_id}' has no active members.",
        )
        for described, rows in groups
    ]
    return Result([progress_as_json(each) for _, rows in groups for each in rows], tables)


def _row(each: Progress) -> tuple[object, ...]:
    member = each.member
    who = ("-", "-", "-") if member is None else (member.member_id, member.client_host, member.client_id)
    return (each.group, each.topic, each.partition, *map(or_dash, (each.committed, each.end, each.lag)), *who)


def delete(
    connection: Connection,
    groups: Annotated[list[str], typer.Argument(help="Groups to delete.", metavar="GROUP…", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Keep the group; delete only its offsets of this topic; may be repeated."),
    ] = None,
) -> Result:
    """Delete groups that have no members, and their offsets."""
    with connection.admin() as admin:
        return delete_each(groups, topic, lambda group: _delete(admin, group, topic))


def _delete(admin: Admin, group: str, topics: list[str] | None) -> None:
    if topics is None:
        admin.delete_groups([group])
        return
    wanted = [each for each in admin.list_consumer_group_offsets(group) if each.topic in topics]
    if not wanted:
        raise CommandError(f"group {group!r} has no offsets of {', '.join(topics)}")
    admin.delete_consumer_group_offsets(group, wanted)
