"""What a backfill reads, cut into numbered parts, and how far it has come. Kept in a directory; no Spark.

The offsets are fixed when a backfill starts first: a later start reads the same parts under the same numbers, and a
sink recognises by its number a part that it has. One file holds the plan, another the number of parts that are done.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from tidelog.client.durations import parse_moment_ms
from tidelog.spark.pipeline.definition.pipeline import PipelineError

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""By topic and partition, the first offset and the one after the last."""

BATCH_OFFSETS: Final = 100_000
_PLAN: Final = "plan.json"
_DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end: a time in milliseconds, an offset for all partitions, or neither."""

    time_ms: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """All parts of one backfill. `query_id` stands for it in the sinks, as a query's id does."""

    query_id: str
    asked: Mapping[str, str | None]
    ranges: Ranges
    batch_offsets: int

    @property
    def total(self) -> int:
        """How many offsets there are."""
        return sum(end - start for _, _, start, end in self._each())

    @property
    def parts(self) -> int:
        """How many parts there are."""
        step = self._step()
        return max((-(-(end - start) // step) for _, _, start, end in self._each()), default=0)

    def part(self, number: int) -> Ranges:
        """The offsets of one part: the next ones of each partition that has any left."""
        step = self._step()
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, partition, start, end in self._each():
            first = start + number * step
            if first < end:
                found.setdefault(topic, {})[partition] = (first, min(end, first + step))
        return found

    def size(self, number: int) -> int:
        """How many offsets a part has."""
        return sum(end - start for each in self.part(number).values() for start, end in each.values())

    def _step(self) -> int:
        partitions = sum(len(each) for each in self.ranges.values())
        return max(1, self.batch_offsets // max(1, partitions))

    def _each(self) -> list[tuple[str, int, int, int]]:
        return [
            (topic, partition, start, end)
            for topic, partitions in sorted(self.ranges.items())
            for partition, (start, end) in sorted(partitions.items())
            if end > start
        ]


def parse_bound(text: str | None) -> Bound:
    """`2026-01-31`, `2026-01-31T12:00:00+01:00` (UTC where no zone is named) or an offset. Raises ValueError."""
    if text is None:
        return Bound()
    if text.isascii() and text.isdigit():
        return Bound(offset=int(text))
    return Bound(time_ms=parse_moment_ms(text))


class BackfillState:
    """The directory of one backfill."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def plan(self, asked: Mapping[str, str | None]) -> BackfillPlan | None:
        """The plan of an earlier start; None if this is the first. Raises PipelineError if it read something else."""
        try:
            kept = json.loads((self.directory / _PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if kept["asked"] != dict(asked):
            raise PipelineError(
                f"{self.directory} holds a backfill of {_shown(kept['asked'])}, not of {_shown(asked)}: "
                "choose another --name"
            )
        ranges = {
            topic: {int(partition): (start, end) for partition, (start, end) in partitions.items()}
            for topic, partitions in kept["ranges"].items()
        }
        return BackfillPlan(kept["query_id"], kept["asked"], ranges, kept["batch_offsets"])

    def keep(self, plan: BackfillPlan) -> None:
        """Fix the plan, before anything is written."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._replace(_PLAN, json.dumps(asdict(plan)))

    @property
    def done(self) -> int:
        """How many parts every sink has."""
        try:
            return int((self.directory / _DONE).read_text())
        except FileNotFoundError:
            return 0

    def keep_done(self, parts: int) -> None:
        """Note that these parts are written."""
        self._replace(_DONE, str(parts))

    def _replace(self, name: str, text: str) -> None:
        new = self.directory / f".{name}.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.directory / name)


def new_plan(asked: Mapping[str, str | None], ranges: Ranges, batch_offsets: int) -> BackfillPlan:
    """A plan with an id of its own."""
    return BackfillPlan(str(uuid4()), dict(asked), ranges, batch_offsets)


def _shown(asked: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None) or "everything"
