"""Values between serializers and Arrow: what Arrow takes, and what serializers take. Pure."""

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]


def into_arrow(kind: pa.DataType) -> Convert | None:
    """What makes a value of a serializer one of the Arrow type `kind`; None if it is one already."""
    if pa.types.is_struct(kind):
        fields = [(field.name, into_arrow(field.type)) for field in kind]
        return lambda value: None if value is None else _picked(value, fields)
    if pa.types.is_map(kind):
        inner = into_arrow(kind.item_type)
        return lambda value: None if value is None else [(key, _with(inner, each)) for key, each in value.items()]
    if pa.types.is_list(kind):
        inner = into_arrow(kind.value_type)
        return (
            None if inner is None else lambda value: None if value is None else [_with(inner, each) for each in value]
        )
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_integer(kind):
        unit_us = 1_000 if kind == pa.int32() else 1
        return lambda value: _microseconds(value) // unit_us if isinstance(value, time) else value
    return None


def from_arrow(kind: pa.DataType) -> Convert | None:
    """What makes a Python value of an Arrow array one that serializers take: maps become dicts."""
    if pa.types.is_struct(kind):
        fields = [(field.name, from_arrow(field.type)) for field in kind]
        return lambda value: None if value is None else _picked(value, fields)
    if pa.types.is_map(kind):
        inner = from_arrow(kind.item_type)
        return lambda value: None if value is None else {key: _with(inner, each) for key, each in value}
    if pa.types.is_list(kind):
        inner = from_arrow(kind.value_type)
        return (
            None if inner is None else lambda value: None if value is None else [_with(inner, each) for each in value]
        )
    return None


def json_value(value: Any, *, allow_nan: bool = False) -> Any:
    """A value as JSON has it: times as ISO 8601 text, bytes as base64. Raises ValueError for NaN and infinities."""
    if isinstance(value, dict):
        return {str(name): json_value(each, allow_nan=allow_nan) for name, each in value.items()}
    if isinstance(value, list):
        return [json_value(each, allow_nan=allow_nan) for each in value]
    if isinstance(value, float) and not math.isfinite(value) and not allow_nan:
        raise ValueError(f"{value} is not a number in JSON")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}s"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def without_nulls(value: Any, *, kept: frozenset[str]) -> Any:
    """`json_value` without properties that are null, except those named in `kept`: an optional property is left out."""
    made = json_value(value)
    if not isinstance(made, dict):
        return made
    return {name: _pruned(each) for name, each in made.items() if each is not None or name in kept}


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _pruned(each) for name, each in value.items() if each is not None}
    return [_pruned(each) for each in value] if isinstance(value, list) else value


def _with(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _picked(value: Any, fields: list[tuple[str, Convert | None]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object with the fields {', '.join(name for name, _ in fields)}")
    return {name: _with(convert, value.get(name)) for name, convert in fields}


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(json_value(value), default=str) if isinstance(value, dict | list | bool) else str(value)


def _microseconds(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
