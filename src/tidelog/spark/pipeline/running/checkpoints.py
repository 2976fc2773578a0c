"""Reads the offsets of a query from the files of its checkpoint: the offsets of a batch, and whether it is committed.

Only local directories are looked into; for others, `plan` says so. Spark's files are a line with the version, a line of
settings, then a line of JSON for each source.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a query has come: the last batch that is done, and where it ended in each partition."""

    query_id: str | None
    batch_id: int
    offsets: Offsets


def is_local(path: str) -> bool:
    """Whether a checkpoint is in a directory of this machine."""
    return local_path(path) is not None


def local_path(path: str) -> Path | None:
    """The directory of a checkpoint, given as a path or as Spark's `file:/…`; None if it is elsewhere."""
    scheme, colon, rest = path.partition(":/")
    if not colon or "/" in scheme:
        return Path(path)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def why_unwritable(path: str) -> str | None:
    """Why a checkpoint cannot be created, as far as this machine can tell; None if it can."""
    place = local_path(path)
    if place is None:
        return None
    there = next(each for each in (place.absolute(), *place.absolute().parents) if each.exists())
    if not there.is_dir():
        return f"{there} is not a directory"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} is not writable"


def has_no_batches(path: str) -> bool:
    """Whether a checkpoint on this machine belongs to a query, and has no batch of it."""
    place = local_path(path)
    return place is not None and (place / "metadata").is_file() and not batch_numbers(place / "offsets")


def planned_watermark_ms(path: str) -> int | None:
    """The watermark of the batch that was planned last; None if there is none yet, or it cannot be read from here."""
    place = local_path(path)
    if place is None:
        return None
    try:
        text = _text(place / "offsets" / str(max(batch_numbers(place / "offsets"))))
        watermark_ms = int(json.loads(text.splitlines()[1])["batchWatermarkMs"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return watermark_ms if watermark_ms > 0 else None


def read_positions(paths: Sequence[str]) -> Position | None:
    """How far all queries with these checkpoints have come: the position of the last, in each partition."""
    positions = [read_position(path) for path in paths]
    behind: Position | None = None
    for position in positions:
        if position is None:
            return None
        behind = position if behind is None else _behind(behind, position)
    return behind


def _behind(one: Position, other: Position) -> Position:
    offsets = {
        topic: {
            partition: min(offset, other.offsets[topic][partition])
            for partition, offset in partitions.items()
            if partition in other.offsets[topic]
        }
        for topic, partitions in one.offsets.items()
        if topic in other.offsets
    }
    return Position(one.query_id, min(one.batch_id, other.batch_id), offsets)


def read_position(path: str) -> Position | None:
    """The position of the query with this checkpoint; None if it has finished no batch or cannot be read from here."""
    root = local_path(path)
    if root is None:
        return None
    done = batch_numbers(root / "commits")
    batch_id = max(done & batch_numbers(root / "offsets"), default=None)
    if batch_id is None:
        return None
    return Position(_query_id(root / "metadata"), batch_id, parse_offsets(_text(root / "offsets" / str(batch_id))))


def parse_offsets(text: str) -> Offsets:
    """The offsets in a file of the offsets' log, over all sources. Entries of other sources are ignored."""
    found: Offsets = {}
    for line in text.splitlines()[2:]:
        try:
            shown = json.loads(line)
        except ValueError:
            continue
        if not isinstance(shown, dict):
            continue
        for topic, partitions in shown.items():
            if isinstance(partitions, dict) and not topic.startswith("$"):
                found.setdefault(topic, {}).update(_of_topic(partitions))
    return found


def _of_topic(partitions: dict[str, object]) -> dict[int, int]:
    return {
        int(name): offset
        for name, offset in partitions.items()
        if name.isascii() and name.isdigit() and isinstance(offset, int) and not isinstance(offset, bool)
    }


def batch_numbers(directory: Path) -> set[int]:
    """The batches that a log in a checkpoint has files of."""
    if not directory.is_dir():
        return set()
    return {int(each.name) for each in directory.iterdir() if each.name.isascii() and each.name.isdigit()}


def _query_id(path: Path) -> str | None:
    try:
        found = json.loads(_text(path)).get("id")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
