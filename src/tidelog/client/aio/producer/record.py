"""Records as callers and interceptors see them, and the hooks that work on them before they are bytes."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tidelog.client.aio.producer.batch import DeliveryCallback, RecordMetadata
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.sink import GivenHeaders
from tidelog.client.aio.settings import make_objects, with_method
from tidelog.client.errors import SerializationFailed

_log = logging.getLogger("tidelog.client.producer")


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


class Hooks:
    """Interceptors, then serializers."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._serialize_key = serializer_of(settings.key_serializer, "key")
        self._serialize_value = serializer_of(settings.value_serializer, "value")
        self._interceptors: tuple[ProducerInterceptor, ...] = make_objects(
            "interceptor.classes", settings.interceptor_classes, ("on_send", "on_acknowledgement")
        )
        self.is_active = bool(self._interceptors or self._serialize_key or self._serialize_value)

    def apply(
        self, record: ProducerRecord, on_delivery: DeliveryCallback | None
    ) -> tuple[ProducerRecord, DeliveryCallback | None]:
        """The record in bytes, and whom to tell about it."""
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send returned {changed!r}, not a ProducerRecord")
                record = changed
            except Exception:
                _log.exception("interceptor %r failed in on_send", interceptor)
        if self._interceptors:
            on_delivery = self._acknowledging(on_delivery)
        try:
            if self._serialize_key is not None:
                record = record._replace(key=self._serialize_key(record.topic, record.key))
            if self._serialize_value is not None:
                record = record._replace(value=self._serialize_value(record.topic, record.value))
        except SerializationFailed as error:
            self.acknowledge(None, error)
            raise
        return record, on_delivery

    def acknowledge(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell the interceptors what became of a record."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                _log.exception("interceptor %r failed in on_acknowledgement", interceptor)

    def _acknowledging(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        def tell(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self.acknowledge(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell


def serializer_of(given: Any, what: str) -> Serialize | None:
    """The function behind `key.serializer` or `value.serializer`.

    It may be a function of the value, which None is kept from, or an object (or class) with `serialize(topic, value)`.
    """
    if given is None:
        return None
    function, method = with_method(given, "serialize", f"{what}.serializer")

    def serialize(topic: str, value: Any) -> bytes | None:
        if method is None and value is None:
            return None
        try:
            made: bytes | None = function(value) if method is None else method(topic, value)
        except Exception as error:
            raise SerializationFailed(f"{what} {value!r} for {topic!r}: {error}") from error
        return made

    return serialize
