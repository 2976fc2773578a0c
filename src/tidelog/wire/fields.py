"""The fields of a declaration: one specifier for each kind, and the classes that have fields.

`schema` says how messages are declared with them; the compilers of messages and of rows read them. Nothing here reads
or writes bytes.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from tidelog.wire.primitives import NO_UUID

LATEST: Final = 0x7FFF
"""Above every version: the `until` of fields that still exist, the `since` of a feature that is never used."""
OWN_TAGS: Final = 10_000
"""Tags from this one on are Tidelog's own fields in Kafka's messages. Kafka skips them, as all unknown tags."""


class Field:
    """The declaration of one field. Read by the compiler and by tests that generate values."""

    __slots__ = ("default", "element", "kind", "null_since", "since", "tag", "until")

    def __init__(
        self,
        kind: str,
        default: Any,
        since: int,
        until: int,
        null_since: int,
        tag: int | None,
        element: "str | type[Declared]" = "",
    ) -> None:
        self.kind = kind
        """The name of the specifier: `int32`, `string`, `array`, …"""
        self.default = default
        self.since = since
        self.until = until
        self.null_since = null_since
        self.tag = tag
        self.element = element
        """Of arrays and structs: the struct, or the kind of the elements."""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def is_own(self) -> bool:
        """Whether Kafka's message does not have this field."""
        return self.tag is not None and self.tag >= OWN_TAGS


class Declared:
    """A class that was declared by its fields. What compiles declarations sees no more of a struct than this."""

    __slots__ = ()
    fields: ClassVar[dict[str, Field]]
    """The declared fields by name, in the order of the wire."""


class DeclaredMessage(Declared):
    """A whole request or response body."""

    __slots__ = ()
    versions: ClassVar[tuple[int, int]]
    """The first and the last version."""
    flexible_from: ClassVar[int]
    """The first version with compact lengths and tagged fields; `LATEST` if there is none."""


def boolean(default: bool = False, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    """One byte; any byte but 0 reads as true."""
    return Field("boolean", default, since, until, LATEST, tag)


def int8(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("int8", default, since, until, LATEST, tag)


def int16(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("int16", default, since, until, LATEST, tag)


def uint16(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("uint16", default, since, until, LATEST, tag)


def int32(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("int32", default, since, until, LATEST, tag)


def int64(default: int = 0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("int64", default, since, until, LATEST, tag)


def float64(default: float = 0.0, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    return Field("float64", default, since, until, LATEST, tag)


def uuid(default: bytes = NO_UUID, *, since: int = 0, until: int = LATEST, tag: int | None = None) -> Any:
    """Sixteen bytes."""
    return Field("uuid", default, since, until, LATEST, tag)


def string(
    default: str | None = "",
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = LATEST,
    tag: int | None = None,
) -> Any:
    """UTF-8 text of at most 32,767 bytes."""
    return Field("string", default, since, until, null_since, tag)


def blob(
    default: bytes | None = b"",
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = LATEST,
    tag: int | None = None,
) -> Any:
    """Opaque bytes; read as `bytes`."""
    return Field("blob", default, since, until, null_since, tag)


def record_batches(default: bytes | None = None, *, since: int = 0, until: int = LATEST, null_since: int = 0) -> Any:
    """Kafka's RECORDS. Read as a slice of the buffer, hence without a copy from a memoryview."""
    return Field("record_batches", default, since, until, null_since, None)


def struct(
    element: "type[Declared]",
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = LATEST,
    tag: int | None = None,
) -> Any:
    """Another struct in place. The default is one with all defaults, or None where None is allowed."""
    return Field("struct", None, since, until, null_since, tag, element)


def array(
    element: "type[Declared] | Callable[..., Any]",
    default: tuple[()] | None = (),
    *,
    since: int = 0,
    until: int = LATEST,
    null_since: int = LATEST,
    tag: int | None = None,
) -> Any:
    """A list of structs or, given another specifier, of plain values: `array(FetchTopic)`, `array(int32)`."""
    kind = element if isinstance(element, type) else element.__name__
    return Field("array", default, since, until, null_since, tag, kind)
