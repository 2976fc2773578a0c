"""Reads JSON nodes, which any tool may have written. A malformed node raises an error that names its path."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tidelog.metadata.errors import MalformedNodeError

Value = TypeVar("Value", bound=bool | int | str | list[Any] | dict[str, Any])


def encode_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


class Document:
    """The JSON object in the node at `path`. A missing field or one of another type raises `MalformedNodeError`."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.malformed(f"not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise self.malformed(f"a JSON object is expected, not {data[:40]!r}")
        self.fields: dict[str, Any] = fields

    @classmethod
    def of(cls, path: str, fields: dict[str, Any]) -> "Document":
        """An object within the JSON of the node at `path`."""
        document = cls.__new__(cls)
        document.path = path
        document.fields = fields
        return document

    def malformed(self, problem: str) -> MalformedNodeError:
        return MalformedNodeError(self.path, f"malformed node: {problem}")

    def required(self, name: str, kind: type[Value]) -> Value:
        if name not in self.fields:
            raise self.malformed(f"{name} is missing")
        return self._typed(name, self.fields[name], kind)

    def optional(self, name: str, kind: type[Value], default: Value) -> Value:
        """The field, or `default` where it is missing or null."""
        value = self.fields.get(name)
        return default if value is None else self._typed(name, value, kind)

    def number(self, name: str) -> int:
        """A whole number written as text, as Kafka writes numbers that JavaScript could not hold."""
        return self.parse_number(name, self.required(name, str))

    def parse_number(self, name: str, text: str) -> int:
        # `int` alone would take " 1", "1_0" and digits of any script. 19 digits hold every 64-bit number.
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise self.malformed(f"{name} is {text!r}, not a number")
        return int(text)

    def integers(self, name: str, value: object) -> tuple[int, ...]:
        """`value`, found under `name`, as a list of whole numbers."""
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.malformed(f"{name} is {value!r}, not a list of whole numbers")
        return tuple(value)

    def _typed(self, name: str, value: object, kind: type[Value]) -> Value:
        # Compared, not isinstance: True is an int to Python but not to Kafka.
        if type(value) is not kind:
            raise self.malformed(f"{name} is {value!r}, not of type {kind.__name__}")
        return value
