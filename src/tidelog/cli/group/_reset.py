"""`tidelog group reset`: from the options to the offsets that a group gets."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tidelog.cli._clients import Connection
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.group_resets import RESETTABLE_STATES, Bounds, Offsets, Target, parse_plan, parse_target, write_plan
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.health.findings import counted


class Wanted(NamedTuple):
    """The options for the new offsets; exactly one must be given."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    by_duration: str | None = None
    to_datetime: str | None = None
    from_file: Path | None = None

    def check(self) -> None:
        """Raise CommandError unless one of them is given."""
        if len(self._given()) != 1:
            options = ", ".join(_option(name) for name in self._fields)
            raise CommandError(f"give exactly one of {options}")

    def target(self) -> Target:
        """The one that is given, unless it is a file. Raises CommandError for an argument that does not fit."""
        ((name, value),) = self._given().items()
        try:
            return parse_target(_WAYS[name], str(value), time.time_ns() // 1_000_000)
        except ValueError as error:
            raise CommandError(f"{_option(name)}: {error}") from None

    def _given(self) -> dict[str, object]:
        return {name: value for name, value in self._asdict().items() if value is not None and value is not False}


_WAYS = {
    "to_earliest": "earliest",
    "to_latest": "latest",
    "to_current": "current",
    "to_offset": "offset",
    "shift_by": "shift",
    "by_duration": "duration",
    "to_datetime": "time",
}


def find_targets(
    admin: Admin, wanted: Wanted, committed: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> Offsets:
    """The new offset of each partition."""
    if wanted.from_file is not None:
        planned = read_plan(wanted.from_file)
        return _bounds(admin, planned.keys()).clamp(planned)
    target = wanted.target()
    at_time = {} if target.time_ms is None else _offsets_at(admin, partitions, target.time_ms)
    try:
        return target.resolve(_bounds(admin, partitions), committed, at_time)
    except ValueError as error:
        raise CommandError(str(error)) from None


def read_plan(path: Path) -> Offsets:
    """A plan as `--export` writes it."""
    try:
        return parse_plan(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None


def _bounds(admin: Admin, partitions: Collection[TopicPartition]) -> Bounds:
    return Bounds(_offsets_at(admin, partitions, EARLIEST), _offsets_at(admin, partitions, LATEST))


def _offsets_at(admin: Admin, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
    return {each: place.offset for each, place in admin.list_offsets(dict.fromkeys(partitions, time_ms)).items()}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


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
    return _shown(group, committed, targets, execute)


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


def _shown(group: str, committed: Mapping[TopicPartition, int], targets: Offsets, is_done: bool) -> Result:
    rows = [(group, *each, committed.get(each, "-"), offset) for each, offset in sorted(targets.items())]
    document = {
        "group": group,
        "executed": is_done,
        "offsets": [
            {"topic": topic, "partition": partition, "from": None if before == "-" else before, "to": after}
            for _, topic, partition, before, after in rows
        ],
    }
    table = Table(
        headings=("GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET"),
        rows=rows,
        after=f"Reset the offsets of {counted(len(rows), 'partition')}."
        if is_done
        else "Nothing was changed; add --execute to reset the offsets.",
    )
    return Result(document, table)
