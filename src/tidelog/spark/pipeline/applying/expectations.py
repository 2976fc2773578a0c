"""Expectations as Spark expressions: rows tested, counted by rule, and kept, left out, failed or refused.

Spark counts while it computes the rows (`DataFrame.observe`), so counts come with the batch and cost no pass of their
own. `counting` says where: a plan of a running query, and not one that a test makes of `Pipeline.transform`, because
two counts of one name cannot be in a plan. Rows that have failed before are not tested.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.expectations import EVALUATED, FAILED, metric_of
from tidelog.spark.pipeline.definition.steps import ERROR, Expect, OnUnmet
from tidelog.spark.pipeline.failing.guarded import mark_failed, stopping_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STOPS: Final = "; the expectation has on_failure='fail'"
_FAILS: Final = "_tidelog_fails"

_IS_COUNTING: ContextVar[bool] = ContextVar("is_counting", default=False)


@contextmanager
def counting(is_on: bool) -> Iterator[None]:
    """Expectations that are applied in this block are counted."""
    token = _IS_COUNTING.set(is_on)
    try:
        yield
    finally:
        _IS_COUNTING.reset(token)


def apply(rows: "DataFrame", step: Expect) -> "DataFrame":
    """`rows` after an expectation."""
    is_tested = F.col(ERROR).isNull() if ERROR in rows.columns else F.lit(True)
    # Once, as a column: a condition may be dear, or give another result the next time.
    rows = rows.withColumn(_FAILS, is_tested & ~F.coalesce(F.expr(step.condition), F.lit(False)))
    fails = F.col(_FAILS)
    if _IS_COUNTING.get():
        counts = {EVALUATED: F.count(F.when(is_tested, 1)), FAILED: F.count(F.when(fails, 1))}
        rows = rows.observe(metric_of(step.rule), *[count.alias(name) for name, count in counts.items()])
    return _ACTS[step.on_failure](rows, fails, step).drop(_FAILS)


def _unmet(step: Expect) -> str:
    named = "" if step.rule == step.condition else f"{step.rule}: "
    return f"{named}not {step.condition}"


def _dead(rows: "DataFrame", fails: "Column", step: Expect) -> "DataFrame":
    return mark_failed(rows, fails, _unmet(step), retry=False, kind="ExpectationFailed")


def _stop(rows: "DataFrame", fails: "Column", step: Expect) -> "DataFrame":
    return stopping_at(rows, fails, F.lit(f"{_unmet(step)}{STOPS}"), step.name)


_ACTS: Final[Mapping[OnUnmet, Callable[["DataFrame", "Column", Expect], "DataFrame"]]] = {
    "warn": lambda rows, _fails, _step: rows,
    "drop": lambda rows, fails, _step: rows.where(~fails),
    "dead_letter": _dead,
    "fail": _stop,
}
