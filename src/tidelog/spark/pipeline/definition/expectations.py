"""What is counted of expectations, by rule: rows tested, rows that failed. Pure.

Spark reports the counts of a batch under `metric_of(rule)`, beside whatever else a user's steps observe.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.spark.pipeline.definition.steps import Expect

EVALUATED: Final = "evaluated"
FAILED: Final = "failed"
_PREFIX: Final = "tidelog.expect."


@dataclass(frozen=True, slots=True)
class RuleCount:
    """The rows that were tested by a rule, and how many of them failed."""

    evaluated: int = 0
    failed: int = 0

    @property
    def share(self) -> float:
        """The share of the rows that failed."""
        return self.failed / self.evaluated if self.evaluated else 0.0

    def __add__(self, other: "RuleCount") -> "RuleCount":
        return RuleCount(self.evaluated + other.evaluated, self.failed + other.failed)


Counts = Mapping[str, RuleCount]
"""By rule."""


def metric_of(rule: str) -> str:
    """The name of the counts of a rule among what Spark observes."""
    return f"{_PREFIX}{rule}"


def counts_in(observed: Mapping[str, Mapping[str, Any]]) -> dict[str, RuleCount]:
    """The counts among what Spark has observed in a batch."""
    return {
        name.removeprefix(_PREFIX): RuleCount(int(row.get(EVALUATED) or 0), int(row.get(FAILED) or 0))
        for name, row in observed.items()
        if name.startswith(_PREFIX)
    }


def added(before: Counts, more: Counts) -> dict[str, RuleCount]:
    """Both together."""
    return {rule: before.get(rule, RuleCount()) + more.get(rule, RuleCount()) for rule in {**before, **more}}


def exceeded(expectations: Iterable[Expect], counts: Counts) -> str | None:
    """Why a batch may not be written: more rows have failed than a rule allows; None if it may."""
    for each in expectations:
        count = counts.get(each.rule)
        if each.fail_above is None or count is None or count.share <= each.fail_above:
            continue
        named = "" if each.rule == each.condition else f" ({each.condition})"
        return (
            f"expectation {each.rule!r}{named}: {count.failed:,} of {count.evaluated:,} rows of the batch fail, "
            f"{count.share:.2%}, and fail_above={each.fail_above:g} allows {each.fail_above:.2%}; "
            "nothing of the batch is written"
        )
    return None
