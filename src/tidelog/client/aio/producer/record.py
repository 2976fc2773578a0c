"""Records as callers and interceptors see them, and the hooks that work on them before they are bytes."""

import logging
from typing import Any, Generic, NamedTuple, Protocol

from tidelog.client.aio.producer.batch import DeliveryCallback, RecordMetadata
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.sink import GivenHeaders, read_only_headers
from tidelog.client.aio.settings import make_objects
from tidelog.client.errors import SerializationFailed
from tidelog.client.serialization import K, V, serializer_of

_log = logging.getLogger("tidelog.client.producer")


class ProducerRecord(NamedTuple, Generic[K, V]):
    """One record to send. Interceptors get it, and give back it or another (`record._replace(...)`)."""

    topic: str
    value: V | None = None
    key: K | None = None
    partition: int | None = None
    headers: GivenHeaders = None
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Called with every record before serialization, and with its result. Errors of interceptors are only logged."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """The record to send instead."""
        ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called in the client's loop when the record is stored or given up."""
        ...


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
        self, record: ProducerRecord[Any, Any], on_delivery: DeliveryCallback | None
    ) -> tuple[ProducerRecord[bytes, bytes], DeliveryCallback | None]:
        """The record in bytes, and the callback for its result."""
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send returned {changed!r}, not a ProducerRecord")
                record = changed
            except Exception:  # noqa: BLE001 - code of the application; logged
                _log.exception("interceptor %r failed in on_send", interceptor)
        if self._interceptors:
            on_delivery = self._acknowledging(on_delivery)
        if self._serialize_key is not None or self._serialize_value is not None:
            try:
                record = self._serialized(record)
            except SerializationFailed as error:
                self.acknowledge(None, error)
                raise
        return record, on_delivery

    def _serialized(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[bytes, bytes]:
        topic, value, key, partition, given, timestamp_ms = record
        headers = list(read_only_headers(given))
        if self._serialize_key is not None and key is not None:
            key = self._serialize_key(topic, key, headers)
        if self._serialize_value is not None and value is not None:
            value = self._serialize_value(topic, value, headers)
        return ProducerRecord(topic, value, key, partition, headers, timestamp_ms)

    def acknowledge(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Call the interceptors with the result of a record."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:  # noqa: BLE001 - code of the application; logged
                _log.exception("interceptor %r failed in on_acknowledgement", interceptor)

    def _acknowledging(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        def tell(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self.acknowledge(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell
