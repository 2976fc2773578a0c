"""Rows that a task leaves to the driver, because it cannot know whether another task has rows of the same partitions.

Few rows travel in the task's message. Many are put into a file beside the checkpoint, if the task sees the very
directory of its query there, as on one machine or on a shared disk; else the task writes them after all. The files of a
batch are removed when it has ended, those that a crash left with the next batch.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidelog.spark.sink.checkpoint import shared_directory
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.messages import TaskFacts, Written
from tidelog.spark.sink.row_fingerprint import RowFingerprint, combined
from tidelog.spark.sink.settings import SinkSettings
from tidelog.spark.sink.task import fingerprint_batch

MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Spark allows a gigabyte of results for all tasks of a batch together (`spark.driver.maxResultSize`)."""

DIRECTORY: Final = "unplaced"


@dataclass(frozen=True, slots=True)
class Taken:
    """The first rows of a task, in memory, and the batches that come after them."""

    first: Sequence[pa.RecordBatch]
    rest: Iterator[pa.RecordBatch]
    is_all: bool

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch, once."""
        return chain(self.first, self.rest)


def gather(batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Taken:
    """The rows of a task, as many as fit into a message."""
    first: list[pa.RecordBatch] = []
    chosen = (batch.select(list(columns)) for batch in batches if batch.num_rows)
    size = 0
    for batch in chosen:
        first.append(batch)
        size += batch.nbytes
        if size > MESSAGE_BYTES:
            return Taken(first, chosen, is_all=False)
    return Taken(first, iter(()), is_all=True)


def spill_directory(settings: SinkSettings, task: TaskFacts) -> Path | None:
    """Where a task can put many rows for the driver; None if it must write them itself."""
    checkpoint = shared_directory(settings.checkpoint, task.query_id)
    return None if checkpoint is None else checkpoint / DIRECTORY


def spill(
    taken: Taken, directory: Path | None, topic: str | None, *, takes_fingerprint: bool
) -> tuple[bytes | None, str | None, RowFingerprint | None]:
    """The rows for the message, or the file that has them, and their fingerprint."""
    fingerprints: list[RowFingerprint] = []

    def noted() -> Iterator[pa.RecordBatch]:
        for batch in taken.all_batches():
            if takes_fingerprint:
                fingerprints.append(fingerprint_batch(batch, topic))
            yield batch

    rows, path = None, None
    if taken.is_all:
        rows = encode_batches(noted())
    else:
        assert directory is not None, "without a place for many rows the task writes them"
        directory.mkdir(exist_ok=True)
        path = directory / f"{uuid.uuid4().hex}.arrow"
        with path.open("xb") as file:
            _encode(noted(), file)
    fingerprint = combined(fingerprints) if takes_fingerprint else None
    return rows, None if path is None else str(path), fingerprint


def encode_batches(batches: Iterable[pa.RecordBatch]) -> bytes | None:
    """The batches as an Arrow stream; None if there are none."""
    out = pa.BufferOutputStream()
    return out.getvalue().to_pybytes() if _encode(batches, out) else None


def _encode(batches: Iterable[pa.RecordBatch], out: object) -> bool:
    found = iter(batches)
    first = next(found, None)
    if first is None:
        return False
    with pa.ipc.new_stream(out, first.schema) as stream:
        for batch in chain([first], found):
            stream.write_batch(batch)
    return True


def has_gathered(part: Written) -> bool:
    """Whether a task left rows to the driver."""
    return part.rows is not None or part.spilled is not None


def open_gathered(part: Written) -> Iterator[pa.RecordBatch]:
    """The rows that a task left to the driver."""
    if part.rows is not None:
        yield from pa.ipc.open_stream(part.rows)
    if part.spilled is not None:
        try:
            file = pa.memory_map(part.spilled)
        except OSError as error:
            raise SinkError(
                f"the driver cannot read the rows that task {part.task.partition_id} left beside the checkpoint: "
                f"{error}. Use tidelog.spark.place_rows(df, ...) before the sink"
            ) from error
        with file:
            yield from pa.ipc.open_stream(file)


def remove_gathered(settings: SinkSettings, parts: Sequence[Written]) -> None:
    """Remove the files of a batch that has ended, and what a run left that was killed. Raises nothing."""
    checkpoint = shared_directory(settings.checkpoint, parts[0].task.query_id) if parts else None
    if checkpoint is None:
        return
    with suppress(OSError):
        for path in (checkpoint / DIRECTORY).glob("*.arrow"):
            path.unlink(missing_ok=True)
