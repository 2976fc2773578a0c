"""What `tidelog group reset` and `tidelog share reset` have in common: from the options to the offsets of a group."""

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.group_resets import Bounds, Offsets, Target, parse_plan, parse_target
from tidelog.client.types import TopicPartition
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

    def check(self, offered: Collection[str] | None = None) -> None:
        """Raise CommandError unless one of them, or of those that the command has, is given."""
        if len(self._given()) != 1:
            options = ", ".join(_option(name) for name in offered or self._fields)
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


def shown(group: str, committed: Mapping[TopicPartition, int], targets: Offsets, is_done: bool) -> Result:
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
