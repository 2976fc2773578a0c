"""New offsets of a group: what a reset would set, partition by partition, before it is done."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.group_resets import Bounds, Offsets, Way, parse_plan, parse_target
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError

WAYS: Final = (
    (Way.EARLIEST.value, "To the earliest offset"),
    (Way.LATEST.value, "To the latest offset"),
    (Way.OFFSET.value, "To an offset"),
    (Way.SHIFT.value, "By a number of records, back if negative"),
    (Way.TIME.value, "To a time, such as 2026-01-31T12:00:00Z"),
    (Way.DURATION.value, "To a time ago, such as PT2H or P1D"),
)


async def plan(
    view: ClusterView,
    way: str,
    argument: str,
    committed: Mapping[TopicPartition, int],
    partitions: Collection[TopicPartition],
) -> Offsets:
    """The offsets that a reset sets, of partitions that can be read. Raises PageError if the argument does not fit."""
    try:
        target = parse_target(way, argument, time.time_ns() // 1_000_000)
        first, last = await asyncio.gather(view.offsets_at(partitions, EARLIEST), view.offsets_at(partitions, LATEST))
        at_time = {} if target.time_ms is None else await view.offsets_at(partitions, target.time_ms)
        return target.resolve(Bounds(first, last), committed, at_time)
    except ValueError as error:
        raise _unusable(error) from None


def read_plan(text: str) -> Offsets:
    """A plan that a preview showed. Raises PageError."""
    try:
        return parse_plan(text)
    except ValueError as error:
        raise _unusable(error) from None


def _unusable(error: ValueError) -> PageError:
    text = str(error)
    return PageError(400, "The reset cannot be planned", text[0].upper() + text[1:] + ".")
