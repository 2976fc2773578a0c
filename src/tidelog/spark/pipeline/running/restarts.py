"""When a failed pipeline is restarted: which failures a restart can cure, after which delay, when to give up. Pure.

A restart repeats the failed batch as it was planned. That cures a Python worker that was killed, an executor that was
lost or a broker that did not answer. It does not cure a wrong option, lost offsets or a row that fails without a
policy: these end the pipeline at once.
"""

from dataclasses import dataclass
from typing import Final

RESTARTS_DEFAULT: Final = 10
UNLIMITED: Final = -1

_FIRST_S: Final = 0.5
_LONGEST_S: Final = 60.0

_LASTING: Final = (
    "PipelineError",
    "BatchRejected",
    "OptionError",
    "DataLossError",
    "AnalysisException",
    "MalformedTimestamp",
    "; set on_failure to go on without such rows",
    "; the expectation has on_failure='fail'",
    "this query has already written",
    "was written before cannot be known",
    "and the brokers reject it",
    "rows have no topic",
    "sources in the checkpoint offsets",
    "SQLSTATE: 22",
)
"""Found in the message of failures that the same batch would meet again. SQL's class 22 is about values: a cast that is
impossible, a division by zero, an overflow."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often a pipeline is restarted without progress in between; `UNLIMITED` has no end."""

    restarts_max: int = RESTARTS_DEFAULT
    first_s: float = _FIRST_S
    longest_s: float = _LONGEST_S


class Restarts:
    """The restarts of one pipeline. A batch that was completed since the last failure sets the count back."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._in_a_row = 0
        self._progress: object = None
        self.total = 0

    def delay_s(self, failure: str, progress: object) -> float | None:
        """How long to wait before the next start; None to give up.

        `progress` identifies the last completed batches: a value that differs from the one of the last failure means
        that the pipeline did some work in between; None means that it did not even start.
        """
        if progress is not None and progress != self._progress:
            self._in_a_row = 0
            self._progress = progress
        limit = self._policy.restarts_max
        if is_lasting(failure) or (limit != UNLIMITED and self._in_a_row >= limit):
            return None
        delay_s = min(self._policy.longest_s, self._policy.first_s * 2.0 ** min(self._in_a_row, 30))
        self._in_a_row += 1
        self.total += 1
        return delay_s


def is_lasting(failure: str) -> bool:
    """Whether the same batch would fail in the same way again."""
    return any(mark in failure for mark in _LASTING)
