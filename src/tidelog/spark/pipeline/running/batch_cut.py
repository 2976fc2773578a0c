"""Plans a batch that exceeded the transaction timeout again, and smaller, at the next start.

Spark writes the offsets of a batch to the checkpoint before it runs the batch, and repeats it unchanged after a
failure. A batch that exceeded the transaction timeout would fail every time. Nothing of it was committed, so its
offsets can be removed from the checkpoint; Spark then plans the batch again, with a limit based on its size. Only for
checkpoints on this machine; for others the error says what to do. (If the batch was committed after all, the sink
rejects the new batch.) No Spark.
"""

import json
import logging
from pathlib import Path
from typing import Final

from tidelog.spark.pipeline.running import notes
from tidelog.spark.pipeline.running.checkpoints import batch_numbers, is_local, local_path, parse_offsets
from tidelog.spark.pipeline.running.notes import set_mark, take_mark

LOG: Final = logging.getLogger("tidelog.pipeline")

TOOK_TOO_LONG: Final = "the brokers aborted the transaction of this batch: it was open for"
"""The sink's error message for it."""

_PARTS: Final = 4


def note_failure(checkpoint: str, failure: str) -> None:
    """Remember that the batch which failed took too long, if that is what `failure` says."""
    if TOOK_TOO_LONG in failure and is_local(checkpoint):
        set_mark(checkpoint, notes.TOOK_TOO_LONG, "the last planned batch must be planned smaller at the next start")


def cut_planned_batch(checkpoint: str) -> int | None:
    """Remove the note of a batch that took too long; how many offsets a batch may have from now on, if there is one."""
    place = local_path(checkpoint)
    if place is None or not take_mark(checkpoint, notes.TOOK_TOO_LONG):
        return None
    planned = max(batch_numbers(place / "offsets"), default=-1)
    limit = None
    if planned > max(batch_numbers(place / "commits"), default=-1):
        limit = max(1, _size(place, planned) // _PARTS)
        note = place / "offsets" / str(planned)
        note.unlink()
        note.with_name(f".{planned}.crc").unlink(missing_ok=True)
        LOG.warning("batch %d exceeded the transaction timeout: planning it again, %d offsets", planned, limit)
    return limit


def _size(place: Path, batch_id: int) -> int:
    """How many offsets a batch has."""
    text = (place / "offsets" / str(batch_id)).read_text(encoding="utf-8")
    before = place / "offsets" / str(batch_id - 1)
    starts = parse_offsets(before.read_text(encoding="utf-8")) if before.exists() else _origin(text)
    return sum(
        max(0, end - starts.get(topic, {}).get(partition, 0))
        for topic, partitions in parse_offsets(text).items()
        for partition, end in partitions.items()
    )


def _origin(text: str) -> dict[str, dict[int, int]]:
    """Where the first batch began, which our source notes with its end."""
    lines = text.splitlines()[2:]
    shown = [json.loads(line) for line in lines]
    begins = [json.dumps(each["$from"]) for each in shown if isinstance(each, dict) and "$from" in each]
    return parse_offsets("\n".join(["", "", *begins]))
