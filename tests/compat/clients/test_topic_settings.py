"""Settings of a topic that change what happens to a record: its time, its codec, its key, its segment."""

import time
from pathlib import Path

import pytest

from tests.compat.clients import batches
from tests.compat.clients.batches import CODEC_NUMBERS, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import CODECS, DRIVERS, Driver, Message, Refused
from tests.compat.clients.drivers.types import LOG_APPEND_TIME
from tests.compat.clients.raw import RawConnection, fetch, produce
from tests.unit.present import present
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

LIBRDKAFKA = DRIVERS[0]
CODEC_MASK = 0x07
ATTRIBUTES_LOW_BYTE = 22
YESTERDAY_MS = int(time.time() * 1000) - 86_400_000


def _stored_codec(broker: Broker, topic: str, offset: int = 0) -> int:
    with RawConnection(broker) as connection:
        return present(fetch(connection, topic, offset).records)[ATTRIBUTES_LOW_BYTE] & CODEC_MASK


def _serves(broker: Broker, api_key: int) -> bool:
    with RawConnection(broker) as connection:
        versions = connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return api_key in {entry.api_key for entry in versions.api_keys}


def test_log_append_time_is_the_brokers(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    """Whatever time the producer gives; consumers see which of the two it is."""
    topic = make_topic(**{"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    client.produce(servers, topic, [Message(b"old", timestamp=YESTERDAY_MS), Message(b"new")], codec="gzip")
    after = int(time.time() * 1000)
    records = client.consume(servers, topic, 2)
    assert {record.timestamp_type for record in records} == {LOG_APPEND_TIME}
    assert all(before <= record.timestamp <= after for record in records)
    assert len({record.timestamp for record in records}) == 1, "a batch is appended at one time"


def test_the_producer_gets_the_append_time(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"message.timestamp.type": "LogAppendTime"})
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, batches.batch(numbered(3, timestamp=YESTERDAY_MS)))
        records = batches.read(fetch(connection, topic, 0).records)
    assert answer.log_append_time_ms == records[0].timestamp > YESTERDAY_MS


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", CODECS)
def test_a_topic_stores_with_the_codec_it_asks_for(
    sent: str, wanted: str, broker: Broker, servers: str, make_topic: MakeTopic
) -> None:
    """`compression.type` other than `producer` means recompression, which changes nothing but the codec."""
    topic = make_topic(**{"compression.type": wanted})
    messages = [Message(b"a" * 3000, b"k", (("h", b"v"), ("n", None)), YESTERDAY_MS), Message(None, b"tombstone")]
    LIBRDKAFKA.produce(servers, topic, messages, codec=sent)
    assert _stored_codec(broker, topic) == CODEC_NUMBERS[wanted.replace("uncompressed", "none")]
    for reader in DRIVERS:
        if reader.has_codec(wanted.replace("uncompressed", "none")):
            first, second = reader.consume(servers, topic, 2)
            assert first[3:] == (b"k", b"a" * 3000, messages[0].headers)
            assert first.timestamp == YESTERDAY_MS
            assert second[3:] == (b"tombstone", None, ())


@pytest.mark.parametrize("codec", CODECS)
def test_by_default_the_producers_codec_is_kept(
    client: Driver, codec: str, broker: Broker, servers: str, topic: str
) -> None:
    if not client.has_codec(codec):
        pytest.skip(f"{client.name} has no {codec} here")
    if codec == "lz4" and client is LIBRDKAFKA and not _serves(broker, ApiKey.FIND_COORDINATOR):
        pytest.skip("librdkafka compresses with lz4 only where FindCoordinator is served")
    client.produce(servers, topic, [Message(b"a" * 3000)], codec=codec)
    assert _stored_codec(broker, topic) == CODEC_NUMBERS[codec]


def test_idempotence_and_recompression_go_together(servers: str, make_topic: MakeTopic) -> None:
    """A recompressed batch keeps its producer, epoch and sequence."""
    topic = make_topic(**{"compression.type": "zstd"})
    offsets = LIBRDKAFKA.produce(servers, topic, numbered(500), codec="gzip", idempotent=True, batch_bytes=1000)
    assert offsets == list(range(500))
    assert [record.key for record in LIBRDKAFKA.consume(servers, topic, 500)] == [b"k%d" % i for i in range(500)]


def test_a_compacted_topic_refuses_records_without_a_key(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"cleanup.policy": "compact"})
    client.produce(servers, topic, [Message(b"v", b"k")])
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(b"no key")])
    # aiokafka has no name for error 87 and calls it unknown.
    assert refused.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert client.watermarks(servers, topic) == (0, 1)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_records_without_a_key_are_named(codec: str, broker: Broker, make_topic: MakeTopic) -> None:
    """KIP-467: from version 8 on the answer says which; before, there was only the error."""
    topic = make_topic(**{"cleanup.policy": "compact"})
    records = batches.batch([Message(b"0", b"k"), Message(b"1"), Message(b"2", b"k"), Message(b"3")], codec=codec)
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, records, version=8)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert answer.base_offset == -1
        assert [error.batch_index for error in answer.record_errors] == [1, 3]
        assert all(error.batch_index_error_message for error in answer.record_errors)
        assert answer.error_message
        assert produce(connection, topic, records, version=7).error_code == ErrorCode.INVALID_RECORD


def test_a_record_from_the_future_is_refused_where_the_topic_says_so(
    client: Driver, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"message.timestamp.after.max.ms": 3_600_000})
    client.produce(servers, topic, [Message(b"v")])
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(b"v", timestamp=int(time.time() * 1000) + 2 * 3_600_000)])
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


def test_a_record_from_long_ago_is_refused_where_the_topic_says_so(
    client: Driver, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"message.timestamp.before.max.ms": 3_600_000})
    client.produce(servers, topic, [Message(b"v")])
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(b"v", timestamp=YESTERDAY_MS)])
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


def test_records_are_read_across_many_segments(
    client: Driver, broker: Broker, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"segment.bytes": 4096})
    messages = numbered(300, size=200)
    client.produce(servers, topic, messages, batch_bytes=1000)
    segments = sorted(path.name for path in Path(broker.data_dir, f"{topic}-0").glob("*.log"))
    assert len(segments) > 10
    assert [record.value for record in client.consume(servers, topic, 300)] == [message.value for message in messages]
    from_middle = client.consume(servers, topic, 100, offset=200)
    assert [record.offset for record in from_middle] == list(range(200, 300))


def test_flushing_every_message_still_answers(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    """With `flush.messages=1` an answer waits for the disk."""
    topic = make_topic(**{"flush.messages": 1})
    assert client.produce(servers, topic, numbered(10)) == list(range(10))
    assert client.watermarks(servers, topic) == (0, 10)
