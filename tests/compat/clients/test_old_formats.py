"""Clients from before 2017: message sets of magic 0 and 1 in, and out again.

Only batches of magic 2 are stored. What old producers send is converted on the way in, what old consumers read on the
way out; the messages are built and read by aiokafka's code of that time.
"""

import pytest

from tests.compat.clients import batches
from tests.compat.clients.batches import batch, message_set, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import DRIVERS, Driver, Message
from tests.compat.clients.raw import RawConnection, fetch, produce
from tests.unit.present import present
from tidelog.wire.errors import ErrorCode

START_MS = 1_700_000_000_000
MESSAGES = [
    Message(b"value", b"key", timestamp=START_MS),
    Message(None, b"tombstone", timestamp=START_MS + 1),
    Message(b"", b"", timestamp=START_MS + 2),
    Message(b"no key", timestamp=START_MS + 3),
]
CONTENT = [(message.key, message.value) for message in MESSAGES]
CODECS_OF_MAGIC = {
    0: ("none", "gzip", "snappy"),  # and lz4 with the wrong checksums of its time, which aiokafka leaves out
    1: ("none", "gzip", "snappy", "lz4"),
}
MAGIC_OF_FETCH = {0: 0, 1: 0, 2: 1, 3: 1}
MAGIC_POSITION = 16


@pytest.mark.parametrize(
    ("version", "magic", "codec"),
    [
        (version, magic, codec)
        for version, magic in ((0, 0), (1, 0), (2, 0), (2, 1))
        for codec in CODECS_OF_MAGIC[magic]
    ],
)
def test_old_producers_are_understood(
    client: Driver, version: int, magic: int, codec: str, broker: Broker, servers: str, topic: str
) -> None:
    """What they wrote is read by the clients of today. Magic 0 has no timestamps."""
    if not client.has_codec(codec):
        pytest.skip(f"{client.name} has no {codec} here")
    with RawConnection(broker) as connection:
        for expected_offset in (0, 4):
            answer = produce(connection, topic, message_set(MESSAGES, magic, codec=codec), version)
            assert (answer.error_code, answer.base_offset) == (0, expected_offset)
        assert present(fetch(connection, topic, 0).records)[MAGIC_POSITION] == 2
    records = client.consume(servers, topic, 8)
    assert [(record.key, record.value) for record in records] == CONTENT * 2
    assert [record.offset for record in records] == list(range(8))
    if magic == 1:
        assert [record.timestamp for record in records] == [message.timestamp for message in MESSAGES] * 2


@pytest.mark.parametrize(
    ("version", "codec"),
    [(version, codec) for version, magic in MAGIC_OF_FETCH.items() for codec in CODECS_OF_MAGIC[magic]],
)
def test_old_consumers_understand(version: int, codec: str, broker: Broker, servers: str, topic: str) -> None:
    """What clients of today wrote, without the headers that the old formats lack."""
    magic = MAGIC_OF_FETCH[version]
    writer = DRIVERS[2]
    writer.produce(servers, topic, [message._replace(headers=(("h", b"v"),)) for message in MESSAGES], codec=codec)
    with RawConnection(broker) as connection:
        data = bytes(present(fetch(connection, topic, 0, version).records))
    assert data[MAGIC_POSITION] == magic
    records = batches.read(data)
    assert [(record.key, record.value) for record in records] == CONTENT
    assert [record.offset for record in records] == [0, 1, 2, 3]
    wanted = [message.timestamp if magic else None for message in MESSAGES]
    assert [record.timestamp for record in records] == wanted


@pytest.mark.parametrize("version", MAGIC_OF_FETCH)
def test_old_consumers_begin_where_they_ask(version: int, broker: Broker, topic: str) -> None:
    """Without batches there is no reason to send what lies before, and old librdkafka would pass it on."""
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(10)))
        records = batches.read(fetch(connection, topic, 7, version).records)
    assert [record.offset for record in records] == [7, 8, 9]


def test_zstd_is_not_for_old_consumers(broker: Broker, topic: str) -> None:
    """They get what comes before it, and then the reason why they get no further."""
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(3)))
        produce(connection, topic, batch(numbered(3, first=3), codec="zstd"))
        assert len(batches.read(fetch(connection, topic, 0, version=3).records)) == 3
        assert fetch(connection, topic, 3, version=3).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert fetch(connection, topic, 3, version=10).error_code == 0


def test_a_topic_of_zstd_needs_fetch_10(broker: Broker, make_topic: MakeTopic) -> None:
    """KIP-110: an older client gets an error, rather than records it cannot read."""
    topic = make_topic(**{"compression.type": "zstd"})
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(3)))
        assert fetch(connection, topic, 0, version=9).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert fetch(connection, topic, 0, version=10).error_code == 0


def test_zstd_is_not_for_old_producers(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        records = batch(numbered(3), codec="zstd")
        assert produce(connection, topic, records, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert produce(connection, topic, records, version=7).error_code == 0


def test_down_conversion_can_be_switched_off(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"message.downconversion.enable": "false"})
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(3)))
        assert fetch(connection, topic, 0, version=3).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert fetch(connection, topic, 0, version=4).error_code == 0


@pytest.mark.parametrize("version", range(3, 12))
def test_old_magics_are_refused_from_version_3_on(version: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, message_set(MESSAGES, 1), version)
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_a_damaged_message_is_refused(broker: Broker, topic: str) -> None:
    data = bytearray(message_set(MESSAGES, 1))
    data[-1] ^= 0xFF
    with RawConnection(broker) as connection:
        assert produce(connection, topic, bytes(data), version=2).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("records", [b"", message_set(MESSAGES, 1, codec="gzip")[:-4]], ids=["none", "half"])
def test_a_set_without_a_whole_message_is_no_error(records: bytes, broker: Broker, topic: str) -> None:
    """Nothing is written, and that is what the answer says."""
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, records, version=2)
        assert (answer.error_code, answer.base_offset) == (0, -1)
        assert produce(connection, topic, message_set(MESSAGES, 1), version=2).base_offset == 0


def test_an_old_message_gets_the_append_time_of_the_topic(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"message.timestamp.type": "LogAppendTime"})
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, message_set(MESSAGES, 1), version=2)
        records = batches.read(fetch(connection, topic, 0, version=2).records)
    assert answer.log_append_time_ms > START_MS
    assert {(record.timestamp, record.timestamp_type) for record in records} == {(answer.log_append_time_ms, 1)}
