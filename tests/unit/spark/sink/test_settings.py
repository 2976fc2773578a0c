"""The options of the sink: defaults, what is passed on to the producer, and what is refused."""

import pickle
from pathlib import Path

import pytest

from tidelog.client.aio.producer.partitioners import RoundRobinPartitioner
from tidelog.spark.options import OptionError, Options
from tidelog.spark.sink.settings import (
    DEFAULT_STATE_TOPIC,
    SinkSettings,
    default_transactional_id,
    read_batch_settings,
    read_stream_settings,
)

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
STREAM = {**SERVERS, "checkpointlocation": "/checkpoints/orders"}


def stream(**options: str) -> SinkSettings:
    return read_stream_settings(Options({**STREAM, **options}))


def test_a_stream_is_written_exactly_once_and_a_batch_as_often_as_spark_tries() -> None:
    assert stream().delivery == "exactly-once"
    assert read_batch_settings(Options(SERVERS)).delivery == "at-least-once"


def test_the_transactional_id_is_the_same_for_every_run_on_a_checkpoint() -> None:
    assert stream().transactional_id == default_transactional_id("/checkpoints/orders")
    assert stream(checkpointlocation="/checkpoints/orders/").transactional_id == stream().transactional_id
    assert stream(checkpointlocation="/checkpoints/others").transactional_id != stream().transactional_id
    assert stream(transactionalid="mine").transactional_id == "mine"


def test_without_a_checkpoint_the_promise_cannot_be_given() -> None:
    """A location in the settings of the session does not reach the sink, and two queries must not share an id."""
    with pytest.raises(OptionError, match="needs the option 'checkpointLocation' on the writer itself"):
        read_stream_settings(Options(SERVERS))

    assert read_stream_settings(Options({**SERVERS, "delivery": "at-least-once"})).transactional_id is None


def test_what_is_remembered_goes_to_a_topic_of_its_own() -> None:
    assert stream().state_topic == DEFAULT_STATE_TOPIC
    assert stream(statetopic="memory").state_topic == "memory"


def test_writes_of_one_query_are_distinguished_by_their_name_or_topic() -> None:
    assert stream(topic="orders").sink_name == ""
    assert read_batch_settings(Options({**SERVERS, "topic": "orders"})).sink_name == "orders"
    assert read_batch_settings(Options({**SERVERS, "topic": "orders", "transactionalid": "a"})).sink_name == "a"


def test_kafka_settings_reach_the_producer() -> None:
    settings = stream(**{"kafka.compression.type": "zstd", "kafka.linger.ms": "5", "kafka.transaction.timeout.ms": "9"})

    producer = settings.producer_settings()
    assert (producer.compression_type, producer.linger_ms, producer.transaction_timeout_ms) == ("zstd", 5, 9)
    assert settings.bootstrap_servers == "localhost:9092"


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("kafka.key.serializer", "x", "'kafka.key.serializer' cannot be set"),
        ("kafka.value.serializer", "x", "'kafka.value.serializer' cannot be set"),
        ("kafka.transactional.id", "x", "use the option 'transactionalId'"),
        ("kafka.acks", "1", "'kafka.acks' is 1: delivery=exactly-once needs acks=all"),
        ("kafka.enable.idempotence", "false", "'kafka.enable.idempotence' is false"),
        ("kafka.security.protocol", "SSH", "security.protocol"),
        ("kafka.sasl.login.class", "x", "'kafka.sasl.login.class' is not supported"),
        ("kafka.linger.ms", "soon", "linger.ms"),
        ("delivery", "once", "'delivery' is 'once': it must be one of at-least-once, exactly-once, small"),
        ("includeheaders", "maybe", "'includeHeaders' is 'maybe'"),
    ],
)
def test_what_would_break_the_promise_is_refused(option: str, value: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        stream(**{option: value})


def test_settings_that_producers_do_not_have_are_reported_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka's clients do: jobs hand the same settings to their sources."""
    for _ in range(2):
        settings = stream(**{"kafka.linger": "5", "kafka.group.id": "readers", "kafka.linger.ms": "7"})

    assert settings.kafka == (("bootstrap.servers", "localhost:9092"), ("linger.ms", "7"))
    assert sorted(caplog.messages) == [
        "option 'kafka.group.id' is not a producer setting and has no effect",
        "option 'kafka.linger' is not a producer setting and has no effect; did you mean 'kafka.linger.ms'?",
    ]


def test_partitioners_that_come_with_kafka_are_known_by_their_java_names() -> None:
    package = "org.apache.kafka.clients.producer"

    def chosen(name: str) -> tuple[object, bool]:
        producer = stream(**{"kafka.partitioner.class": f"{package}.{name}"}).producer_settings()
        return producer.partitioner_class, producer.partitioner_ignore_keys

    assert chosen("RoundRobinPartitioner") == (RoundRobinPartitioner, False)
    assert chosen("UniformStickyPartitioner") == (None, True)
    assert chosen("internals.DefaultPartitioner") == (None, False)
    with pytest.raises(OptionError, match=r"partitioner\.class: Cannot be imported"):
        chosen("OfTheirOwn")


def test_the_query_in_a_local_checkpoint_names_the_transactions(tmp_path: Path) -> None:
    """Machines and working directories may all have a checkpoint of the same path."""
    (tmp_path / "metadata").write_text('{"id":"1b2c"}')

    for location in (str(tmp_path), f"{tmp_path}/", f"file:{tmp_path}", f"file://{tmp_path}"):
        assert stream(checkpointlocation=location).transactional_id == default_transactional_id("1b2c")
    (tmp_path / "metadata").write_text("{")
    assert stream(checkpointlocation=str(tmp_path)).transactional_id == default_transactional_id(str(tmp_path))


def test_weaker_promises_allow_weaker_settings() -> None:
    assert stream(**{"delivery": "at-least-once", "kafka.acks": "1"}).producer_settings().acks == 1


def test_settings_travel_to_tasks_and_name_what_is_kept_there() -> None:
    settings = stream(topic="orders")

    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(pickle.loads(pickle.dumps(settings))) == hash(settings)
