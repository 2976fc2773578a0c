"""Records as callers and interceptors see them, and the hooks that work on them before they are bytes."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tidelog.client.aio.producer.batch import RecordMetadata
from tidelog.client.aio.producer.sink import GivenHeaders
from tidelog.client.errors import ClientConfigError, SerializationFailed


class ProducerRecord(NamedTuple):
    """One record to send. Interceptors get it, and give back it or another (`record._replace(...)`)."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: GivenHeaders = None
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Sees every record before it is serialized, and what became of it. Errors of interceptors are logged, no more."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send instead."""
        ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called in the client's loop when the record is stored or given up."""
        ...


Serialize = Callable[[str, Any], bytes | None]


def serializer_of(given: Any, what: str) -> Serialize | None:
    """The function behind `key.serializer` or `value.serializer`.

    It may be a function of the value, or an object (or class) with `serialize(topic, value)`.
    """
    if given is None:
        return None
    if isinstance(given, type) and hasattr(given, "serialize"):
        given = given()
    method = getattr(given, "serialize", None)
    if method is None and not callable(given):
        raise ClientConfigError(f"{what}.serializer={given!r} is no function and has no method serialize")

    def serialize(topic: str, value: Any) -> bytes | None:
        try:
            made: bytes | None = given(value) if method is None else method(topic, value)
        except Exception as error:
            raise SerializationFailed(f"{what} {value!r} for {topic!r}: {error}") from error
        return made

    return serialize
