"""Applying a pipeline's steps to rows: of a batch, of a stream, or of a test through `Pipeline.transform`.

Steps of `tidelog.spark.pipeline` pass failed rows on unchanged. A DataFrame function does not know failed rows and
might filter or join them away, so failed rows are removed before it is called. This reads the rows twice, and a user
function must not be called twice for one row (its result may differ): `materialize` stores the rows computed so far.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.internals import carried
from tidelog.spark.pipeline.applying.expectations import counting
from tidelog.spark.pipeline.applying.own_steps import apply_own
from tidelog.spark.pipeline.checks.definition import tables_wanted
from tidelog.spark.pipeline.definition.pipeline import PipelineError, Step
from tidelog.spark.pipeline.definition.steps import ERROR, OWN_STEPS, RECORD, is_fallible, name_of
from tidelog.spark.pipeline.failing.guarded import guarded_by
from tidelog.spark.pipeline.failing.late_rows import setting_late_aside
from tidelog.spark.pipeline.failing.worker_guard import Guard

Materialize = Callable[[DataFrame], DataFrame]


@dataclass(slots=True)
class Applied:
    """Rows after all steps, and those that failed on the way and were set aside (columns `_record` and `_error`)."""

    rows: DataFrame
    set_aside: list[DataFrame] = field(default_factory=list)
    record: "FollowedRecord" = field(init=False)

    def __post_init__(self) -> None:
        self.record = FollowedRecord(self.rows)


class FollowedRecord:
    """The column `_record` of rows, from where a step left it out to where it is needed.

    It follows by itself where each row is made of one row: through selections, filters, joins with tables, generators.
    Not before it is needed, because it would be part of the state of a step that keeps its rows.
    """

    def __init__(self, rows: DataFrame) -> None:
        self._last = rows if RECORD in rows.columns else None
        self._left_out_by: Step | None = None

    def follow(self, step: Step, rows: DataFrame) -> None:
        """Note what a step has made."""
        if self._last is None:
            return
        if RECORD in rows.columns:
            self._last, self._left_out_by = rows, None
        elif self._left_out_by is None:
            self._left_out_by = step

    def in_rows(self, rows: DataFrame, needed_by: Step | str) -> DataFrame:
        """`rows` with the record again. Raises PipelineError if nobody can say which record a row was made of."""
        if self._last is None or RECORD in rows.columns:
            return rows
        found = carried(self._last, RECORD, rows)
        if found is None:
            why = needed_by if isinstance(needed_by, str) else f"step {name_of(needed_by)} needs it for rows that fail"
            raise PipelineError(
                f"step {name_of(self._left_out_by)} leaves out the column {RECORD!r}, and {why}: keep this column, or "
                "let rows fail before they are combined"
            )
        self._last, self._left_out_by = found, None
        return found


def apply_steps(steps: Sequence[Step], rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """All steps, for tests: failed rows are at the end with what columns they had."""
    applied = run_steps(steps, rows, tables, lambda computed: computed, keep=None)
    result = applied.rows
    for failed in applied.set_aside:
        result = result.unionByName(failed, allowMissingColumns=True)
    return result


def run_steps(
    steps: Sequence[Step],
    rows: DataFrame,
    tables: Mapping[str, DataFrame],
    materialize: Materialize,
    *,
    keep: Sequence[str] | None = (RECORD, ERROR),
    on_failed: Callable[[DataFrame, str], DataFrame] | None = None,
    guard: Guard = Guard(),  # noqa: B008 - frozen
    counts_rules: bool = False,
) -> Applied:
    """All steps. Before a function that does not know of failed rows, they are set aside with the columns `keep`.

    With `on_failed` they are dealt with after the step that failed them, and nothing is set aside. With `counts_rules`,
    Spark counts what the expectations find.
    """
    applied = Applied(rows)
    for step in steps:
        if ERROR in applied.rows.columns and not _passes_failed(step):
            _set_aside(applied, materialize, keep)
            applied.record.follow(step, applied.rows)
        if is_fallible(step):
            applied.rows = applied.record.in_rows(applied.rows, step)
        with guarded_by(guard), counting(counts_rules), setting_late_aside(applied.set_aside.append):
            applied.rows = _call(step, applied.rows, tables)
        applied.record.follow(step, applied.rows)
        if ERROR in applied.rows.columns:
            applied.rows = applied.record.in_rows(applied.rows, step)
        if on_failed is not None and ERROR in applied.rows.columns:
            applied.rows = on_failed(applied.rows, name_of(step))
    return applied


def _set_aside(applied: Applied, materialize: Materialize, keep: Sequence[str] | None) -> None:
    computed = materialize(applied.rows)
    failed = computed.where(F.col(ERROR).isNotNull())
    applied.set_aside.append(failed if keep is None else failed.select(*keep))
    applied.rows = computed.where(F.col(ERROR).isNull()).drop(ERROR)


def needs_setting_aside(steps: Sequence[Step]) -> bool:
    """Whether a function of DataFrames comes after a step that can fail, as far as the steps show."""
    seen = False
    for step in steps:
        if seen and not _passes_failed(step):
            return True
        seen = seen or is_fallible(step)
    return False


def _passes_failed(step: Step) -> bool:
    return isinstance(step, OWN_STEPS)


def _call(step: Step, rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    try:
        if _passes_failed(step):
            return apply_own(step, rows)
        result = step(rows, **{name: tables[name] for name in tables_wanted(step) or () if name in tables})
    except Exception as error:
        # The error is raised unchanged, for tests that expect it; `failures` extracts its message for users.
        error.add_note(f"step {name_of(step)}")
        raise
    if not isinstance(result, DataFrame):
        raise PipelineError(f"step {name_of(step)} returned {type(result).__name__}, not a DataFrame")
    return result
