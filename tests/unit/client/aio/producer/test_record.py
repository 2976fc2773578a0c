import pytest

from tests.unit.client.aio.producer.parts import settings_with
from tidelog.client.aio.producer.batch import RecordMetadata
from tidelog.client.aio.producer.record import Hooks, ProducerRecord, serializer_of
from tidelog.client.errors import ClientConfigError, SerializationFailed


class Upper:
    """Serializes by topic."""

    def serialize(self, topic: str, value: str) -> bytes:
        return f"{topic}:{value.upper()}".encode()


def test_a_serializer_is_a_function_an_object_or_a_class() -> None:
    for given in (Upper, Upper()):
        serialize = serializer_of(given, "value")
        assert serialize is not None
        assert serialize("t", "x") == b"t:X"
    plain = serializer_of(str.encode, "value")
    assert plain is not None
    assert plain("t", "x") == b"x"
    assert plain("t", None) is None, "null is not for functions to make something of"
    assert serializer_of(None, "value") is None
    with pytest.raises(ClientConfigError, match=r"key\.serializer=7"):
        serializer_of(7, "key")


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


def test_interceptors_run_in_order_and_their_errors_harm_nobody() -> None:
    good, bad = Recorder(), Recorder(fails=True)
    hooks = Hooks(settings_with(interceptor_classes=[bad, good]))
    told: list[object] = []
    record, on_delivery = hooks.apply(ProducerRecord("t", b"v"), lambda metadata, error: told.append(metadata))
    assert record.headers == {"seen": b"1"}
    assert on_delivery is not None
    metadata = RecordMetadata("t", 0, 1, 2)
    on_delivery(metadata, None)
    assert told == [metadata]
    assert good.acknowledged == bad.acknowledged == [metadata]


def test_an_interceptor_that_returns_nothing_changes_nothing() -> None:
    class Forgetful(Recorder):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return None  # type: ignore[return-value]

    record, _ = Hooks(settings_with(interceptor_classes=[Forgetful()])).apply(ProducerRecord("t", b"v"), None)
    assert record == ProducerRecord("t", b"v")


def test_a_failed_serialization_is_told_to_interceptors_too() -> None:
    recorder = Recorder()
    hooks = Hooks(settings_with(interceptor_classes=[recorder], value_serializer=str.encode))
    with pytest.raises(SerializationFailed, match="value 5 for 't'"):
        hooks.apply(ProducerRecord("t", 5), None)
    assert isinstance(recorder.acknowledged[0], SerializationFailed)


def test_without_hooks_nothing_is_active() -> None:
    assert not Hooks(settings_with()).is_active
    assert Hooks(settings_with(key_serializer=str.encode)).is_active
