"""Keys and values to bytes and back: what serializers and deserializers may be, and the functions they become.

A serializer is a function of the value, or an object with `serialize(topic, value)`; with a third parameter `headers`
it sees the record's headers and may add to them. A deserializer is the same in the other direction. None is null, in
both directions, and is handed to neither.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidelog.client.errors import ClientConfigError, SerializationFailed

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Without a serializer or deserializer, keys and values are bytes.
    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
T = TypeVar("T")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""The headers of a record that was read."""
MutableHeaders: TypeAlias = list[tuple[str, bytes | None]]
"""The headers of a record to be sent, which serializers may add to."""


class Serializer(Protocol[In]):
    """Turns keys or values into bytes."""

    def serialize(self, topic: str, value: In, /) -> bytes | None:
        """The bytes of `value`, in a record for `topic`."""
        ...


class HeadersSerializer(Protocol[In]):
    """Turns keys or values into bytes, with a look at the headers."""

    def serialize(self, topic: str, value: In, /, headers: MutableHeaders) -> bytes | None:
        """The bytes of `value`, in a record for `topic` with `headers`, which may be added to."""
        ...


class Deserializer(Protocol[Out]):
    """Makes keys or values of bytes."""

    def deserialize(self, topic: str, data: bytes, /) -> Out:
        """What `data`, in a record of `topic`, means."""
        ...


class HeadersDeserializer(Protocol[Out]):
    """Makes keys or values of bytes, with a look at the headers."""

    def deserialize(self, topic: str, data: bytes, /, headers: Headers) -> Out:
        """What `data`, in a record of `topic` with `headers`, means."""
        ...


AnySerializer: TypeAlias = Callable[[T], bytes | None] | Serializer[T] | HeadersSerializer[T]
"""What `key.serializer` and `value.serializer` may be."""
AnyDeserializer: TypeAlias = Callable[[bytes], T] | Deserializer[T] | HeadersDeserializer[T]
"""What `key.deserializer` and `value.deserializer` may be."""

Serialize = Callable[[str, Any, MutableHeaders], bytes | None]
Deserialize = Callable[[str, bytes, Sequence[tuple[str, bytes | None]]], Any]


def serializer_of(given: Any, what: str) -> Serialize | None:
    """The function behind `key.serializer` or `value.serializer`. It raises SerializationFailed."""
    called = _called(given, "serialize", f"{what}.serializer")
    if called is None:
        return None

    def serialize(topic: str, value: Any, headers: MutableHeaders) -> bytes | None:
        try:
            made: bytes | None = called(topic, value, headers)
        except Exception as error:
            raise SerializationFailed(f"{what} {value!r} for {topic!r}: {error}") from error
        return made

    return serialize


def deserializer_of(given: Any, what: str) -> Deserialize | None:
    """The function behind `key.deserializer` or `value.deserializer`. It raises what the deserializer raises."""
    return _called(given, "deserialize", f"{what}.deserializer")


def _called(given: Any, method_name: str, setting_name: str) -> Callable[[str, Any, Any], Any] | None:
    """What was given, as a function of topic, value and headers."""
    if given is None:
        return None
    function, method = _with_method(given, method_name, setting_name)
    if method is None:
        return lambda _topic, value, _headers: function(value)
    if _takes_headers(method):
        return lambda topic, value, headers: method(topic, value, headers=headers)
    return lambda topic, value, _headers: method(topic, value)


def _takes_headers(method: Callable[..., Any]) -> bool:
    try:
        return "headers" in inspect.signature(method).parameters
    except ValueError:  # of a class written in C, which has no signature to read
        return False


def _with_method(given: Any, method: str, setting_name: str) -> tuple[Any, Any]:
    """What a setting may be: a function (with None), or an object, made if its class is given, and its `method`."""
    if isinstance(given, type) and hasattr(given, method):
        given = given()
    bound = getattr(given, method, None)
    if bound is None and not callable(given):
        raise ClientConfigError(f"{setting_name}={given!r} is not a function and has no method {method}")
    return given, bound
