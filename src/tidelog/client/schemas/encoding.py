"""JSON values as bytes of any registry schema, without classes: Avro, Protobuf, JSON Schema. `decoding` turned round.

`AnySerializer` writes what JSON can say of a value, in the words in which `decoding` shows it: dates and decimals as
text, bytes of Avro in hexadecimal. What the schema does not know is refused and not left out. `example` is a value to
begin with: every field, empty or with its default. Calls block. For programs whose values are typed by people.
"""

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from tidelog.client.errors import ClientError
from tidelog.client.schemas.decoding import file_of
from tidelog.client.schemas.framing import encode_message_indexes, frame_header
from tidelog.client.schemas.registry import Schema, SchemaRegistry

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_DEPTH_MAX: Final = 6
"""How deep an example goes: schemas may contain themselves."""


class EncodingError(ValueError):
    """A value that the schema forbids, or a schema that cannot be used here."""


class AnySerializer:
    """Writes JSON values with schemas of one registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def encode(self, schema_id: int, schema: Schema, value: object, message: str | None = None) -> bytes:
        """The framed bytes of a value. `message` names a Protobuf message that is not the first of its file.

        Raises EncodingError, also without the schema's extra.
        """
        try:
            return frame_header(schema_id) + self._payload(schema_id, schema, value, message)
        except EncodingError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, ClientError, ModuleNotFoundError) as error:
            raise EncodingError(str(error) or type(error).__name__) from error

    def example(self, schema_id: int, schema: Schema, message: str | None = None) -> object:
        """A value of the schema to begin with. Raises EncodingError."""
        try:
            if schema.type == "AVRO":
                from tidelog.client.schemas.avro import parse_avro_schema

                return _AvroShape(parse_avro_schema(self._registry, schema)).example()
            if schema.type == "PROTOBUF":
                return _message_example(self._message(schema_id, schema, message)[1].DESCRIPTOR)
            return _json_example(json.loads(schema.text), 0)
        except EncodingError:
            raise
        except (ValueError, TypeError, LookupError, ClientError, ModuleNotFoundError) as error:
            raise EncodingError(str(error) or type(error).__name__) from error

    def _payload(self, schema_id: int, schema: Schema, value: object, message: str | None) -> bytes:
        if schema.type == "AVRO":
            return self._avro(schema, value)
        if schema.type == "PROTOBUF":
            return self._protobuf(schema_id, schema, value, message)
        from tidelog.client.schemas.json_schema import checker

        checker(self._registry, schema)(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def _avro(self, schema: Schema, value: object) -> bytes:
        from io import BytesIO

        from fastavro import schemaless_writer

        from tidelog.client.schemas.avro import parse_avro_schema

        parsed = parse_avro_schema(self._registry, schema)
        made = _AvroShape(parsed).value(value)
        if isinstance(made, bytes) and (parsed == "bytes" or parsed.get("type") == "bytes"):
            # As Confluent's serializers have it: plain bytes stand without Avro's length before them.
            return made
        out = BytesIO()
        schemaless_writer(out, parsed, made)
        return out.getvalue()

    def _protobuf(self, schema_id: int, schema: Schema, value: object, message: str | None) -> bytes:
        from google.protobuf.json_format import ParseDict, ParseError

        indexes, made = self._message(schema_id, schema, message)
        if not isinstance(value, dict):
            raise EncodingError(f"a Protobuf message is a JSON object, not {json.dumps(value)[:50]}")
        try:
            ParseDict(value, made)
        except ParseError as error:
            raise EncodingError(str(error)) from error
        payload: bytes = made.SerializeToString()
        return encode_message_indexes(indexes) + payload

    def _message(self, schema_id: int, schema: Schema, name: str | None) -> tuple[tuple[int, ...], Any]:
        """The path to a message, and an empty message."""
        from google.protobuf.message_factory import GetMessageClass

        from tidelog.client.schemas.protobuf import message_indexes

        file = file_of(self._registry, schema_id, schema)
        if file is None:
            raise EncodingError("the registry has this Protobuf schema only as text, and makes no descriptor of it")
        messages = {each.full_name: each for each in _messages(file.message_types_by_name.values())}
        if not messages:
            raise EncodingError("the schema has no message")
        chosen = next(iter(messages.values())) if not name else messages.get(name)
        if chosen is None:
            raise EncodingError(f"message {name!r} is not in the schema, which has {', '.join(messages)}")
        return message_indexes(chosen), GetMessageClass(chosen)()


def _messages(found: Any) -> Any:
    """The messages of a file, and those inside them, the outer ones first."""
    for each in found:
        yield each
        yield from _messages(each.nested_types)


# --- Avro ---

_BYTES: Final = frozenset({"bytes", "fixed"})
_LOGICAL: Final[Mapping[str, Callable[[str], Any]]] = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
}
_EMPTY: Final[Mapping[str, Any]] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": "",
    "array": [],
    "map": {},
    "date": "2026-01-31",
    "time-millis": "12:00:00",
    "time-micros": "12:00:00",
    "timestamp-millis": "2026-01-31 12:00:00+00:00",
    "timestamp-micros": "2026-01-31 12:00:00+00:00",
    "local-timestamp-millis": "2026-01-31 12:00:00",
    "local-timestamp-micros": "2026-01-31 12:00:00",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


class _AvroShape:
    """A parsed Avro schema, and what JSON values become by it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}

    def value(self, given: Any) -> Any:
        """The value as fastavro takes it."""
        return self._value(self._schema, given, "the value")

    def example(self) -> Any:
        """A value with every field."""
        return self._example(self._schema, 0)

    def _resolved(self, schema: Any) -> Any:
        found = self._named.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(found, dict) and found.get("type") in _NAMED:
            self._named.setdefault(found["name"], found)
        return found

    def _value(self, schema: Any, given: Any, where: str) -> Any:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._branch(schema, given, where)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._value(kind, given, where)
        if kind in ("record", "error"):
            return self._record(schema, given, where)
        if kind == "array" and isinstance(given, list):
            return [self._value(schema["items"], each, f"{where}[{number}]") for number, each in enumerate(given)]
        if kind == "map" and isinstance(given, dict):
            return {name: self._value(schema["values"], each, f"{where}.{name}") for name, each in given.items()}
        read = _LOGICAL.get(schema.get("logicalType", "")) if isinstance(schema, dict) else None
        read = read or (bytes.fromhex if kind in _BYTES else None)
        if read is not None and isinstance(given, str):
            try:
                return read(given)
            except (ValueError, ArithmeticError):
                raise EncodingError(f"{where} is {given!r}, which is no {_name_of(schema)}") from None
        return self._checked(schema, given, where)

    def _checked(self, schema: Any, given: Any, where: str) -> Any:
        from fastavro.validation import validate

        if not validate(given, schema, raise_errors=False):
            raise EncodingError(f"{where} is {json.dumps(given)[:50]}, which is no {_name_of(schema)}")
        return given

    def _record(self, schema: Any, given: Any, where: str) -> Any:
        if not isinstance(given, dict):
            raise EncodingError(f"{where} is {json.dumps(given)[:50]}, which is no record {schema['name']}")
        fields = {each["name"]: each for each in schema["fields"]}
        unknown = [name for name in given if name not in fields]
        if unknown:
            raise EncodingError(f"{where} has {unknown[0]!r}, which {schema['name']} has not: {', '.join(fields)}")
        missing = [name for name, each in fields.items() if name not in given and "default" not in each]
        if missing:
            raise EncodingError(f"{where} lacks {', '.join(missing)}")
        return {name: self._value(fields[name]["type"], each, f"{where}.{name}") for name, each in given.items()}

    def _branch(self, schema: list[Any], given: Any, where: str) -> Any:
        """The value by the first part of a union that takes it."""
        problems = []
        for each in schema:
            try:
                return self._value(each, given, where)
            except EncodingError as error:
                problems.append(str(error))
        raise EncodingError(problems[-1] if len(problems) <= 2 and problems else f"{where} fits no part of the union")

    def _example(self, schema: Any, depth: int) -> Any:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._example(next((each for each in schema if each != "null"), "null"), depth) if schema else None
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._example(kind, depth)
        if kind in ("record", "error"):
            if depth >= _DEPTH_MAX:
                return {}
            return {each["name"]: self._field_example(each, depth + 1) for each in schema["fields"]}
        if kind == "enum":
            return schema["symbols"][0]
        if kind == "fixed":
            return "00" * schema["size"]
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if logical == "decimal":
            return format(0, f".{schema.get('scale', 0)}f")
        return _EMPTY.get(logical or kind, _EMPTY.get(kind))

    def _field_example(self, field: Any, depth: int) -> Any:
        return field["default"] if "default" in field else self._example(field["type"], depth)


