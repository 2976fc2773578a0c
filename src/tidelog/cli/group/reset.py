"""`tidelog group reset`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.group._targets import Wanted, find_targets
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.admin import Admin
from tidelog.client.group_resets import RESETTABLE_STATES, Offsets, write_plan
from tidelog.client.types import OffsetAndMetadata, TopicPartition

EXAMPLE: Final = "tidelog group reset billing --topic orders --to-earliest --execute"


def reset(
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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Reset the committed offsets of a group. Only shows the plan unless --execute is given."""
    wanted = Wanted(to_earliest, to_latest, to_current, to_offset, shift_by, by_duration, to_datetime, from_file)
    wanted.check()
    with connect_admin(bootstrap_server, command_config) as admin:
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
        return
    _show(group, committed, targets, execute, output)


def choose_partitions(
    admin: Admin, topics: Sequence[str] | None, all_topics: bool, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """The partitions that `--topic` and `--all-topics` name."""
    if bool(topics) == all_topics:
        raise CommandError("give either --topic or --all-topics")
    if all_topics:
        if not committed:
            raise CommandError("the group has no offsets; give topics with --topic")
        return sorted(committed)
    chosen: list[TopicPartition] = []
    described = admin.describe_topics([each.partition(":")[0] for each in topics or ()])
    for each in topics or ():
        name, colon, numbers = each.partition(":")
        existing = [partition.partition for partition in described[name].partitions]
        picked = _parse_numbers(each, numbers) if colon else existing
        for number in picked:
            if number not in existing:
                raise CommandError(f"topic {name!r} has no partition {number}; it has 0 to {len(existing) - 1}")
        chosen += [TopicPartition(name, number) for number in picked]
    return chosen


def _parse_numbers(option: str, text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise CommandError(f"--topic {option!r} is neither a topic nor TOPIC:N,N…")
    return [int(part) for part in parts]


def _check_inactive(admin: Admin, group: str) -> None:
    state = admin.describe_groups([group])[group].state
    if state not in RESETTABLE_STATES:
        raise CommandError(f"group {group!r} is {state}: offsets can be reset only while it has no members")


def _show(group: str, committed: Mapping[TopicPartition, int], targets: Offsets, is_done: bool, output: Format) -> None:
    rows = [(group, *each, committed.get(each, "-"), offset) for each, offset in sorted(targets.items())]
    if output is Format.JSON:
        print_json(
            {
                "group": group,
                "executed": is_done,
                "offsets": [
                    {"topic": topic, "partition": partition, "from": None if before == "-" else before, "to": after}
                    for _, topic, partition, before, after in rows
                ],
            }
        )
        return
    print_table(("GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET"), rows)
    if not is_done:
        print_line("Nothing was changed; add --execute to reset the offsets.")
