"""What a start of a pipeline needs to know about how it failed before: marks in its checkpoint, as files.

They outlive the process. A checkpoint that is not on this machine has its marks in this process only.
"""

import logging
from typing import Final

from tidelog.spark.pipeline.running.checkpoints import local_path

LOG: Final = logging.getLogger("tidelog.pipeline")

TOOK_TOO_LONG: Final = "took-too-long"
WORKER_DIED: Final = "worker-died"

_DEATH: Final = "Python worker exited unexpectedly"
"""What Spark says when the process of a Python worker is gone."""

_elsewhere: Final[set[tuple[str, str]]] = set()


def set_mark(checkpoint: str, mark: str, text: str) -> None:
    """Leave a mark. `text` explains it to people."""
    place = local_path(checkpoint)
    if place is None:
        _elsewhere.add((checkpoint, mark))
    elif place.is_dir():
        (place / mark).write_text(f"{text}\n", encoding="utf-8")


def take_mark(checkpoint: str, mark: str) -> bool:
    """Remove a mark; whether it was there."""
    place = local_path(checkpoint)
    if place is None:
        there = (checkpoint, mark) in _elsewhere
        _elsewhere.discard((checkpoint, mark))
        return there
    try:
        (place / mark).unlink()
    except OSError:
        return False
    return True


def note_death(checkpoint: str, failure: str) -> None:
    """Remember that a Python worker died in the batch which failed, if that is what `failure` says."""
    if _DEATH in failure:
        set_mark(checkpoint, WORKER_DIED, "the next start must run functions apart from the workers")


def forget_death(checkpoint: str) -> bool:
    """Whether a Python worker died in the last run."""
    has_died = take_mark(checkpoint, WORKER_DIED)
    if has_died:
        LOG.warning("a Python worker died: until the next start, functions run in processes apart from the workers")
    return has_died
