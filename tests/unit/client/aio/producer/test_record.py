from typing import Any

import pytest

from tests.unit.client.aio.producer.parts import settings_with
from tidelog.client.aio.producer.batch import RecordMetadata
from tidelog.client.aio.producer.record import Hooks, ProducerRecord
from tidelog.client.errors import ClientConfigError, SerializationFailed
from tidelog.client.serialization import MutableHeaders


class Upper:
    """Serializes by topic."""

    def serialize(self, topic: str, value: str) -> bytes:
        return f"{topic}:{value.upper()}".encode()


def _serialized(record: ProducerRecord[Any, Any], **settings: object) -> ProducerRecord[bytes, bytes]:
    return Hooks(settings_with(**settings)).apply(record, None)[0]


@pytest.mark.parametrize(("given", "expected"), [(Upper, b"t:X"), (Upper(), b"t:X"), (str.encode, b"x")])
def test_a_serializer_is_a_function_an_object_or_a_class(given: object, expected: bytes) -> None:
    record = ProducerRecord("t", "x", "x")
    assert _serialized(record, value_serializer=given).value == expected
    assert _serialized(record, key_serializer=given).key == expected


def test_null_stays_null() -> None:
    record = _serialized(ProducerRecord("t"), key_serializer=Upper, value_serializer=Upper)
    assert (record.key, record.value) == (None, None)


def test_what_is_no_serializer_is_named() -> None:
    with pytest.raises(ClientConfigError, match=r"key\.serializer=7"):
        Hooks(settings_with(key_serializer=7))


class Versioned:
    """Serializes by what a header says, and says in another what it did."""

    def serialize(self, topic: str, value: str, headers: MutableHeaders) -> bytes:
        version = dict(headers).get("version", b"1")
        headers.append(("serialized", topic.encode()))
        return value.encode() + b"-" + (version or b"")


def test_a_serializer_sees_headers_and_adds_to_them() -> None:
    sent = ProducerRecord("t", "x", headers={"version": b"2"})
    record = _serialized(sent, value_serializer=Versioned())
    assert record.value == b"x-2"
    assert record.headers == [("version", b"2"), ("serialized", b"t")]
    assert sent.headers == {"version": b"2"}


class Recorder:
    """An interceptor that remembers, and fails on demand."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.acknowledged: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if self.fails:
            raise RuntimeError("an interceptor's own mistake")
        return record._replace(headers={"seen": b"1"})

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.acknowledged.append(metadata or error)
        if self.fails:
            raise RuntimeError("an interceptor's own mistake")


def test_interceptors_run_in_order_and_their_errors_affect_no_record() -> None:
    good, bad = Recorder(), Recorder(fails=True)
    hooks = Hooks(settings_with(interceptor_classes=[bad, good]))
    outcomes: list[object] = []
    record, on_delivery = hooks.apply(ProducerRecord("t", b"v"), lambda metadata, error: outcomes.append(metadata))
    assert record.headers == {"seen": b"1"}
    assert on_delivery is not None
    metadata = RecordMetadata("t", 0, 1, 2)
    on_delivery(metadata, None)
    assert outcomes == [metadata]
    assert good.acknowledged == bad.acknowledged == [metadata]


def test_an_interceptor_that_returns_nothing_changes_nothing() -> None:
    class Forgetful(Recorder):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return None  # type: ignore[return-value]

    record, _ = Hooks(settings_with(interceptor_classes=[Forgetful()])).apply(ProducerRecord("t", b"v"), None)
    assert record == ProducerRecord("t", b"v")


def test_a_failed_serialization_is_reported_to_interceptors_too() -> None:
    recorder = Recorder()
    hooks = Hooks(settings_with(interceptor_classes=[recorder], value_serializer=str.encode))
    with pytest.raises(SerializationFailed, match="value 5 for 't'"):
        hooks.apply(ProducerRecord("t", 5), None)
    assert isinstance(recorder.acknowledged[0], SerializationFailed)


def test_without_hooks_nothing_is_active() -> None:
    assert not Hooks(settings_with()).is_active
    assert Hooks(settings_with(key_serializer=str.encode)).is_active
