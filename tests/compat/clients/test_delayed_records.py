"""Records with a delay header, from clients that know nothing of it: visible at their time, once, in order."""

import subprocess
import time
from collections.abc import Mapping

import pytest

from benchmarks import apache_kafka
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import CODECS, DRIVERS, Driver, Message, Refused
from tidelog.client import Admin
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.wire.errors import ErrorCode

LIBRDKAFKA = DRIVERS[0]
UNKNOWN_TO_AIOKAFKA = -1
DELAYED: Mapping[str, object] = {"tidelog.delay.enable": "true"}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _delayed(value: bytes, delay: str) -> Message:
    return Message(value, b"key", headers=(("other", b"kept"), ("tidelog-delay", delay.encode())))


def test_a_record_becomes_visible_at_its_time_in_order(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    """A batch of delayed and other records; key, value and headers are kept, the timestamp is the due time."""
    topic = make_topic(**DELAYED)
    before_ms = _now_ms()
    messages = [_delayed(b"third", "300ms"), Message(b"first"), _delayed(b"second", "150")]
    client.produce(servers, topic, messages)
    records = client.consume(servers, topic, 3)
    assert [record.value for record in records] == [b"first", b"second", b"third"]
    assert records[2].key == b"key"
    assert records[2].headers == (("other", b"kept"), ("tidelog-delay", b"300ms"))
    for record, delay_ms in zip(records[1:], (150, 300), strict=True):
        assert before_ms + delay_ms <= record.timestamp <= _now_ms()


@pytest.mark.parametrize("codec", CODECS)
def test_any_codec_and_an_absolute_time(codec: str, servers: str, make_topic: MakeTopic) -> None:
    client = LIBRDKAFKA
    topic = make_topic(**DELAYED)
    due_ms = _now_ms() + 400
    late = Message(b"x" * 5000, headers=(("tidelog-deliver-at", str(due_ms).encode()),))
    client.produce(servers, topic, [late, Message(b"now")], codec=codec)
    records = client.consume(servers, topic, 2)
    assert [record.value for record in records] == [b"now", b"x" * 5000]
    assert records[1].timestamp == due_ms


@pytest.mark.parametrize("value", ["soon", "400d"])
def test_a_bad_delay_is_refused(value: str, client: Driver, servers: str, make_topic: MakeTopic) -> None:
    with pytest.raises(Refused) as caught:
        client.produce(servers, make_topic(**DELAYED), [_delayed(b"bad", value)])
    assert caught.value.code in (ErrorCode.INVALID_RECORD, UNKNOWN_TO_AIOKAFKA)


def test_without_the_setting_the_header_means_nothing(client: Driver, servers: str, topic: str) -> None:
    client.produce(servers, topic, [_delayed(b"at once", "1d")])
    assert [record.value for record in client.consume(servers, topic, 1)] == [b"at once"]


def test_records_that_wait_are_delivered_after_the_setting_is_off(
    client: Driver, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(**DELAYED)
    client.produce(servers, topic, [_delayed(b"waits", "1h")])
    with Admin({"bootstrap.servers": servers}) as admin:
        change = ConfigChange("tidelog.delay.enable", "false")
        admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, topic): [change]})
        client.produce(servers, topic, [_delayed(b"at once", "1d")])
        (waiting,) = admin.list_delayed_records(topic)[0].records
        admin.reschedule_delayed_records(topic, time.time_ns() // 1_000_000, offset=waiting.offset)
    assert [record.value for record in client.consume(servers, topic, 2)] == [b"at once", b"waits"]


@pytest.mark.long
@pytest.mark.java
def test_java_produces_and_consumes(servers: str, make_topic: MakeTopic) -> None:
    """Kafka's console producer parses headers from its input; its console consumer reads them back."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    topic = make_topic(**DELAYED)
    producer = apache_kafka.tool_command("kafka.tools.ConsoleProducer")
    producer += ["--bootstrap-server", servers, "--topic", topic, "--property", "parse.headers=true"]
    lines = "tidelog-delay:3s\tlater\ntidelog-delay:1s\tsooner\nother:1\tnow\n"
    subprocess.run(producer, input=lines, text=True, check=True, capture_output=True, timeout=60)
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = apache_kafka.tool_command("org.apache.kafka.tools.consumer.ConsoleConsumer")
        consumer += ["--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--max-messages", "3"]
        consumer += ["--isolation-level", isolation, "--timeout-ms", "30000"]
        done = subprocess.run(consumer, text=True, check=True, capture_output=True, timeout=60)
        assert done.stdout.split() == ["now", "sooner", "later"]
