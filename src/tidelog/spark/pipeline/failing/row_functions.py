"""Runs user functions over Arrow batches so that a failing row fails alone. No Spark: executors call this.

A batch goes in with whatever columns it has; it comes out with the function's columns added or replaced and with
`_error` saying what went wrong in which row. Rows that had failed before are passed through untouched.

Text from Spark may be any bytes (a cast from binary does not check them), and a timestamp any year. A value that Python
cannot hold fails its row, as does everything that a function raises or returns: no row fails its batch.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.retry.headers import MESSAGE_CHARACTERS_MAX
from tidelog.spark.pipeline.definition.steps import DROP, ERROR, RECORD
from tidelog.spark.pipeline.failing.worker_guard import IDLE, SEVERAL, Note

if TYPE_CHECKING:
    import pyarrow as pa

Error = dict[str, Any]
RowFunction = Callable[[dict[str, Any]], Any]
BatchFunction = Callable[["pa.RecordBatch"], "pa.RecordBatch"]

_WORTH_HALVING: Final = 1


def error_of(error: BaseException) -> Error:
    """An exception as a value of the column `_error`, whatever its text is made of."""
    name = _sound(type(error).__name__)
    message = _text_of(error, str) or name
    return {"type": name, "message": _sound(message), "retry": getattr(error, "retry", True) is not False}


def _text_of(value: object, shown: Callable[[object], str]) -> str:
    try:
        return shown(value)
    except Exception:  # noqa: BLE001 - `__str__` of the application's
        return f"{type(value).__name__}, whose text cannot be shown"


def _sound(text: str) -> str:
    """Text of broken input may hold lone surrogates, which no column of strings takes."""
    return text[:MESSAGE_CHARACTERS_MAX].encode("utf-8", "replace").decode()


def run_rows(
    batch: "pa.RecordBatch",
    function: RowFunction,
    columns: Sequence[str] | None,
    fields: "pa.Schema",
    out: "pa.Schema",
    *,
    note: Note = lambda _: None,
    fatal: tuple[type[Exception], ...] = (),
) -> "pa.RecordBatch":
    """`function` for each row of `batch`; `fields` are the columns it makes, `out` is the shape of the result.

    Errors of the types `fatal` are not a row's: they are raised.
    """
    errors = _errors_before(batch)
    inputs = _rows_of(batch.select(list(columns) if columns is not None else _visible(batch)), errors)
    results: list[Any] = [None] * batch.num_rows
    kept = [True] * batch.num_rows
    for index, row in enumerate(inputs):
        if errors[index] is None:
            note(index)
            try:
                results[index] = _checked(function(row), fields)
            except fatal:
                raise
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - code of the application; the row fails
                errors[index] = error_of(error)
            kept[index] = results[index] is not DROP
    note(IDLE)
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
    *,
    note: Note = lambda _: None,
) -> "pa.RecordBatch":
    """`function` for the whole of `batch`, or, if it raises, for parts of it until the failing rows are found."""
    import pyarrow as pa

    errors = _errors_before(batch)
    alive = [index for index, error in enumerate(errors) if error is None]
    inputs = batch.select(list(columns) if columns is not None else _visible(batch))
    pieces: list[pa.RecordBatch] = []
    order: list[int] = []
    for indexes, result in _in_parts(inputs, alive, function, fields, errors, note):
        pieces.append(result)
        order.extend(indexes)
    note(IDLE)
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
    note: Note,
) -> Iterator[tuple[list[int], "pa.RecordBatch"]]:
    waiting = [indexes] if indexes else []
    while waiting:
        part = waiting.pop()
        note(part[0] if len(part) == 1 else SEVERAL)
        try:
            yield part, _checked_batch(function(inputs.take(part)), fields, len(part))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - code of the application; the rows fail
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
    return dict(result)


def _errors_before(batch: "pa.RecordBatch") -> list[Error | None]:
    """The errors of rows that failed before, whose texts may quote any bytes."""
    if ERROR not in batch.schema.names or batch.column(ERROR).null_count == batch.num_rows:
        return [None] * batch.num_rows
    import pyarrow as pa

    column = batch.column(ERROR)
    # The bits of the fields are not those of the struct, and a name is all that is sure of a field's type.
    texts = [column.field(name).cast(pa.binary()).to_pylist() for name in ("type", "message")]
    found = zip(column.is_null().to_pylist(), *texts, column.field("retry").to_pylist(), strict=True)
    return [
        None if is_null else {"type": _decoded(kind), "message": _decoded(message), "retry": retry}
        for is_null, kind, message, retry in found
    ]


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode("utf-8", "replace")


def _rows_of(inputs: "pa.RecordBatch", errors: list[Error | None]) -> list[dict[str, Any]]:
    """The rows as dicts. A row with a value that Python cannot hold fails."""
    try:
        rows: list[dict[str, Any]] = inputs.to_pylist()
        return rows
    except Exception:  # noqa: BLE001 - PyArrow raises many types; rows are read one by one
        return [_row_of(inputs.slice(index, 1), index, errors) for index in range(inputs.num_rows)]


def _row_of(row: "pa.RecordBatch", index: int, errors: list[Error | None]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            (values[name],) = column.to_pylist()
        except Exception as error:  # noqa: BLE001 - PyArrow raises many types; the row fails
            if errors[index] is None:
                failure = error_of(error)
                errors[index] = {**failure, "message": _sound(f"column {name!r} cannot be read: {failure['message']}")}
    return values


def _visible(batch: "pa.RecordBatch") -> list[str]:
    return [name for name in batch.schema.names if name not in (RECORD, ERROR)]


def _column(values: list[Any], field: "pa.Field", errors: list[Error | None]) -> "pa.Array":
    """The values as Arrow; those that are not of the column's type fail their rows."""
    import pyarrow as pa

    try:
        return pa.array(values, field.type)
    except Exception:  # noqa: BLE001 - PyArrow raises many types; values are tried one by one
        return pa.array([_fitting(index, value, field, errors) for index, value in enumerate(values)], field.type)


def _fitting(index: int, value: Any, field: "pa.Field", errors: list[Error | None]) -> Any:
    import pyarrow as pa

    try:
        pa.array([value], field.type)
    except Exception as error:  # noqa: BLE001 - PyArrow raises many types; the row fails
        if errors[index] is None:
            shown, why = _text_of(value, repr), _text_of(error, str)
            errors[index] = error_of(TypeError(f"column {field.name!r} is {field.type}, not {shown}: {why}"))
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
