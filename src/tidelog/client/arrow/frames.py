"""Frames of other libraries, to and from Arrow tables: pandas, Polars, and whatever offers Arrow's C stream."""

from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from tidelog.client.arrow_parts import ArrowMissing
from tidelog.client.errors import SerializationFailed

_TEXT_COLUMNS: Final = ("key", "value")


def as_table(given: Any) -> pa.Table:
    """A table of what `send_arrow` was given. Raises SerializationFailed for what is no table."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    package = type(given).__module__.partition(".")[0]
    if package == "pandas":
        # The index of a frame is no column: a record has no place for it.
        return pa.Table.from_pandas(given, preserve_index=False)
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    raise SerializationFailed(
        f"send_arrow takes an Arrow table, a pandas or Polars DataFrame or an object with __arrow_c_stream__, "
        f"not {type(given).__name__}"
    )


def as_it_is(table: pa.Table) -> pa.Table:
    """The table itself."""
    return table


def to_pandas(table: pa.Table, *, text: bool) -> Any:
    """A pandas DataFrame."""
    _demand("pandas")
    return (_with_text(table) if text else table).to_pandas()


def to_polars(table: pa.Table, *, text: bool) -> Any:
    """A Polars DataFrame, over the same memory."""
    return _demand("polars").from_arrow(_with_text(table) if text else table)


def _with_text(table: pa.Table) -> pa.Table:
    """Keys and values as text; raises ArrowInvalid for bytes that are no UTF-8."""
    for name in _TEXT_COLUMNS:
        if name in table.column_names:
            position = table.column_names.index(name)
            table = table.set_column(position, name, table.column(name).cast(pa.string()))
    return table


def _demand(library: str) -> Any:
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ArrowMissing(library, library) from error
