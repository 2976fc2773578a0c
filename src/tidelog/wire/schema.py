"""How a message is declared: once, for all its versions, with the versions written on its fields.

    class MetadataRequestTopic(Struct):
        topic_id: bytes = uuid(since=10)
        name: str | None = string(null_since=10)

    class MetadataRequest(Message, api_key=ApiKey.METADATA, versions=(0, 12), flexible_from=9):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, null_since=1)
        allow_auto_topic_creation: bool = boolean(True, since=4)

Annotations are for readers, editors and type checkers; the specifiers on the right define the encoding. Each takes the
default and then, where they apply:

    since, until   the first and last version that has the field (`until` only where a later version dropped it)
    null_since     the first version in which the value may be None
    tag            the field is a tagged field of this number in the flexible versions

Importing a declaration takes some ten microseconds: no code is generated for it. The constructor is compiled when the
first object is made, the codec of a version when that version is first read or written (`_compiler`); from then on
reading and writing are straight-line code. A codec that is never used costs nothing.

A message object has the fields of all versions. Writing a version leaves out the fields it lacks; reading sets them to
their defaults. Unknown tagged fields are kept in `unknown_tagged_fields` and written back.
"""

from collections.abc import Callable, Generator
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, dataclass_transform

from tidelog.wire.errors import EncodeError, WireError
from tidelog.wire.fields import (
    LATEST,
    Declared,
    DeclaredMessage,
    Field,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uint16,
    uuid,
)
from tidelog.wire.primitives import Buffer

if TYPE_CHECKING:
    from typing import Self


@dataclass_transform(kw_only_default=True)
class Declaration(type):
    """Turns the specifiers of a class body into slots. Code is compiled at the first use."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,
    ) -> "Declaration":
        fields = {key: value for key, value in namespace.items() if value.__class__ is Field}
        for key in fields:
            del namespace[key]
        namespace.setdefault("__slots__", tuple(fields))
        namespace["fields"] = fields
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(Declared, metaclass=Declaration):
    """A struct inside messages. Fields are keyword arguments of the constructor and plain attributes afterwards."""

    if TYPE_CHECKING:
        unknown_tagged_fields: dict[int, bytes] | None = None
    else:
        __slots__ = ("unknown_tagged_fields",)

        def __init__(self, **values: Any) -> None:
            # The first object of the class: the compiled constructor replaces this one from now on.
            from tidelog.wire._compiler import compile_constructor

            cls = type(self)
            cls.__init__ = compile_constructor(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        if (self.unknown_tagged_fields or None) != (other.unknown_tagged_fields or None):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = [f"{name}={getattr(self, name)!r}" for name in self.fields]
        if self.unknown_tagged_fields:
            values.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(values)})"


__all__ = [
    "LATEST",
    "Field",
    "Message",
    "Struct",
    "array",
    "blob",
    "boolean",
    "elements_in_slices",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "record_batches",
    "string",
    "struct",
    "uint16",
    "uuid",
]

_Encoder: TypeAlias = Callable[[Any], bytes]
_Decoder: TypeAlias = Callable[[Buffer, int], Any]
_SlicedEncoder: TypeAlias = Callable[[Any], Generator[None, None, bytes]]
_SlicedDecoder: TypeAlias = Callable[[Buffer, int, int], Generator[None, None, Any]]

_UNWRITABLE: Final = (struct_error, AttributeError, OverflowError, TypeError, UnicodeEncodeError)
_UNREADABLE: Final = (struct_error, IndexError, UnicodeDecodeError)


def elements_in_slices(struct: Struct, found: list[Any]) -> Generator[None, None, None]:
    """Add every element of every array in `struct` to `found`, in steps of a fraction of a millisecond.

    Freeing a hundred thousand objects at once takes tens of milliseconds. With this list the caller can drop the
    struct, and then the elements one after the other.
    """
    position = len(found)
    _add_elements(struct, found)
    while position < len(found):
        element = found[position]
        position += 1
        if isinstance(element, Struct):
            _add_elements(element, found)
        if position % 256 == 0:
            yield


def _add_elements(struct: Struct, found: list[Any]) -> None:
    for name, field in struct.fields.items():
        if field.kind == "array":
            found += getattr(struct, name) or ()


class Message(Struct, DeclaredMessage):
    """A whole request or response body."""

    api_key: ClassVar[int]

    _encoders: ClassVar[dict[int, _Encoder]]
    _bytes_decoders: ClassVar[dict[int, _Decoder]]
    _view_decoders: ClassVar[dict[int, _Decoder]]
    _sliced_encoders: ClassVar[dict[int, _SlicedEncoder]]
    _sliced_decoders: ClassVar[dict[int, _SlicedDecoder]]

    def __init_subclass__(cls, *, api_key: int, versions: tuple[int, int], flexible_from: int = LATEST) -> None:
        cls.api_key = api_key
        cls.versions = versions
        cls.flexible_from = flexible_from
        cls._encoders = {}
        cls._bytes_decoders = {}
        cls._view_decoders = {}
        cls._sliced_encoders = {}
        cls._sliced_decoders = {}

    def encode(self, version: int) -> bytes:
        """The body in this version. Raises `EncodeError` if a value does not fit it."""
        encoder = self._encoders.get(version)
        if encoder is None:
            from tidelog.wire._compiler import compile_encoder

            encoder = self._encoders[version] = compile_encoder(type(self), version)
        try:
            return encoder(self)
        except _UNWRITABLE as error:
            raise EncodeError(f"{type(self).__name__} v{version} cannot be written: {error}") from error

    def encode_in_slices(self, version: int) -> Generator[None, None, bytes]:
        """The same as `encode`, in steps of a fraction of a millisecond."""
        encoder = self._sliced_encoders.get(version)
        if encoder is None:
            from tidelog.wire._compiler import compile_sliced_encoder

            encoder = self._sliced_encoders[version] = compile_sliced_encoder(type(self), version)
        try:
            return (yield from encoder(self))
        except _UNWRITABLE as error:
            raise EncodeError(f"{type(self).__name__} v{version} cannot be written: {error}") from error

    @classmethod
    def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> "Self":
        """The message that begins at `offset`. Bytes after it are ignored; malformed bytes raise `WireError`."""
        # Slices of bytes have a faster way to text than other slices, so each kind of buffer has its own codec.
        decoders = cls._bytes_decoders if buffer.__class__ is bytes else cls._view_decoders
        decoder = decoders.get(version)
        if decoder is None:
            from tidelog.wire._compiler import compile_decoder

            decoder = decoders[version] = compile_decoder(cls, version, from_bytes=decoders is cls._bytes_decoders)
        try:
            message: Self = decoder(buffer, offset)
        except _UNREADABLE as error:
            raise WireError(f"{cls.__name__} v{version} cannot be read: {error}") from error
        return message

    @classmethod
    def decode_in_slices(cls, buffer: Buffer, version: int, elements_max: int) -> Generator[None, None, "Self"]:
        """The same as `decode`, in steps of a fraction of a millisecond.

        A message with more than `elements_max` elements in all its arrays and tagged fields is rejected.
        """
        decoder = cls._sliced_decoders.get(version)
        if decoder is None:
            from tidelog.wire._compiler import compile_sliced_decoder

            decoder = cls._sliced_decoders[version] = compile_sliced_decoder(cls, version)
        try:
            message: Self = yield from decoder(buffer, 0, elements_max)
        except _UNREADABLE as error:
            raise WireError(f"{cls.__name__} v{version} cannot be read: {error}") from error
        return message
