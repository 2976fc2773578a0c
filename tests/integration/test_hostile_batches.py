"""Record batches that are not what they say: the partition gets an error, the others of the request are written.

Kafka decodes the records of every batch. Here only topics that ask for something in the records have them looked at,
so what is wrong inside a batch is found there, and what is wrong with the batch itself is found everywhere.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import crc32c
import pytest

from tests.integration.raw_client import RawClient, batch_of, fetch_request, produce, produce_request
from tests.integration.siege import CALM_TOPIC, siege
from tidelog.records.compression import Codec, compress
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "lz4"},
}
BOMB_BYTES = 200_000_000
COUNT_POSITION = 57
LAST_DELTA_POSITION = 23
ATTRIBUTES_POSITION = 21


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        for topic, config in TOPICS.items():
            broker.create_topic(topic, 2, config=config)
        yield broker


def good_batch() -> bytes:
    """With a key, so that compacted topics take it."""
    return sealed(b"\x10\x00\x00\x00\x02k\x02v\x00")


def sealed(payload: bytes, *, attributes: int = 0, count: int = 1, last_delta: int | None = None) -> bytes:
    """A batch with a correct length and checksum, whatever it holds."""
    delta = count - 1 if last_delta is None else last_delta
    checked = struct.pack(">hiqqqhii", attributes, delta, 0, 0, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def patched(position: int, form: str, value: int) -> bytes:
    """A batch with a number overwritten, its checksum left as it was."""
    batch = bytearray(good_batch())
    struct.pack_into(form, batch, position, value)
    return bytes(batch)


BROKEN_BATCHES: dict[str, tuple[bytes | None, ErrorCode]] = {
    "a wrong checksum": (patched(17, ">I", 12345), ErrorCode.CORRUPT_MESSAGE),
    "a wrong byte": (good_batch()[:-2] + b"w\x00", ErrorCode.CORRUPT_MESSAGE),
    "a length beyond the end": (patched(8, ">i", 1_000_000), ErrorCode.INVALID_RECORD),
    "a length of two billion": (patched(8, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "a negative length": (patched(8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "a length of zero": (patched(8, ">i", 0), ErrorCode.CORRUPT_MESSAGE),
    "an unknown codec": (sealed(b"xxxx", attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a negative count": (sealed(b"", count=-1), ErrorCode.INVALID_RECORD),
    "no records": (sealed(b"", count=0), ErrorCode.INVALID_RECORD),
    "a count of two billion": (sealed(b"", count=2**31 - 1, last_delta=0), ErrorCode.INVALID_RECORD),
    "more offsets than records": (sealed(b"\x00", count=1, last_delta=10), ErrorCode.INVALID_RECORD),
    "a base offset": (patched(0, ">q", 42), ErrorCode.INVALID_RECORD),
    "an unknown magic": (patched(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "an old magic": (patched(16, ">b", 1), ErrorCode.INVALID_RECORD),
    "the bit of a control batch": (sealed(b"\x00", attributes=0x20), ErrorCode.INVALID_RECORD),
    "two batches": (good_batch() * 2, ErrorCode.INVALID_RECORD),
    "half a batch": (good_batch()[:40], ErrorCode.INVALID_RECORD),
    "a few bytes": (b"abc", ErrorCode.INVALID_RECORD),
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "null": (None, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("fault", BROKEN_BATCHES)
def test_a_broken_batch_fails_its_partition_alone(broker: Broker, topic: str, fault: str) -> None:
    batch, expected = BROKEN_BATCHES[fault]
    assert answers(broker, topic, batch) == [expected, ErrorCode.NONE]


def record(body: bytes) -> bytes:
    """A record of a short body, its length in front."""
    return bytes((len(body) << 1,)) + body


BROKEN_RECORDS: dict[str, Callable[[], bytes]] = {
    "no records at all": lambda: sealed(b"", count=3),
    "a record that is cut off": lambda: sealed(b"\x10\x00\x00\x00\x02k"),
    "bytes after the last record": lambda: sealed(record(b"\x00\x00\x00\x02k\x02v\x00") + b"left over"),
    "a key of two billion bytes": lambda: sealed(record(b"\x00\x00\x00\xfe\xff\xff\xff\x0fk\x02v\x00")),
    "a varint without an end": lambda: sealed(b"\xff" * 40),
    "a record of minus five bytes": lambda: sealed(b"\x09" + b"\x00" * 20),
    "two billion headers": lambda: sealed(record(b"\x00\x00\x00\x02k\x02v\xfe\xff\xff\xff\x0f")),
    "offsets that run backwards": lambda: sealed(
        record(b"\x00\x00\x02\x02k\x02v\x00") + record(b"\x00\x00\x00\x02k\x02v\x00"), count=2
    ),
    "noise for gzip": lambda: sealed(b"noise" * 20, attributes=Codec.GZIP),
    "noise for snappy": lambda: sealed(b"noise" * 20, attributes=Codec.SNAPPY),
    "noise for lz4": lambda: sealed(b"noise" * 20, attributes=Codec.LZ4),
    "noise for zstd": lambda: sealed(b"noise" * 20, attributes=Codec.ZSTD),
    "a stream that is cut off": lambda: sealed(compress(Codec.ZSTD, bytes(5000))[:-5], attributes=Codec.ZSTD),
}
REFUSED = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


@pytest.mark.parametrize("fault", BROKEN_RECORDS)
def test_broken_records_are_found_where_records_are_looked_at(broker: Broker, fault: str) -> None:
    first, second = answers(broker, "compacted", BROKEN_RECORDS[fault]())
    assert first in REFUSED
    assert second is ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.ZSTD])
@pytest.mark.parametrize("topic", ["compacted", "recompressed"])
def test_a_bomb_is_refused_before_it_fills_the_memory(broker: Broker, topic: str, codec: Codec) -> None:
    """A batch within `max.message.bytes` that claims, or has, two hundred million bytes inside."""
    payload = {Codec.GZIP: gzip_bomb, Codec.SNAPPY: snappy_bomb, Codec.ZSTD: zstd_bomb}[codec]()
    assert len(payload) < 1_000_000
    with siege(broker, growth_bytes_max=100 << 20):
        for _ in range(3):
            first, second = answers(broker, topic, sealed(payload, attributes=codec))
            assert first in REFUSED
            assert second is ErrorCode.NONE


def gzip_bomb() -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [deflater.compress(bytes(1 << 20)) for _ in range(BOMB_BYTES >> 20)]
    return b"".join((*parts, deflater.flush()))


def snappy_bomb() -> bytes:
    """A block that says how large it becomes."""
    size, varint = BOMB_BYTES, bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(varint) + bytes((size,)) + b"\x00x" * 100


def zstd_bomb() -> bytes:
    return compress(Codec.ZSTD, bytes(BOMB_BYTES))


def test_a_bomb_of_records_is_not_taken_apart(broker: Broker) -> None:
    """Millions of equal records in a few kilobytes: an object for each would fill the memory."""
    count = 2_000_000
    payload = compress(Codec.ZSTD, record(b"\x00\x00\x00\x02k\x02v\x00") * count)
    bomb = sealed(payload, attributes=Codec.ZSTD, count=count)
    with siege(broker, growth_bytes_max=100 << 20):
        for topic in ("compacted", "recompressed"):
            assert answers(broker, topic, bomb) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


@pytest.mark.parametrize("version", [0, 2])
def test_what_cannot_be_converted_for_an_old_client_is_an_error_of_its_partition(broker: Broker, version: int) -> None:
    """The plain topic took it unseen. An old fetch that waits for it, and one that comes later, are both answered."""
    bombs = [sealed(b"noise" * 20, attributes=Codec.GZIP), sealed(gzip_bomb(), attributes=Codec.GZIP)]
    with siege(broker, growth_bytes_max=100 << 20), RawClient(broker.port) as client, RawClient(broker.port) as old:
        for bomb in bombs:
            end = produce(client, "plain", 0, batch_of([b"value"])).base_offset + 1
            old.send(fetch_request("plain", {0: end}, max_wait_ms=20_000), version)
            old.send(fetch_request("plain", {1: 0}, max_wait_ms=20_000), version)
            produce(client, "plain", 1, batch_of([b"value"]))
            assert produce(client, "plain", 0, bomb).error_code == ErrorCode.NONE
            waited = old.answer(messages.FetchRequest, version).responses[0].partitions[0]
            assert waited.error_code == ErrorCode.CORRUPT_MESSAGE
            other = old.answer(messages.FetchRequest, version).responses[0].partitions[0]
            assert other.error_code == ErrorCode.NONE
            later = old.call(fetch_request("plain", {0: end}), version).responses[0].partitions[0]
            assert later.error_code == ErrorCode.CORRUPT_MESSAGE


def answers(broker: Broker, topic: str, batch: bytes | None) -> list[ErrorCode]:
    """What becomes of two partitions of one request, of which the second gets a good batch."""
    with RawClient(broker.port) as client:
        response = client.call(produce_request(topic, {0: batch, 1: good_batch()}), 9)
        return [ErrorCode(partition.error_code) for partition in response.responses[0].partition_responses]
