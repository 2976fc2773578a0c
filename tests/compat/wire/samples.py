"""One made-up object of every message and version, always the same, and its form in Kafka's JSON.

The golden bytes were made from these objects by Kafka's own serializer (`make_golden.py`); when anything changes here,
they have to be made again.
"""

import pkgutil
from base64 import b64encode
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import Any

import tidelog.wire.messages
from tidelog.wire.fields import Declared
from tidelog.wire.primitives import uuid_to_text
from tidelog.wire.schema import Field, Message, Struct

_LIMITS = {"int8": 1 << 7, "int16": 1 << 15, "uint16": 1 << 16, "int32": 1 << 31, "int64": 1 << 63}
_JSON_NAMES = {"is_kraft_controller": "isKRaftController"}


def all_messages() -> Iterator[type[Message]]:
    """Every request and response, by API and name."""
    found: list[type[Message]] = []
    for module_info in pkgutil.iter_modules(tidelog.wire.messages.__path__):
        module = import_module(f"tidelog.wire.messages.{module_info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found.append(value)
    yield from sorted(found, key=lambda cls: (cls.api_key, cls.__name__))


def all_versions() -> Iterator[tuple[type[Message], int]]:
    for cls in all_messages():
        first, last = cls.versions
        for version in range(first, last + 1):
            yield cls, version


def filled(cls: type[Message], version: int) -> Message:
    """An object without nulls, in which no two values of a kind are alike and no array is empty."""
    return _struct(cls, version, count(1))


def sparse(cls: type[Message], version: int) -> Message:
    """An object with a null wherever one may be, empty arrays, and defaults elsewhere."""
    return _nulls(cls, version)


def _struct(cls: type[Declared], version: int, numbers: "count[int]") -> Any:
    values = {}
    for name, field in cls.fields.items():
        if field.is_in(version) and not field.is_own:
            values[name] = _value(field.kind, field.element, version, numbers)
    return cls(**values)


def _value(kind: str, element: str | type[Declared], version: int, numbers: "count[int]") -> Any:
    if kind == "array":
        if isinstance(element, type):
            return [_struct(element, version, numbers)]
        return [_value(element, "", version, numbers) for _ in range(2)]
    if isinstance(element, type):
        return _struct(element, version, numbers)
    number = next(numbers)
    if kind in _LIMITS:
        # Large numbers tell widths and signs apart; small ones would leave most bytes at zero.
        limit = _LIMITS[kind]
        return number * 0x0123456789ABCDEF % limit
    if kind == "string":
        return f"text {number} ✓"
    if kind == "uuid":
        return bytes(range(number % 200, number % 200 + 16))
    return {"boolean": True, "float64": number + 0.25}.get(kind, bytes([number % 256] * 3))


def _nulls(cls: type[Declared], version: int) -> Any:
    values: dict[str, Any] = {}
    for name, field in cls.fields.items():
        if field.is_in(version) and field.null_since <= version:
            values[name] = None
        elif field.is_in(version) and field.default is None and field.kind != "struct":
            # The default is null, but older versions have no null.
            values[name] = {"string": "", "blob": b"", "array": []}[field.kind]
    return cls(**values)


_OFFSETS_OF_39 = 4
"""The newest TxnOffsetCommit whose golden bytes Kafka 3.9 has written."""


def to_json(value: Struct, version: int) -> dict[str, Any]:
    """The object as Kafka's JSON converters read it, with the fields that the version has."""
    found = {}
    for name, field in type(value).fields.items():
        if field.is_in(version) and not field.is_own:
            first, *rest = name.split("_")
            json_name = _JSON_NAMES.get(name, first + "".join(part.capitalize() for part in rest))
            if version <= _OFFSETS_OF_39 and type(value).__name__ == "TxnOffsetCommitRequest":
                json_name = json_name.removesuffix("OrMemberEpoch")  # 4.4, which writes the others, renamed it
            found[json_name] = _json_value(getattr(value, name), field, version)
    return found


def _json_value(value: Any, field: Field, version: int) -> Any:
    if isinstance(value, list):
        kind = "struct" if isinstance(field.element, type) else field.element
        return [_json_item(item, kind, version) for item in value]
    return _json_item(value, field.kind, version)


def _json_item(value: Any, kind: str, version: int) -> Any:
    if isinstance(value, Struct):
        return to_json(value, version)
    if kind == "uuid":
        return uuid_to_text(value)
    return b64encode(value).decode() if isinstance(value, bytes) else value
