"""Renders any declared request in any version, field by field, with some fields replaced.

The declarations of `tidelog.wire.messages` say which fields there are; the bytes are made here, because the codec of
the product refuses to write what a hostile client writes: counts without elements, strings beyond 32,767 bytes, a
million tagged fields. Every field has a value that means something (`_VALUES`), so that a request is understood and
worked on, and is not refused for its first field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from benchmarks import frames
from tidelog.wire.fields import Declared
from tidelog.wire.frames import flexible_from
from tidelog.wire.schema import Field, Message

Path = tuple[str, ...]
"""The names of the fields that lead to a field."""

MARK_TEXT: Final = "@@@@@@@@"
MARK_NUMBER: Final = 0x40404040
"""Stand for the part of an element that differs from its neighbours', see `distinct`."""

CLIENT_ID: Final = "hostile"

_FORMATS: Final = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}

_VALUES: Final[Mapping[str, Any]] = {
    "acks": 1,
    "api_keys": 0,
    "client_software_name": "hostile",
    "client_software_version": "1",
    "committed": True,
    "config_operation": 0,
    "configuration_keys": "retention.ms",
    "coordinator_keys": "group",
    "count": 1,
    "current_leader_epoch": -1,
    "endpoint_type": 1,
    "fetch_offset": 0,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "group_id": "group",
    "group_instance_id": None,
    "groups": "group",
    "groups_names": "group",
    "isolation_level": 0,
    "key": "group",
    "leader_epoch": 0,
    "max_bytes": 1 << 20,
    "max_num_offsets": 1,
    "max_wait_ms": 1,
    "member_epoch": -1,
    "member_id": "",
    "num_partitions": 0,
    "partition_max_bytes": 1 << 20,
    "producer_epoch": -1,
    "producer_id": -1,
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 1000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 2000,
    "retention_time_ms": -1,
    "server_assignor": None,
    "session_epoch": -1,
    "session_timeout_ms": 6000,
    "states_filter": "Stable",
    "subscribed_topic_regex": None,
    "timeout_ms": 1000,
    "timestamp": -1,
    "transaction_timeout_ms": 1000,
    "transactional_id": None,
    "transactional_ids": "transaction",
    "types_filter": "classic",
    "validate_only": True,
    "value": "1000000000",
}
"""By the name of a field, whatever message it is in. Texts that are not here are the topic's name."""

_OF_MESSAGES: Final[Mapping[tuple[str, str], Any]] = {
    ("AlterableConfig", "name"): "retention.ms",
    ("AlterConfigsResource", "resource_name"): None,
    ("CreatableTopicConfig", "name"): "retention.ms",
    ("DeleteTopicsRequest", "topic_names"): "missing",
    ("DeleteTopicState", "name"): "missing",
    ("InitProducerIdRequest", "transactional_id"): "transaction",
    ("JoinGroupRequestProtocol", "name"): "range",
    ("TxnOffsetCommitRequest", "transactional_id"): "transaction",
}


class Target(NamedTuple):
    """What plausible requests are about: a topic that exists, on a broker that exists."""

    topic: str
    topic_id: bytes


Special = Callable[["Renderer", type[Declared], str, Field], bytes]
"""Makes the bytes of the field that is replaced."""


