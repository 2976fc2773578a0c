"""`tidelog group reset`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._resets import Wanted, choose_partitions, find_targets, shown
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result
from tidelog.client.admin import Admin
from tidelog.client.group_resets import RESETTABLE_STATES, write_plan
from tidelog.client.types import OffsetAndMetadata


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
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the earliest offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the latest offset.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Reset to the committed offset; to the latest if there is none.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(help="Reset to this offset.", min=0)] = None,
    shift_by: Annotated[int | None, typer.Option(help="Shift by this many records, back if negative.")] = None,
    by_duration: Annotated[
        str | None, typer.Option(help="Reset to this long ago: P1D, PT2H30M.", metavar="DURATION")
    ] = None,
    to_datetime: Annotated[str | None, typer.Option(help="Reset to this time: ISO 8601.", metavar="TIME")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(help="Reset to the offsets in a file: topic,partition,offset per line.", metavar="FILE"),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset the offsets; without this, only show the plan.")
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Only print the plan, in the format of --from-file.")
    ] = False,
) -> Result | None:
    """Reset the committed offsets of a group. Only shows the plan unless --execute is given."""
    wanted = Wanted(to_earliest, to_latest, to_current, to_offset, shift_by, by_duration, to_datetime, from_file)
    wanted.check()
    with connection.admin() as admin:
        committed = {each: place.offset for each, place in admin.list_consumer_group_offsets(group).items()}
        partitions = [] if from_file is not None else choose_partitions(admin, topic, all_topics, committed)
        targets = find_targets(admin, wanted, committed, partitions)
        if execute and not export:
            _check_inactive(admin, group)
            admin.alter_consumer_group_offsets(
                group, {each: OffsetAndMetadata(offset) for each, offset in targets.items()}
            )
    if export:
        sys.stdout.write(write_plan(targets))
        return None
    return shown(group, committed, targets, execute)


def _check_inactive(admin: Admin, group: str) -> None:
    state = admin.describe_groups([group])[group].state
    if state not in RESETTABLE_STATES:
        raise CommandError(f"group {group!r} is {state}: offsets can be reset only while it has no members")
