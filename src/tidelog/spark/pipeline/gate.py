"""Whether the parked topic has a row whose turn it is: told by the driver, asked by the reader beside it.

A hint only: without the file the topic counts as open, and rows that must wait are parked anew. No Spark.
"""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from tidelog.spark.pipeline.checkpoints import local_path


class Gate:
    """A file with one word."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """The file that tells."""
        return self._path

    def is_open(self) -> bool:
        """Open, unless the driver has said otherwise."""
        try:
            return self._path.read_bytes() != b"closed"
        except OSError:
            return True

    def put(self, *, is_open: bool) -> None:
        """Say so. Written aside and renamed, so that the reader never sees half a word."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        draft.write_bytes(b"open" if is_open else b"closed")
        draft.replace(self._path)


def gate_for(checkpoint: str) -> Gate:
    """The gate of the query with this checkpoint: beside it where that is on this machine, as the reader is."""
    local = local_path(checkpoint)
    if local is not None:
        return Gate(local.absolute() / "parked-gate")
    name = sha256(checkpoint.encode()).hexdigest()[:16]
    return Gate(Path(tempfile.gettempdir()) / f"tidelog-gate-{os.getuid()}-{name}")
