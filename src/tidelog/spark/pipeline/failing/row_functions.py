"""Runs user functions over Arrow batches so that a failing row fails alone. No Spark: executors call this.

A batch goes in with whatever columns it has; it comes out with the function's columns added or replaced and with
`_error` saying what went wrong in which row. Rows that had failed before are passed through untouched.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.retry.headers import MESSAGE_CHARACTERS_MAX
from tidelog.spark.pipeline.definition.steps import DROP, ERROR, RECORD

if TYPE_CHECKING:
    import pyarrow as pa

Error = dict[str, Any]
RowFunction = Callable[[dict[str, Any]], Any]
BatchFunction = Callable[["pa.RecordBatch"], "pa.RecordBatch"]

_WORTH_HALVING: Final = 1


def error_of(error: BaseException) -> Error:
    """An exception as a value of the column `_error`, whatever its text is made of."""
    name = type(error).__name__
    try:
        message = str(error) or name
    except Exception:
        message = f"{name}, whose text cannot be shown"
    # Text of broken input may hold lone surrogates, which no column of strings takes.
    message = message[:MESSAGE_CHARACTERS_MAX].encode("utf-8", "replace").decode()
    return {"type": name, "message": message, "retry": getattr(error, "retry", True) is not False}


def run_rows(
    batch: "pa.RecordBatch",
    function: RowFunction,
    columns: Sequence[str] | None,
    fields: "pa.Schema",
    out: "pa.Schema",
    *,
    fatal: tuple[type[Exception], ...] = (),
) -> "pa.RecordBatch":
    """`function` for each row of `batch`; `fields` are the columns it makes, `out` is the shape of the result.

    Errors of the types `fatal` are not a row's: they are raised.
    """
    errors = _errors_before(batch)
    inputs = batch.select(list(columns) if columns is not None else _visible(batch)).to_pylist()
    results: list[Any] = [None] * batch.num_rows
    kept = [True] * batch.num_rows
    for index, row in enumerate(inputs):
        if errors[index] is None:
            try:
                results[index] = _checked(function(row), fields)
            except fatal:
                raise
            except (Exception, SystemExit) as error:
                errors[index] = error_of(error)
            kept[index] = results[index] is not DROP
    made = {
        field.name: _column([row.get(field.name) if isinstance(row, dict) else None for row in results], field, errors)
        for field in fields
    }
    return _assemble(batch, made, errors, kept, out)


def run_batches(
    batch: "pa.RecordBatch",
    function: BatchFunction,
    columns: Sequence[str] | None,
    fields: "pa.Schema",
    out: "pa.Schema",
) -> "pa.RecordBatch":
    """`function` for the whole of `batch`, or, if it raises, for parts of it until the failing rows are found."""
    import pyarrow as pa

    errors = _errors_before(batch)
    alive = [index for index, error in enumerate(errors) if error is None]
    inputs = batch.select(list(columns) if columns is not None else _visible(batch))
    pieces: list[pa.RecordBatch] = []
    order: list[int] = []
    for indexes, result in _in_parts(inputs, alive, function, fields, errors):
        pieces.append(result)
        order.extend(indexes)
    position = {index: at for at, index in enumerate(order)}
    taken = pa.array([position.get(index) for index in range(batch.num_rows)], pa.int64())
    table = pa.Table.from_batches(pieces, fields)
    made = {field.name: table[field.name].combine_chunks().take(taken) for field in fields}
    return _assemble(batch, made, errors, [True] * batch.num_rows, out)


def _in_parts(
    inputs: "pa.RecordBatch",
    indexes: list[int],
    function: BatchFunction,
    fields: "pa.Schema",
    errors: list[Error | None],
) -> Iterator[tuple[list[int], "pa.RecordBatch"]]:
    waiting = [indexes] if indexes else []
    while waiting:
        part = waiting.pop()
        try:
            yield part, _checked_batch(function(inputs.take(part)), fields, len(part))
        except (Exception, SystemExit) as error:
            if len(part) == _WORTH_HALVING:
                errors[part[0]] = error_of(error)
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]


def _checked_batch(result: Any, fields: "pa.Schema", rows: int) -> "pa.RecordBatch":
    import pyarrow as pa

    if not isinstance(result, pa.RecordBatch | pa.Table):
        raise TypeError(f"the function returned {type(result).__name__}, not a pyarrow.RecordBatch")
    if result.num_rows != rows:
        raise ValueError(f"the function returned {result.num_rows} rows for {rows} rows")
    chosen = result.select(fields.names).cast(fields)
    return chosen if isinstance(chosen, pa.RecordBatch) else chosen.combine_chunks().to_batches()[0]


def _checked(result: Any, fields: "pa.Schema") -> Any:
    if result is DROP:
        return result
    if not isinstance(result, dict):
        raise TypeError(f"the function returned {type(result).__name__}, not a dict of columns or DROP")
    if result.keys() != set(fields.names):
        raise ValueError(f"the function returned the columns {sorted(result)}, not {sorted(fields.names)}")
    return result


def _errors_before(batch: "pa.RecordBatch") -> list[Error | None]:
    if ERROR in batch.schema.names:
        found: list[Error | None] = batch.column(ERROR).to_pylist()
        return found
    return [None] * batch.num_rows


def _visible(batch: "pa.RecordBatch") -> list[str]:
    return [name for name in batch.schema.names if name not in (RECORD, ERROR)]


def _column(values: list[Any], field: "pa.Field", errors: list[Error | None]) -> "pa.Array":
    """The values as Arrow; those that are not of the column's type fail their rows."""
    import pyarrow as pa

    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_fitting(index, value, field, errors) for index, value in enumerate(values)], field.type)


def _fitting(index: int, value: Any, field: "pa.Field", errors: list[Error | None]) -> Any:
    import pyarrow as pa

    try:
        pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if errors[index] is None:
            errors[index] = error_of(TypeError(f"column {field.name!r} is {field.type}, not {value!r}: {error}"))
        return None
    return value


def _assemble(
    batch: "pa.RecordBatch", made: dict[str, "pa.Array"], errors: list[Error | None], kept: list[bool], out: "pa.Schema"
) -> "pa.RecordBatch":
    import pyarrow as pa

    columns: list[pa.Array] = []
    for field in out:
        if field.name == ERROR:
            columns.append(pa.array(errors, field.type))
        else:
            columns.append(made[field.name] if field.name in made else batch.column(field.name))
    result = pa.RecordBatch.from_arrays(columns, schema=out)
    return result if all(kept) else result.filter(pa.array(kept))
