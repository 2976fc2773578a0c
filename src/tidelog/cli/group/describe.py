"""`tidelog group describe`. The columns are those of Kafka's own tool, because operators' scripts read them."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.group._lag import Progress, describe_group, or_dash, progress_as_json, progress_of
from tidelog.cli.group._watch import watch_groups
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.aio.admin.types import GroupDescription

EXAMPLE: Final = "tidelog group describe billing --watch"

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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Describe groups: offsets and lag of every partition, members, or state."""
    if sum((members, state, watch)) > 1:
        raise CommandError("give only one of --members, --state and --watch")
    with connect_admin(bootstrap_server, command_config) as admin:
        names = groups or [each.group_id for each in admin.list_groups()]
        if watch:
            watch_groups(admin, names, every, times, output)
            return
        described = [describe_group(admin, name) for name in names]
        if members:
            _show_members(described, output)
        elif state:
            _show_state(described, output)
        else:
            _show_offsets([(each, progress_of(admin, each)) for each in described], output)


def _show_offsets(groups: Sequence[tuple[GroupDescription, Sequence[Progress]]], output: Format) -> None:
    if output is Format.JSON:
        print_json([progress_as_json(each) for _, rows in groups for each in rows])
        return
    for number, (described, rows) in enumerate(groups):
        if number:
            print_line()
        if not described.members:
            print_line(f"Consumer group '{described.group_id}' has no active members.")
        print_table(HEADINGS, [_row(each) for each in rows])


def _row(each: Progress) -> tuple[object, ...]:
    member = each.member
    who = ("-", "-", "-") if member is None else (member.member_id, member.client_host, member.client_id)
    return (each.group, each.topic, each.partition, *map(or_dash, (each.committed, each.end, each.lag)), *who)


def _show_members(groups: Iterable[GroupDescription], output: Format) -> None:
    if output is Format.JSON:
        print_json(
            [
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
        )
        return
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
    print_table(headings, rows)


def _assignment_text(assignment: Iterable[tuple[str, int]]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, partition in assignment:
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(f"{topic}({','.join(partitions)})" for topic, partitions in topics.items()) or "-"


def _show_state(groups: Iterable[GroupDescription], output: Format) -> None:
    if output is Format.JSON:
        print_json(
            [
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
        )
        return
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
    print_table(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"), rows)
