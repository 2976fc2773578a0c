"""What one client writes every client reads, byte for byte, whatever the codec."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import CODECS, DRIVERS, Driver, Message, Stored
from tests.compat.clients.drivers.types import CREATE_TIME

MESSAGES = [
    Message(b"plain"),
    Message(b"with a key", b"key"),
    Message(None, b"tombstone"),
    Message(b"", b""),
    Message(b"one header", headers=(("h", b"v"),)),
    Message(b"empty and repeated headers", headers=(("b", b""), ("a", b"1"), ("b", b"2"), ("a", b"1"))),
    Message("ünïcödé 日本".encode(), "schlüssel".encode(), headers=(("kopf-ä", b"\x00\xff"),)),
    Message(b"explicit time", timestamp=1_600_000_000_123),
    Message(bytes(range(256)) * 40, b"compresses well"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A process of its own, as users run it."""
    with Broker(process=True) as running:
        yield running


def _content(records: list[Stored]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.headers) for record in records]


WANTED = [(message.key, message.value, message.headers) for message in MESSAGES]


@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_back_what_it_wrote(client: Driver, codec: str, servers: str, topic: str) -> None:
    """Null and empty keys and values stay apart, header order and repeated keys survive, times are kept."""
    if not client.has_codec(codec):
        pytest.skip(f"{client.name} has no {codec} here")
    offsets = client.produce(servers, topic, MESSAGES, codec=codec)
    assert offsets == list(range(len(MESSAGES)))
    records = client.consume(servers, topic, len(MESSAGES))
    assert [record.offset for record in records] == offsets
    assert _content(records) == WANTED
    assert records[7].timestamp == 1_600_000_000_123
    assert {record.timestamp_type for record in records} == {CREATE_TIME}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("writer", "reader"), list(permutations(DRIVERS, 2)), ids=lambda driver: driver.name)
def test_every_client_reads_what_another_wrote(
    writer: Driver, reader: Driver, codec: str, servers: str, topic: str
) -> None:
    """The broker stores the producer's bytes as they are, so this is also a test that it changes nothing in them."""
    if not (writer.has_codec(codec) and reader.has_codec(codec)):
        pytest.skip(f"one of the two has no {codec} here")
    writer.produce(servers, topic, MESSAGES, codec=codec)
    assert _content(reader.consume(servers, topic, len(MESSAGES))) == WANTED


def test_one_topic_holds_batches_of_every_codec(servers: str, topic: str) -> None:
    """A reader meets a new codec in the middle of one fetch."""
    for codec in CODECS:
        DRIVERS[0].produce(servers, topic, MESSAGES, codec=codec)
    for reader in DRIVERS:
        if all(map(reader.has_codec, CODECS)):
            assert _content(reader.consume(servers, topic, len(MESSAGES) * len(CODECS))) == WANTED * len(CODECS)


@pytest.mark.parametrize("reader", DRIVERS, ids=lambda driver: driver.name)
def test_nulls_stay_nulls(reader: Driver, servers: str, topic: str) -> None:
    """Records without key and value, and headers without value; only librdkafka lets a program send them."""
    messages = [Message(None, None), Message(None, None, (("a", None), ("b", b""), ("a", None)))]
    DRIVERS[0].produce(servers, topic, messages)
    assert _content(reader.consume(servers, topic, 2)) == [(None, None, ()), (None, None, messages[1].headers)]
