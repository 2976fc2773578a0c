"""Whether a schema may follow others. Avro is compared by the rules of schema resolution.

JSON Schema and Protobuf are not compared: only a schema that is equal may follow, unless the compatibility is NONE. A
registry for tests that let every change through would hide the refusal that production has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from avro.schema import Schema as AvroSchema

LEVELS: Final = (
    *("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"),
)


class SchemaError(ValueError):
    """A text that is no schema of its type."""


class Incomparable(Exception):  # noqa: N818 -- a case, not a failure
    """Two schemas of a type that is not compared."""


class _Typed(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...


TypedT = TypeVar("TypedT", bound=_Typed)


def canonical(kind: str, text: str, used: Mapping[str, str]) -> str:
    """The text by which a schema is compared and kept. Raises SchemaError for a text that is none."""
    if kind == "AVRO":
        _parse_avro(text, used)
        return json.dumps(_json_of(text), separators=(",", ":"))
    if kind == "JSON" and not isinstance(_json_of(text), dict | bool):
        raise SchemaError(f"{text[:100]!r} is not an object")
    return text


def compared_versions(earlier: Sequence[TypedT], level: str) -> Sequence[TypedT]:
    """Those of the earlier versions that a level compares with: none, the last, or all."""
    if level == "NONE":
        return ()
    return earlier if level.endswith("_TRANSITIVE") else earlier[-1:]


def problems(
    new: _Typed, old: _Typed, level: str, new_used: Mapping[str, str], old_used: Mapping[str, str]
) -> list[str]:
    """Why `new` may not follow `old` at a level; nothing if it may. Raises Incomparable."""
    if new.kind != old.kind:
        return [f"a schema of type {new.kind} cannot follow one of type {old.kind}"]
    if new.text == old.text:
        return []
    if new.kind != "AVRO":
        raise Incomparable(f"schemas of type {new.kind} are not compared in tests, and this one differs from the last")
    ours, theirs = _parse_avro(new.text, new_used), _parse_avro(old.text, old_used)
    found = []
    if level.startswith(("BACKWARD", "FULL")):
        found += _unreadable(reader=ours, writer=theirs)
    if level.startswith(("FORWARD", "FULL")):
        found += _unreadable(reader=theirs, writer=ours)
    return found


def _unreadable(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(result.messages) or ["the schemas cannot be resolved"]


def _parse_avro(text: str, used: Mapping[str, str]) -> AvroSchema:
    from avro.errors import AvroException
    from avro.name import Names
    from avro.schema import make_avsc_object

    names = Names()
    try:
        for each in used.values():
            make_avsc_object(_json_of(each), names)
        return make_avsc_object(_json_of(text), names)
    except AvroException as error:
        raise SchemaError(str(error)) from error


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"{text[:100]!r} is not JSON: {error}") from error