class Renderer:
    """Writes one version of one request."""

    def __init__(self, request: type[Message], version: int, target: Target) -> None:
        self.request = request
        self.version = version
        self.target = target
        self.is_flexible = version >= flexible_from(request.api_key)
        self.records = frames.batch([b"value"])

    def frame(
        self,
        special: Mapping[Path, Special] | None = None,
        *,
        client_id: str = CLIENT_ID,
        header_tags: bytes = b"\x00",
        body_tags: bytes = b"\x00",
    ) -> bytes:
        """The whole frame, with the fields at some paths replaced."""
        body = self.struct(self.request, (), special or {}, body_tags)
        name = client_id.encode()
        header = struct.pack(">hhih", self.request.api_key, self.version, 1, len(name)) + name
        if self.is_flexible:
            header += header_tags
        return struct.pack(">i", len(header) + len(body)) + header + body

    def struct(self, cls: type[Declared], path: Path, special: Mapping[Path, Special], tags: bytes = b"\x00") -> bytes:
        """One struct, closed by `tags` in flexible versions."""
        parts = []
        for name, field in cls.fields.items():
            if not field.is_in(self.version) or field.tag is not None:
                continue
            here = (*path, name)
            replace = special.get(here)
            parts.append(replace(self, cls, name, field) if replace else self.field(cls, name, field, here, special))
        if self.is_flexible:
            parts.append(tags)
        return b"".join(parts)

    def field(self, cls: type[Declared], name: str, field: Field, path: Path, special: Mapping[Path, Special]) -> bytes:
        if field.kind == "array":
            element = field.element
            if isinstance(element, type):
                return self.count(1) + self.struct(element, path, special)
            return self.count(1) + self.plain(element, self.value(cls, name, element))
        if isinstance(field.element, type):
            # The only struct that may be null is a cursor, and no cursor asks for everything.
            return b"\xff" if field.null_since <= self.version else self.struct(field.element, path, special)
        return self.plain(field.kind, self.value(cls, name, field.kind, field))

    def value(self, cls: type[Declared], name: str, kind: str, field: Field | None = None) -> Any:
        value = _OF_MESSAGES.get((cls.__name__, name), _VALUES.get(name, self))
        if isinstance(value, str) != (kind == "string") and value is not None:
            value = self  # another message has a field of this name and of another kind
        may_be_null = field is not None and field.null_since <= self.version
        if value is not self and (value is not None or may_be_null):
            return value
        return {"string": self.target.topic, "blob": b"", "record_batches": self.records}.get(kind, 0)

    def plain(self, kind: str, value: Any) -> bytes:
        """A value that is no struct and no array."""
        if kind in _FORMATS:
            return struct.pack(">" + _FORMATS[kind], value)
        if kind == "uuid":
            return self.target.topic_id if value == 0 else bytes(value)
        if value is None:
            return b"\x00" if self.is_flexible else (b"\xff\xff" if kind == "string" else b"\xff" * 4)
        raw = value.encode() if isinstance(value, str) else bytes(value)
        if self.is_flexible:
            return frames.uvarint(len(raw) + 1) + raw
        return struct.pack(">h" if kind == "string" else ">i", len(raw)) + raw

    def count(self, count: int) -> bytes:
        """The length field of an array."""
        return frames.uvarint(count + 1) if self.is_flexible else struct.pack(">i", count)

    def arrays(self) -> Iterator[tuple[Path, type[Declared], str, Field]]:
        """Every array of the version."""
        yield from self._fields(self.request, (), lambda field: field.kind == "array")

    def texts(self) -> Iterator[tuple[Path, type[Declared], str, Field]]:
        """Every string of the version, also those in arrays."""
        yield from self._fields(
            self.request, (), lambda field: field.kind == "string" or (field.kind, field.element) == ("array", "string")
        )

    def _fields(
        self, cls: type[Declared], path: Path, is_wanted: Callable[[Field], bool]
    ) -> Iterator[tuple[Path, type[Declared], str, Field]]:
        for name, field in cls.fields.items():
            if not field.is_in(self.version) or field.tag is not None:
                continue
            if is_wanted(field):
                yield (*path, name), cls, name, field
            if isinstance(field.element, type) and not (field.kind == "struct" and field.null_since <= self.version):
                yield from self._fields(field.element, (*path, name), is_wanted)


# --- what a field may be replaced by ---------------------------------------------------------------------------------


