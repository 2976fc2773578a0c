"""The messages between the cleaner and its worker processes: jobs to the worker, events back, as lines of JSON.

They have only paths and numbers: a worker shares no state with the broker, so its death loses none. The worker reads
segments and writes `.cleaned` files beside them; it renames nothing and deletes only its own output.
"""

import json
from typing import Any, Final, NamedTuple


class SourceSegment(NamedTuple):
    """A segment to clean. Its files no longer change."""

    base_offset: int
    size_bytes: int


class ProducerTail(NamedTuple):
    """The end of a producer in a log: its last data offset, -1 if only a marker is left, and its epoch."""

    producer_id: int
    last_data_offset: int
    producer_epoch: int


class CleanJob(NamedTuple):
    """One cleaning of one log: everything below `end_offset`, of which all from `first_dirty_offset` on is new."""

    name: str
    directory: str
    segments: tuple[SourceSegment, ...]
    later_bases: tuple[int, ...]
    """Base offsets of the segments from `end_offset` on, whose transaction indexes may cover earlier records."""
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second_max: float
    producers: tuple[ProducerTail, ...] = ()
    settled_before: int = 0
    """Control batches about delayed records below this offset are removed."""


class Progress(NamedTuple):
    """How far a job is. The bytes of both passes count."""

    bytes_done: int
    bytes_total: int


class GroupCleaned(NamedTuple):
    """A group of segments has been written to one `.cleaned` segment, which is on disk.

    `inode` distinguishes the file from one of the same name by an orphaned worker of an earlier broker.
    """

    base_offsets: tuple[int, ...]
    size_bytes: int
    inode: int


class JobDone(NamedTuple):
    """All groups are written. The log is clean up to `end_offset`, which a full map may have put before the job's."""

    end_offset: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    records_without_key: int
    map_utilization: float
    index_ms: int
    total_ms: int
    engine: str


class JobFailed(NamedTuple):
    """The job failed; groups that were reported stay valid. `kind` is one of the constants below."""

    kind: str
    message: str
    error_number: int = 0


CORRUPT: Final = "corrupt"
"""The log cannot be cleaned as it is, now or later."""
IO: Final = "io"
"""The operating system returned an error."""
BUG: Final = "bug"
"""An unexpected exception."""

Event = Progress | GroupCleaned | JobDone | JobFailed
_KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in (Progress, GroupCleaned, JobDone, JobFailed)}


def encode_job(job: CleanJob) -> bytes:
    return json.dumps(job._asdict()).encode() + b"\n"


def decode_job(line: bytes) -> CleanJob:
    fields = json.loads(line)
    fields["segments"] = tuple(SourceSegment(*segment) for segment in fields["segments"])
    fields["producers"] = tuple(ProducerTail(*producer) for producer in fields["producers"])
    fields["later_bases"] = tuple(fields["later_bases"])
    return CleanJob(**fields)


def encode_event(event: Event) -> bytes:
    return json.dumps([type(event).__name__, *event]).encode() + b"\n"


def decode_event(line: bytes) -> Event:
    """ValueError when the line is not an event: something else has printed to the worker's output."""
    try:
        kind, *fields = json.loads(line)
        event: Event = _KINDS[kind](*fields)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not an event of a cleaner's worker: {line[:80]!r}") from error
    return event._replace(base_offsets=tuple(event.base_offsets)) if isinstance(event, GroupCleaned) else event
