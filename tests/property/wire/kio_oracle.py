"""Our messages as kio's: kio is another implementation of the protocol, generated from Kafka's own definitions.

kio has one class per message and version, and types of its own: timedeltas and datetimes instead of milliseconds, an
enum for error codes, UUID objects with None for the zero uuid, tuples instead of lists.
"""

import datetime as dt
import types
import typing
import uuid
from dataclasses import Field as KioField
from dataclasses import fields as kio_fields
from dataclasses import is_dataclass
from typing import Any

from hypothesis import strategies as st
from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.constants import EntityType

from tests.property.wire.values import Restrict
from tidelog.wire.fields import Declared
from tidelog.wire.primitives import NO_UUID
from tidelog.wire.schema import Message, Struct

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)

_RESTRICTED: dict[str, st.SearchStrategy[Any]] = {
    "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    # Beyond these, kio's conversion by way of floating point is no longer exact to the millisecond.
    "timedelta_i64": st.integers(-(1 << 40), 1 << 40),
    "datetime_i64": st.integers(0, 1 << 40),
}


def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for this version, or None if kio no longer has it."""
    entity: Any = EntityType.request if cls.__name__.endswith("Request") else EntityType.response
    try:
        return getattr(load_payload_module(cls.api_key, version, entity), cls.__name__)
    except (UnknownAPIKey, UnknownEntity):
        return None


def pair_fields(cls: type[Declared], kio_cls: Any, version: int) -> list[tuple[str, KioField[Any]]]:
    """Kafka's fields of this version, as ours and kio's, which must have the same names in the same order."""
    ours = [name for name, field in cls.fields.items() if field.is_in(version) and not field.is_own]
    theirs = kio_fields(kio_cls)
    # kio drops the unit of what it turns into a timedelta.
    expected = [
        f"{field.name}_ms" if field.metadata.get("kafka_type", "").startswith("timedelta") else field.name
        for field in theirs
    ]
    assert [_plain(name) for name in ours] == [_plain(name) for name in expected], f"{cls.__name__} v{version}"
    return list(zip(ours, theirs, strict=True))


def _plain(name: str) -> str:
    # A name that Python uses has an underscore after it in kio. Kafka 4.4 calls a field legacy whose place another one
    # takes in the next version, and TxnOffsetCommit's generation id a member epoch, too.
    return name.removesuffix("_ms").removesuffix("_legacy").removesuffix("_").removesuffix("_or_member_epoch")


def restrictions(cls: type[Message], kio_cls: Any, version: int) -> Restrict:
    """Which fields kio cannot give any value to, and those that it does not have."""
    found: dict[tuple[type[Declared], str], st.SearchStrategy[Any]] = {}

    def walk(struct: type[Declared], kio_struct: Any) -> None:
        for name, field in struct.fields.items():
            if field.is_own:
                found[struct, name] = st.just(field.default)
        for name, kio_field in pair_fields(struct, kio_struct, version):
            kafka_type = kio_field.metadata.get("kafka_type", "")
            if kafka_type in _RESTRICTED:
                found[struct, name] = _RESTRICTED[kafka_type]
            elif kafka_type == "records" and type(None) not in typing.get_args(kio_field.type):
                # Kafka's ShareFetch may answer null, kio's may not.
                found[struct, name] = st.binary(max_size=6)
            nested = struct.fields[name].element
            if isinstance(nested, type):
                walk(nested, _dataclass_in(kio_field.type))

    walk(cls, kio_cls)
    return lambda struct, name: found.get((struct, name))


def to_kio(value: Struct, kio_cls: Any, version: int) -> Any:
    """The same object as an instance of kio's class."""
    return kio_cls(
        **{
            kio_field.name: _convert(getattr(value, name), kio_field, version)
            for name, kio_field in pair_fields(type(value), kio_cls, version)
        }
    )


def _convert(value: Any, kio_field: KioField[Any], version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_convert(item, kio_field, version) for item in value)
    if isinstance(value, Struct):
        return to_kio(value, _dataclass_in(kio_field.type), version)
    match kio_field.metadata["kafka_type"]:
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(milliseconds=value)
        case "datetime_i64":
            return _EPOCH + dt.timedelta(milliseconds=value)
        case "uuid":
            return None if value == NO_UUID else uuid.UUID(bytes=value)
    return value


def _dataclass_in(annotation: Any) -> Any:
    """The struct in `X`, `X | None` or `tuple[X, ...]`."""
    if is_dataclass(annotation):
        return annotation
    assert isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is tuple
    return next(
        found
        for part in typing.get_args(annotation)
        if part not in (Ellipsis, types.NoneType)
        if (found := _dataclass_in(part))
    )
