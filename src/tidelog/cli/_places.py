"""Where `tidelog consume` and `export` begin and end: offsets, times and the options that name them."""

import sys
import time
from typing import Final, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.durations import parse_when_ms
from tidelog.client.types import TopicPartition

Offsets = dict[TopicPartition, int]
PLACES: Final = ("--offset", "--from", "--until", "--tail", "--until-end")


class Place(NamedTuple):
    """Where to begin and to end, as the options say it."""

    offset: str | None = None
    from_beginning: bool = False
    from_: str | None = None
    tail: int | None = None
    follow: bool = False
    until: str | None = None
    until_end: bool = False

    def check(self) -> None:
        """Raise CommandError for options that exclude each other."""
        starts = {
            "--offset": self.offset is not None,
            "--from-beginning": self.from_beginning,
            "--from": self.from_ is not None,
            "--tail": self.tail is not None,
        }
        given = [option for option, is_given in starts.items() if is_given]
        if len(given) > 1:
            raise CommandError(f"{' and '.join(given)} say where to start: give one of them")
        ends = [each for each, is_given in (("--until", self.until), ("--until-end", self.until_end)) if is_given]
        if len(ends) > 1:
            raise CommandError(f"{' and '.join(ends)} say where to stop: give one of them")
        if ends and self.tail is not None:
            raise CommandError(f"--tail ends at the last record: leave out {ends[0]}")
        if self.follow and self.tail is None:
            raise CommandError("--follow goes with --tail; other reads follow unless --until or --until-end is given")

    @property
    def needs_partitions(self) -> bool:
        """Whether places are given that members of a group cannot choose."""
        return any((self.offset is not None, self.from_, self.tail, self.until, self.until_end))


class Span(NamedTuple):
    """What is read of each partition. `firsts` are the earliest offsets, where they matter."""

    starts: Offsets
    ends: Offsets | None
    firsts: Offsets


def find_span(admin: Admin, partitions: list[TopicPartition], place: Place, read_committed: bool) -> Span:
    """The offsets at which each partition is begun and ended."""
    now_ms = time.time_ns() // 1_000_000
    begin_ms = None if place.from_ is None else parse_time("--from", place.from_, now_ms)
    end_ms = None if place.until is None else parse_time("--until", place.until, now_ms)
    if end_ms is not None and end_ms > now_ms:
        raise CommandError(f"--until {place.until!r} is in the future; without it records are awaited")
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise CommandError(f"--from {place.from_!r} is after --until {place.until!r}")
    ends = None
    if place.until_end or place.tail is not None or end_ms is not None:
        ends = _latest(admin, partitions, read_committed)
    if end_ms is not None and ends is not None:
        until = _at_time(admin, partitions, end_ms)
        ends = {each: min(ends[each], until[each]) for each in partitions}
    if place.tail is not None:
        firsts = start_offsets(admin, partitions, "earliest")
        return Span(dict.fromkeys(partitions, 0), ends, firsts)
    if begin_ms is not None:
        return Span(_at_time(admin, partitions, begin_ms), ends, {})
    where = "earliest" if place.from_beginning else place.offset or "latest"
    starts = start_offsets(admin, partitions, where)
    if where.isdigit():
        partitions = _before_the_end(admin, partitions[0].topic, partitions, int(where))
        starts = {each: starts[each] for each in partitions}
        ends = None if ends is None else {each: ends[each] for each in partitions}
    return Span(starts, ends, {})


def parse_time(option: str, text: str, now_ms: int) -> int:
    """A time in milliseconds: so long ago (`2h`), `now`, ISO 8601 or the milliseconds themselves."""
    try:
        return parse_when_ms(text, now_ms)
    except ValueError:
        raise CommandError(
            f"{option} {text!r} is neither a length of time, such as 2h, nor a time of ISO 8601; `tidelog help times`"
        ) from None


def _at_time(admin: Admin, partitions: list[TopicPartition], time_ms: int) -> Offsets:
    """The first offsets at or after a time; the end where there is none."""
    found = admin.list_offsets(dict.fromkeys(partitions, time_ms))
    missing = [each for each in partitions if found[each].offset < 0]
    ends = _latest(admin, missing, read_committed=False) if missing else {}
    return {each: ends.get(each, found[each].offset) for each in partitions}


def start_offsets(admin: Admin, partitions: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    """The offset each partition is read from."""
    if where in {"earliest", "latest"}:
        found = admin.list_offsets(dict.fromkeys(partitions, EARLIEST if where == "earliest" else LATEST))
        return {each: place.offset for each, place in found.items()}
    if where.isascii() and where.isdigit():
        return dict.fromkeys(partitions, int(where))
    if where.startswith("-") and where[1:].isascii() and where[1:].isdigit():
        first = start_offsets(admin, partitions, "earliest")
        last = start_offsets(admin, partitions, "latest")
        return {each: max(first[each], last[each] - int(where[1:])) for each in partitions}
    raise CommandError(f"--offset {where!r} is neither an offset, nor -N, nor `earliest`, nor `latest`")


def _before_the_end(admin: Admin, topic: str, partitions: list[TopicPartition], offset: int) -> list[TopicPartition]:
    """The partitions that have the offset, or will have it next. The others are named, with where they end."""
    ends = _latest(admin, partitions, read_committed=False)
    past = [f"{each} ends at {ends[each]}" for each in partitions if offset > ends[each]]
    if len(past) == len(partitions):
        raise CommandError(f"no offset {offset}: {', '.join(past)}; `tidelog offsets {topic}` shows its offsets")
    if past:
        sys.stderr.write(f"tidelog: no offset {offset}: {', '.join(past)}\n")
    return [each for each in partitions if offset <= ends[each]]


def _latest(admin: Admin, partitions: list[TopicPartition], read_committed: bool) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    return {each: place.offset for each, place in found.items()}