def repeated(size_bytes: int) -> Special:
    """One plausible element, as often as it fits."""

    def render(renderer: Renderer, cls: type[Declared], name: str, field: Field) -> bytes:
        element = _element(renderer, cls, name, field)
        count = max(1, size_bytes // len(element))
        return renderer.count(count) + element * count

    return render


def smallest(size_bytes: int) -> Special:
    """The smallest element: empty texts and arrays, zeros."""

    def render(renderer: Renderer, _cls: type[Declared], _name: str, field: Field) -> bytes:
        element = _smallest(renderer, field)
        count = max(1, size_bytes // len(element))
        return renderer.count(count) + element * count

    return render


def distinct(size_bytes: int) -> Special:
    """Elements of which no two are equal: by name where they have one, by number otherwise."""

    def render(renderer: Renderer, cls: type[Declared], name: str, field: Field) -> bytes:
        text = MARK_TEXT.encode()
        element = _element(renderer, cls, name, field, is_marked=True)
        if text in element:
            before, _, after = element.partition(text)
            count = max(1, size_bytes // len(element))
            return renderer.count(count) + b"".join(b"%s%08d%s" % (before, i, after) for i in range(count))
        before, mark, after = element.partition(struct.pack(">i", MARK_NUMBER))
        count = max(1, size_bytes // len(element)) if mark else 1
        pack = struct.Struct(">i").pack
        return renderer.count(count) + b"".join(before + pack(i) + after for i in range(count))

    return render


def claimed(count: int) -> Special:
    """A count, and nothing that is counted."""
    return lambda renderer, _cls, _name, _field: renderer.count(count)


def long_text(size_bytes: int) -> Special:
    """A text of this many bytes."""

    def render(renderer: Renderer, _cls: type[Declared], _name: str, field: Field) -> bytes:
        value = renderer.plain("string", "x" * size_bytes)
        return renderer.count(1) + value if field.kind == "array" else value

    return render


def tags(count: int, size_bytes: int = 0) -> bytes:
    """So many tagged fields, each of another number and so many bytes."""
    each = frames.uvarint(size_bytes) + bytes(size_bytes)
    return frames.uvarint(count) + b"".join(frames.uvarint(10_000 + tag) + each for tag in range(count))


def tagged_element(count: int) -> Special:
    """An array of one struct that ends in so many tagged fields."""

    def render(renderer: Renderer, _cls: type[Declared], _name: str, field: Field) -> bytes:
        assert isinstance(field.element, type), "only structs have tagged fields"
        return renderer.count(1) + renderer.struct(field.element, (), {}, tags(count))

    return render


def _element(renderer: Renderer, cls: type[Declared], name: str, field: Field, is_marked: bool = False) -> bytes:
    element = field.element
    if not isinstance(element, type):
        mark = MARK_TEXT if element == "string" else MARK_NUMBER
        is_marked = is_marked and element in ("string", "int32")
        return renderer.plain(element, mark if is_marked else renderer.value(cls, name, element))
    special: dict[Path, Special] = {}
    if is_marked:
        kinds = {name: each.kind for name, each in element.fields.items() if each.is_in(renderer.version)}
        chosen = next((n for kind in ("string", "int32") for n, k in kinds.items() if k == kind), None)
        if chosen is not None:
            mark = MARK_TEXT if kinds[chosen] == "string" else MARK_NUMBER
            special[(chosen,)] = lambda renderer, _cls, _name, each: renderer.plain(each.kind, mark)
    return renderer.struct(element, (), special)


def _smallest(renderer: Renderer, field: Field) -> bytes:
    element = field.element
    if not isinstance(element, type):
        return renderer.plain(element, "" if element == "string" else b"" if element == "blob" else 0)
    special: dict[Path, Special] = {}
    for name, each in element.fields.items():
        if each.kind == "array":
            special[(name,)] = claimed(0)
        elif each.kind in ("string", "blob", "record_batches"):
            special[(name,)] = lambda renderer, _cls, _name, each: renderer.plain(each.kind, b"")
    return renderer.struct(element, (), special)
