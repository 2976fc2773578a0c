"""Reads a checkpoint: the id of its query, and whether a committed batch is the same as the current one.

Spark notes the offsets of a batch, and the time, before it plans the batch, and plans a repetition from the same note.
A checkpoint that was restored from a backup, or copied, has the same query and batch numbers but other notes: its batch
has other rows. A Python sink can look into local checkpoints; `write_each_batch` runs beside Spark's JVM and reads the
note through Spark's own log, wherever the checkpoint lies. Where neither can be done, `row_fingerprint` stands in.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidelog.spark.internals import noted_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def query_id_of(checkpoint: str) -> str | None:
    """The id of the query; None where that cannot be read."""
    directory = _local(checkpoint)
    if directory is None:
        return None
    try:
        return str(json.loads((directory / "metadata").read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shared_directory(checkpoint: str | None, query_id: str | None) -> Path | None:
    """The directory of a checkpoint, if this process sees the very files of the query; None anywhere else."""
    directory = None if checkpoint is None else _local(checkpoint)
    if checkpoint is None or query_id is None or query_id_of(checkpoint) != query_id:
        return None
    return directory


def plan_of(checkpoint: str | None, batch_id: int) -> str | None:
    """A short name of what Spark noted for a batch; None where that cannot be read."""
    directory = None if checkpoint is None else _local(checkpoint)
    if directory is None:
        return None
    try:
        return _fingerprint((directory / "offsets" / str(batch_id)).read_bytes())
    except OSError:
        return None


def has_offset_log(checkpoint: str | None) -> bool:
    """Whether the notes of a checkpoint can be read from here. A path without scheme may be on another file system."""
    directory = None if checkpoint is None else _local(checkpoint)
    return directory is not None and (directory / "offsets").is_dir()


def has_lost_commits(checkpoint: str | None, batch_id: int) -> bool:
    """Whether Spark noted the offsets of batches, and its note that the one before `batch_id` was done is gone."""
    directory = None if checkpoint is None else _local(checkpoint)
    if directory is None or batch_id == 0 or not (directory / "offsets" / str(batch_id)).is_file():
        return False
    return not (directory / "commits" / str(batch_id - 1)).is_file()


def plan_in_jvm(rows: "DataFrame", query_id: str, batch_id: int) -> str | None:
    """The same name for the batch that `foreachBatch` hands over, from the log that the running query keeps."""
    noted = noted_offsets(rows, query_id, batch_id)
    return None if noted is None else _fingerprint(noted)


def _fingerprint(noted: bytes) -> str:
    return sha256(noted).hexdigest()[:16]


def _local(location: str) -> Path | None:
    """The directory of a location without scheme, or with that of files."""
    if "://" not in location and not location.startswith("file:"):
        return Path(location)
    try:
        parts = urlsplit(location)
    except ValueError:
        return None
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
