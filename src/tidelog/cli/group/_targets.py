"""The options of `tidelog group reset` for the new offsets, converted to an offset per partition."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.group_resets import Bounds, Offsets, Target, parse_plan, parse_target
from tidelog.client.types import TopicPartition


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
