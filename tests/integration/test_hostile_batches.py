"""Record batches that are not what they say: the partition gets an error, the others of the request are written."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.integration.broken_batches import (
    BROKEN_HEADERS,
    BROKEN_RECORDS,
    KEPT,
    KEPT_UNLESS_COMPRESSED,
    BrokenBatch,
    good_batch,
    record,
    sealed,
)
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    fetch_records,
    fetch_request,
    produce,
    produce_request,
)
from tests.integration.siege import CALM_TOPIC, siege
from tidelog.records.compression import Codec, compress
from tidelog.records.header import HEADER_BYTES
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "lz4"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
BOMB_BYTES = 200_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        for topic, config in TOPICS.items():
            broker.create_topic(topic, 2, config=config)
        yield broker


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("fault", BROKEN_HEADERS)
def test_a_broken_batch_fails_its_partition_alone(broker: Broker, topic: str, fault: str) -> None:
    batch, expected, _ = BROKEN_HEADERS[fault]
    assert answers(broker, topic, batch) == [expected, ErrorCode.NONE]


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("case", BROKEN_RECORDS.values(), ids=BROKEN_RECORDS.keys())
def test_broken_records_are_refused_whatever_the_topic(broker: Broker, topic: str, case: BrokenBatch) -> None:
    """Their checksum is right, so nothing but a look at the records finds them. Fails on 4724f6e."""
    assert answers(broker, topic, case.records) == [case.ours, ErrorCode.NONE]


def test_without_the_c_module_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_SPEEDUPS", "off")
    with Broker(process=True) as broker:
        broker.create_topic("plain", 2)
        for name, (batch, expected, _) in BROKEN_RECORDS.items():
            assert answers(broker, "plain", batch) == [expected, ErrorCode.NONE], name


@pytest.mark.parametrize("name", KEPT)
def test_what_kafka_stores_is_stored_in_order(broker: Broker, name: str) -> None:
    """Records that disagree with their batch about offsets are read back with offsets that count up."""
    batch = KEPT[name]
    for topic in TOPICS:
        with RawClient(broker.port) as client:
            answer = produce(client, topic, 0, batch)
            assert answer.error_code == ErrorCode.NONE
            records = fetch_records(client, topic, 0, answer.base_offset)
        count = int.from_bytes(batch[HEADER_BYTES - 4 : HEADER_BYTES], "big")
        assert [read.offset for read in records] == [answer.base_offset + index for index in range(count)]
    if name in KEPT_UNLESS_COMPRESSED:
        compressed = sealed(compress(Codec.LZ4, batch[HEADER_BYTES:]), attributes=Codec.LZ4, count=2)
        assert answers(broker, "plain", compressed) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


REFUSED = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.ZSTD])
@pytest.mark.parametrize("topic", ["plain", "recompressed"])
def test_a_bomb_is_refused_before_it_fills_the_memory(broker: Broker, topic: str, codec: Codec) -> None:
    """A batch within `max.message.bytes` that claims, or has, two hundred million bytes inside."""
    payload = bomb_of(codec)
    assert len(payload) < 1_000_000
    with siege(broker, growth_bytes_max=100 << 20):
        for _ in range(3):
            first, second = answers(broker, topic, sealed(payload, attributes=codec))
            assert first in REFUSED
            assert second is ErrorCode.NONE


@cache
def bomb_of(codec: Codec) -> bytes:
    """Made once: to compress so much takes longer than to refuse it."""
    return {Codec.GZIP: gzip_bomb, Codec.SNAPPY: snappy_bomb, Codec.ZSTD: zstd_bomb}[codec]()


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
    payload = compress(Codec.ZSTD, record() * count)
    bomb = sealed(payload, attributes=Codec.ZSTD, count=count)
    with siege(broker, growth_bytes_max=100 << 20):
        for topic in TOPICS:
            assert answers(broker, topic, bomb) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


@pytest.mark.parametrize("version", [0, 2])
def test_what_cannot_be_converted_for_an_old_client_is_an_error_of_its_partition(version: int, tmp_path: Path) -> None:
    """No broker that checks records stores such a batch; a directory that another one filled may hold it."""
    bombs = [sealed(b"noise" * 20, attributes=Codec.GZIP), sealed(bomb_of(Codec.GZIP), attributes=Codec.GZIP)]
    with Broker(process=True, data_dir=tmp_path) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        broker.create_topic("filled", 3)
        with RawClient(broker.port) as client:
            for partition in range(3):
                produce(client, "filled", partition, batch_of([b"value"]))
        broker.stop()
        for partition, bomb in enumerate(bombs):
            append_to_segment(tmp_path / f"filled-{partition}", bomb)
        broker.start()
        with siege(broker, growth_bytes_max=100 << 20), RawClient(broker.port) as old:
            for partition in range(len(bombs)):
                old.send(fetch_request("filled", {partition: 1}, max_wait_ms=20_000), version)
                old.send(fetch_request("filled", {2: 0}, max_wait_ms=20_000), version)
                damaged = old.answer(messages.FetchRequest, version).responses[0].partitions[0]
                assert damaged.error_code == ErrorCode.CORRUPT_MESSAGE
                other = old.answer(messages.FetchRequest, version).responses[0].partitions[0]
                assert other.error_code == ErrorCode.NONE


def append_to_segment(directory: Path, batch: bytes) -> None:
    """Write a batch behind the one record of a partition, as offset 1."""
    with (directory / f"{0:020}.log").open("ab") as segment:
        segment.write(struct.pack(">qi", 1, len(batch) - 12) + batch[12:])


def answers(broker: Broker, topic: str, batch: bytes | None) -> list[ErrorCode]:
    """What becomes of two partitions of one request, of which the second gets a good batch."""
    with RawClient(broker.port) as client:
        response = client.call(produce_request(topic, {0: batch, 1: good_batch()}), 9)
        return [ErrorCode(partition.error_code) for partition in response.responses[0].partition_responses]
