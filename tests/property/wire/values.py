"""Hypothesis strategies for messages, derived from their declarations."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.wire.fields import Declared
from tidelog.wire.schema import Field, Message

QUICK = settings(
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=examples(6),
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
"""Few examples, since there are hundreds of messages and versions, and the same ones in every run."""

Restrict = Callable[[type[Declared], str], st.SearchStrategy[Any] | None]
"""Given a struct and a field, the values that it may have, or None for all."""


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


# A few lengths beyond 127 and 511 reach the longer forms of varints.
_TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["x" * 127, "é" * 64, "long " * 200])
_BYTES = st.binary(max_size=6) | st.sampled_from([b"\0" * 128, b"data" * 150])

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, 0xFFFF),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": _TEXT,
    "blob": _BYTES,
    "record_batches": _BYTES,
}


def _anything(_cls: type[Declared], _name: str) -> None:
    return None


def objects(cls: type[Message], version: int, restrict: Restrict = _anything) -> st.SearchStrategy[Any]:
    """Objects of a message whose fields of this version have any value, and all other fields their defaults."""
    return _structs(cls, version, restrict)


def _structs(cls: type[Declared], version: int, restrict: Restrict) -> st.SearchStrategy[Any]:
    values = {
        name: _field(cls, name, field, version, restrict) for name, field in cls.fields.items() if field.is_in(version)
    }
    return st.builds(cls, **values)


def _field(cls: type[Declared], name: str, field: Field, version: int, restrict: Restrict) -> st.SearchStrategy[Any]:
    chosen = restrict(cls, name)
    if field.kind == "array":
        values = _array(field, version, restrict, chosen)
    elif isinstance(field.element, type):
        values = _structs(field.element, version, restrict)
    elif chosen is not None:
        return chosen
    else:
        values = PLAIN[field.kind]
    return st.none() | values if field.null_since <= version else values


def _array(
    field: Field, version: int, restrict: Restrict, chosen: st.SearchStrategy[Any] | None
) -> st.SearchStrategy[Any]:
    if isinstance(field.element, type):
        return st.lists(_structs(field.element, version, restrict), max_size=2)
    elements = PLAIN[field.element] if chosen is None else chosen
    if field.element in ("string", "blob", "uuid"):
        return st.lists(elements, max_size=2)
    # Numbers are read and written in bulk, differently from nine on.
    return st.lists(elements, max_size=3) | st.lists(elements, min_size=8, max_size=10)
