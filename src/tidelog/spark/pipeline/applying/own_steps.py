"""What each step of this package does to rows: a table. Imports Spark, so it is imported when a step is applied."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.pipeline.applying import debezium_steps, expectations, json_steps
from tidelog.spark.pipeline.definition.schema_steps import PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.steps import (
    BatchStep,
    Expect,
    FailWhen,
    PackJson,
    ParseDebezium,
    ParseJson,
    RowStep,
)
from tidelog.spark.pipeline.failing.guarded import mark_failed, run_batch_step, run_row_step
from tidelog.spark.pipeline.schemas import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _fail_when(step: FailWhen, rows: "DataFrame") -> "DataFrame":
    condition = step.condition if isinstance(step.condition, str) else step.condition(rows)
    return mark_failed(rows, condition, step.message, retry=step.retry)


_APPLY: Final[Mapping[type, Callable[[Any, "DataFrame"], "DataFrame"]]] = {
    RowStep: run_row_step,
    BatchStep: run_batch_step,
    FailWhen: _fail_when,
    Expect: lambda step, rows: expectations.apply(rows, step),
    ParseJson: lambda step, rows: json_steps.parse(rows, step.schema, step.column),
    PackJson: lambda step, rows: json_steps.pack(rows, step.columns, step.key),
    ParseDebezium: lambda step, rows: debezium_steps.parse(rows, step),
    ParseSchema: lambda step, rows: columns.parse(rows, step),
    PackSchema: lambda step, rows: columns.pack(rows, step),
}


def apply_own(step: object, rows: "DataFrame") -> "DataFrame":
    """`step` over `rows`."""
    apply = next(_APPLY[kind] for kind in type(step).__mro__ if kind in _APPLY)
    return apply(step, rows)
