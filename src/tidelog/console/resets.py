"""New offsets of a group: what a reset would set, partition by partition, before it is done."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.offset_reset import parse_duration_ms
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError
from tidelog.console.text import parse_moment_ms

WAYS: Final = (
    ("earliest", "To the earliest offset"),
    ("latest", "To the latest offset"),
    ("offset", "To an offset"),
    ("shift", "By a number of records, back if negative"),
    ("time", "To a time, such as 2026-01-31T12:00:00Z"),
    ("duration", "To a time ago, such as PT2H or P1D"),
)

Offsets = Mapping[TopicPartition, int]


class Planned(NamedTuple):
    """The change of one partition; `committed` is None if there was no offset."""

    where: TopicPartition
    committed: int | None
    target: int


async def plan(
    view: ClusterView, way: str, argument: str, committed: Offsets, partitions: Collection[TopicPartition]
) -> list[Planned]:
    """The offsets that a reset sets, each inside its partition. Raises PageError for an argument that does not fit."""
    first, last = await asyncio.gather(view.offsets_at(partitions, EARLIEST), view.offsets_at(partitions, LATEST))
    there = sorted(first.keys() & last.keys())
    targets: Offsets
    if way == "earliest":
        targets = first
    elif way == "latest":
        targets = last
    elif way == "offset":
        targets = dict.fromkeys(there, _number(argument))
    elif way == "shift":
        missing = [str(each) for each in there if each not in committed]
        if missing:
            raise _unusable(f"a shift needs committed offsets; there are none for {', '.join(missing[:5])}")
        targets = {each: committed[each] + _number(argument) for each in there}
    else:
        found = await view.offsets_at(there, _time_ms(way, argument))
        targets = {each: found[each] if found.get(each, -1) >= 0 else last[each] for each in there}
    return [Planned(each, committed.get(each), min(max(targets[each], first[each]), last[each])) for each in there]


def write_plan(planned: Collection[Planned]) -> str:
    """A plan as text, so that what is done is exactly what was shown."""
    return "\n".join(f"{each.where.topic}:{each.where.partition}:{each.target}" for each in planned)


def parse_plan(text: str) -> dict[TopicPartition, int]:
    """A plan from its text. Raises PageError."""
    found: dict[TopicPartition, int] = {}
    for line in text.split():
        topic, _, rest = line.partition(":")
        partition, _, offset = rest.partition(":")
        if not topic or not (partition.isdigit() and offset.isdigit()):
            raise _unusable(f"{line!r} is not TOPIC:PARTITION:OFFSET")
        found[TopicPartition(topic, int(partition))] = int(offset)
    return found


def _time_ms(way: str, argument: str) -> int:
    try:
        if way == "duration":
            return max(0, time.time_ns() // 1_000_000 - parse_duration_ms(argument.strip()))
        return max(0, parse_moment_ms(argument))
    except ValueError as error:
        raise _unusable(str(error)) from None


def _number(argument: str) -> int:
    digits = argument.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise _unusable(f"{argument!r} is not a whole number")
    return int(argument)


def _unusable(text: str) -> PageError:
    return PageError(400, "The reset cannot be planned", text[0].upper() + text[1:] + ".")
