"""Bytes exchanged with the record parsers of other clients, kafka-python and aiokafka, in every magic.

aiokafka brings every codec; kafka-python only those whose libraries are installed beside it.
"""

import warnings
from typing import Any

import aiokafka.record.default_records as aiokafka_default
import aiokafka.record.legacy_records as aiokafka_legacy
import aiokafka.record.memory_records as aiokafka_memory
import pytest

from tests.unit.records.golden import RECORDS
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.header import check_crc, read_header
from tidelog.records.legacy import convert_down, iterate_legacy_records
from tidelog.records.record import Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that Python gave up
    import kafka.codec
    import kafka.record.default_records as kafka_default
    import kafka.record.legacy_records as kafka_legacy
    import kafka.record.memory_records as kafka_memory

KAFKA_PYTHON = [
    codec
    for codec, is_there in {
        Codec.NONE: True,
        Codec.GZIP: True,
        Codec.SNAPPY: kafka.codec.has_snappy(),
        Codec.LZ4: kafka.codec.has_lz4(),
        Codec.ZSTD: kafka.codec.has_zstd(),
    }.items()
    if is_there
]
MAGIC_2 = [("kafka-python", codec) for codec in KAFKA_PYTHON] + [("aiokafka", codec) for codec in Codec]
LEGACY = [(client, codec, magic) for client, codec in MAGIC_2 if codec is not Codec.ZSTD for magic in (0, 1)]
# aiokafka refuses LZ4 in magic 0, whose frames had a wrong checksum; test_compression.py holds ours to Kafka's bytes.
LEGACY_READ = [case for case in LEGACY if case[1:] != (Codec.LZ4, 0)]

READERS: dict[str, Any] = {"kafka-python": kafka_memory.MemoryRecords, "aiokafka": aiokafka_memory.MemoryRecords}
BUILDERS: dict[str, Any] = {
    "kafka-python": kafka_default.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_default.DefaultRecordBatchBuilder,
}
LEGACY_BUILDERS: dict[str, Any] = {
    "kafka-python": kafka_legacy.LegacyRecordBatchBuilder,
    "aiokafka": aiokafka_legacy.LegacyRecordBatchBuilder,
}
FROM_ZERO = [record._replace(offset=index) for index, record in enumerate(RECORDS)]


def read_by(client: str, data: bytes) -> list[Record]:
    records: list[Record] = []
    batches = READERS[client](data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
            timestamp = -1 if record.timestamp is None else record.timestamp
            records.append(Record(record.offset, timestamp, key, value, tuple(record.headers)))
    return records


@pytest.mark.parametrize(("client", "codec"), MAGIC_2)
def test_clients_read_our_batches(client: str, codec: Codec) -> None:
    assert read_by(client, build_batch(RECORDS, base_offset=41, codec=codec)) == RECORDS


@pytest.mark.parametrize(("client", "codec"), MAGIC_2)
def test_we_read_the_batches_of_clients(client: str, codec: Codec) -> None:
    builder = BUILDERS[client](
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=12,
        producer_epoch=3,
        base_sequence=77,
        batch_size=1 << 20,
    )
    for record in FROM_ZERO:
        assert (
            builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers)) is not None
        )
    batch = bytes(builder.build())
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, 77)
    assert header.is_transactional
    assert list(iterate_records(batch)) == FROM_ZERO


@pytest.mark.parametrize(("client", "codec", "magic"), LEGACY_READ)
def test_clients_read_our_message_sets(client: str, codec: Codec, magic: int) -> None:
    message_set = convert_down(build_batch(RECORDS, base_offset=41, codec=codec), magic)
    expected = [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in RECORDS]
    assert read_by(client, message_set) == expected


@pytest.mark.parametrize(("client", "codec", "magic"), LEGACY_READ)
def test_we_read_the_message_sets_of_clients(client: str, codec: Codec, magic: int) -> None:
    builder = LEGACY_BUILDERS[client](magic=magic, compression_type=codec, batch_size=1 << 20)
    for record in FROM_ZERO:
        assert builder.append(record.offset, record.timestamp, record.key, record.value) is not None
    expected = [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in FROM_ZERO]
    assert list(iterate_legacy_records(bytes(builder.build()))) == expected
