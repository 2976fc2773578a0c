"""Record batches and message sets as clients build them: aiokafka's builders, which know every magic and codec."""

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.compat.clients.drivers import Message, Stored
from tests.unit.present import present

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(
    messages: Sequence[Message],
    *,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """One record batch of magic 2."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODEC_NUMBERS[codec],
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        batch_size=64 << 20,
    )
    for offset, message in enumerate(messages):
        timestamp = 0 if message.timestamp is None else message.timestamp
        builder.append(offset, timestamp, message.key, message.value, list(message.headers))
    return bytes(builder.build())


def message_set(messages: Sequence[Message], magic: int, *, codec: str = "none") -> bytes:
    """Messages of magic 0 or 1; with a codec, one message that wraps them."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=CODEC_NUMBERS[codec], batch_size=64 << 20)
    for offset, message in enumerate(messages):
        builder.append(offset, message.timestamp if magic else None, message.key, message.value)
    return bytes(builder.build())


def read(data: bytes | bytearray | memoryview | None) -> list[Stored]:
    """The records of batches or message sets, by aiokafka's parser, checksums verified."""
    records = MemoryRecords(bytes(present(data)))
    found = []
    while records.has_next():
        parsed = records.next_batch()
        assert parsed.validate_crc()
        found += [Stored(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers)) for r in parsed]
    return found


def numbered(count: int, *, first: int = 0, timestamp: int | None = None, size: int = 0) -> list[Message]:
    """Messages that say which they are, with timestamps that count up."""
    return [
        Message(b"%d" % index + b"." * size, b"k%d" % index, timestamp=None if timestamp is None else timestamp + index)
        for index in range(first, first + count)
    ]
