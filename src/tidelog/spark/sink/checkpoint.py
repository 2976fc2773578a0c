"""What a checkpoint tells: whose it is, and whether a batch that was committed is the one that is written now.

Spark notes the offsets of a batch, and the time, before it plans the batch, and plans a repetition from the same note.
A checkpoint that was restored from a backup, or copied, has the same query and batch numbers but other notes: its batch
has other rows. `settings` and `party` ask, on the driver. Only local checkpoints can be looked into.
"""

import json
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit


def query_id_of(checkpoint: str) -> str | None:
    """The id of the query; None where that cannot be read."""
    directory = _local(checkpoint)
    if directory is None:
        return None
    try:
        return str(json.loads((directory / "metadata").read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def plan_of(checkpoint: str | None, batch_id: int) -> str | None:
    """A short name of what Spark noted for a batch; None where that cannot be read."""
    directory = None if checkpoint is None else _local(checkpoint)
    if directory is None:
        return None
    try:
        noted = (directory / "offsets" / str(batch_id)).read_bytes()
    except OSError:
        return None
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