def _name_of(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema["type"])
    return str(schema)


# --- JSON Schema and Protobuf ---

_JSON_EMPTY: Final[Mapping[str, Any]] = {
    "null": None,
    "boolean": False,
    "integer": 0,
    "number": 0,
    "string": "",
    "array": [],
    "object": {},
}


def _json_example(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict):
        return None
    for stated in ("default", "const"):
        if stated in schema:
            return schema[stated]
    for listed in ("examples", "enum"):
        if schema.get(listed):
            return schema[listed][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return (
            {} if depth >= _DEPTH_MAX else {name: _json_example(each, depth + 1) for name, each in properties.items()}
        )
    for combined in ("anyOf", "oneOf", "allOf"):
        if kind is None and schema.get(combined):
            return _json_example(schema[combined][0], depth)
    return _JSON_EMPTY.get(str(kind))


_WELL_KNOWN: Final[Mapping[str, Any]] = {
    "google.protobuf.Timestamp": "2026-01-31T12:00:00Z",
    "google.protobuf.Duration": "1s",
}


def _message_example(descriptor: Any, depth: int = 0) -> Any:
    """Every field empty, and the fields of the messages inside; of fields that exclude each other the first."""
    return {
        field.name: _message_field(field, depth)
        for field in descriptor.fields
        if field.containing_oneof is None or field.containing_oneof.fields[0] is field
    }


def _message_field(field: Any, depth: int) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return {}
    # `label` is what older versions of protobuf have.
    if field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:
        return []
    if inner is not None:
        if inner.full_name.startswith("google.protobuf.") or depth >= _DEPTH_MAX:
            return _WELL_KNOWN.get(inner.full_name)
        return _message_example(inner, depth + 1)
    if field.enum_type is not None:
        return field.enum_type.values[0].name
    return "" if field.cpp_type == field.CPPTYPE_STRING else field.default_value
