"""Steps that can fail row by row, and steps for JSON. `Pipeline.steps` holds them beside plain functions of DataFrames.

A step here is plain data with a name. Applied to rows (`applying.own_steps`), it may set the column `_error`
(`struct<type, message, retry>`) on rows it cannot handle, and passes on rows that failed before it. `applying.steps`
has the functions that make steps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, final

from tidelog.spark.pipeline.definition.schema_steps import PackSchema, ParseSchema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame

ERROR: Final = "_error"
"""The error of a failed row: `struct<type: string, message: string, retry: boolean>`; null if it succeeded."""

RECORD: Final = "_record"
"""The column that holds the source record a row was made of, in pipelines that have a policy for failing rows."""


@final
class _Drop:
    def __repr__(self) -> str:
        return "DROP"

    def __reduce__(self) -> str:
        # Functions travel to executors with what they refer to, and there it must be the same object.
        return "DROP"


DROP: Final = _Drop()
"""What a row function returns to leave a row out on purpose."""


class RowFailed(Exception):  # noqa: N818 - reads as what it says
    """Raise it in a row function for a failure that needs no stack trace; `retry=False` makes it a dead letter now."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


@dataclass(frozen=True)
class RowStep:
    """A Python function of one row; its result becomes columns."""

    function: Callable[[dict[str, Any]], Any]
    schema: str
    columns: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return getattr(self.function, "__name__", "row step")


@dataclass(frozen=True)
class BatchStep:
    """A function of Arrow batches; a batch that fails is divided until the failing rows are found."""

    function: "Callable[[RecordBatch], RecordBatch]"
    schema: str
    columns: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return getattr(self.function, "__name__", "batch step")


@dataclass(frozen=True)
class FailWhen:
    """Rows for which a condition is true have failed."""

    condition: "str | Callable[[DataFrame], Column]"
    message: str
    retry: bool = True

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"fail_when({self.condition if isinstance(self.condition, str) else self.message!r})"


@dataclass(frozen=True)
class ParseJson:
    """The JSON object in a column, as columns; other values fail."""

    schema: str
    column: str = "value"

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"parse_json({self.column})"


@dataclass(frozen=True)
class PackJson:
    """Columns as a JSON object in `value`, one of them as `key`."""

    columns: tuple[str, ...] | None = None
    key: str | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return "pack_json"


@dataclass(frozen=True)
class ParseDebezium:
    """A change event in Debezium's envelope, as columns; other values fail."""

    schema: str | None = None
    key: str | None = None
    registry: str | None = None
    topic: str | None = None
    registry_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in messages."""
        return "parse_debezium"


OnUnmet = Literal["warn", "drop", "dead_letter", "fail"]
"""What becomes of a row that does not meet an expectation."""

ON_UNMET: Final[tuple[OnUnmet, ...]] = ("warn", "drop", "dead_letter", "fail")


@dataclass(frozen=True)
class Expect:
    """Rows are expected to meet a condition. Those that do not are counted, by `rule`.

    They go on (`warn`), are left out (`drop`), are dead letters at once (`dead_letter`) or stop the pipeline (`fail`).
    """

    condition: str
    rule: str
    on_failure: OnUnmet = "warn"
    fail_above: float | None = None
    """The share of the rows of a batch that may fail; a batch with more is not written, and the pipeline stops."""

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"expect({self.rule!r})"


def expectations_of(steps: Iterable[object]) -> tuple[Expect, ...]:
    """The expectations among the steps of a pipeline."""
    return tuple(step for step in steps if isinstance(step, Expect))


def has_limits(steps: Iterable[object]) -> bool:
    """Whether an expectation among the steps decides about each batch, before it is written."""
    return any(each.fail_above is not None for each in expectations_of(steps))


FALLIBLE_STEPS: Final = (RowStep, BatchStep, FailWhen, ParseJson, ParseDebezium, ParseSchema, PackSchema)
"""Steps that can set the column `_error`."""

OWN_STEPS: Final = (*FALLIBLE_STEPS, Expect, PackJson)
"""Steps of this package: they pass on rows that have failed."""


def is_fallible(step: object) -> bool:
    """Whether a step can set the column `_error`. Functions of DataFrames may too, through `mark_failed`."""
    if isinstance(step, Expect):
        return step.on_failure == "dead_letter"
    return isinstance(step, FALLIBLE_STEPS)


def name_of(step: object) -> str:
    """The name of a step in messages."""
    if isinstance(step, OWN_STEPS):
        return step.name
    return str(getattr(step, "__name__", step))
