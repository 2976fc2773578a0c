"""A file by which the driver notifies the source's reader that parked rows are due.

Spark runs the reader in a process of its own and starts a micro-batch only if the reader has something new. A hint
only: without the file, rows count as due, and a batch that finds none costs little. No Spark.
"""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from tidelog.spark.pipeline.running.checkpoints import local_path


class ParkedTopicHint:
    """A file with one word."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    def is_due(self) -> bool:
        """True, unless the driver has written otherwise."""
        try:
            return self._path.read_bytes() != b"waiting"
        except OSError:
            return True

    def put(self, *, is_due: bool) -> None:
        """Replace the file as a whole, so that the reader never sees half a word."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        draft.write_bytes(b"due" if is_due else b"waiting")
        draft.replace(self._path)


def hint_for(checkpoint: str) -> ParkedTopicHint:
    """The hint of the query with this checkpoint: beside it if that is on this machine, as the reader is."""
    local = local_path(checkpoint)
    if local is not None:
        return ParkedTopicHint(local.absolute() / "parked-hint")
    name = sha256(checkpoint.encode()).hexdigest()[:16]
    return ParkedTopicHint(Path(tempfile.gettempdir()) / f"tidelog-parked-{os.getuid()}-{name}")
