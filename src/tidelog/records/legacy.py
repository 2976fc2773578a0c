"""Conversion between record batches and the message sets of old clients.

Only magic 2 is stored. Message sets in Produce 0 to 2 become one batch (in `validation`, with the parts of
`convert_up`); responses to Fetch 0 and 1 are converted down to magic 0, those to Fetch 2 and 3 to magic 1. Data that
the old formats do not have is lost: headers always, timestamps in magic 0, and all control batches.
"""

from collections.abc import Iterator

from tidelog.records._message_set import Message, MessageSet, encode_message, iterate_messages, read_message_set, unwrap
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    Codec,
    compress,
    compress_lz4_for_magic_0,
)
from tidelog.records.errors import UnsupportedCompressionError
from tidelog.records.header import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, BatchHeader, TimestampType
from tidelog.records.record import Record

__all__ = ["Message", "MessageSet", "convert_down", "convert_up", "iterate_legacy_records", "read_message_set"]


def iterate_legacy_records(buffer: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of a message set as a consumer reads it: any number of messages, wrappers opened."""
    for message in iterate_messages(buffer):
        if message.attributes & 0x07:
            yield from unwrap(message, limit_bytes)
        else:
            yield Record(message.offset, message.timestamp, message.key, message.value)


def convert_up(
    message_set: Buffer,
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    codec: Codec | None = None,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """One batch of magic 2 with the records of a message set, offsets counted from `base_offset`.

    The codec is kept unless one is given. Records of magic 0 have no timestamp, which is written as -1.
    """
    messages = read_message_set(message_set, limit_bytes)
    return build_batch(
        [record._replace(offset=base_offset + index) for index, record in enumerate(messages.records)],
        base_offset=base_offset,
        codec=messages.codec if codec is None else codec,
        level=level,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        partition_leader_epoch=partition_leader_epoch,
    )


def convert_down(
    batches: Buffer, to_magic: int, *, first_offset: int = 0, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The message set of magic 0 or 1 with the records of whole batches, incomplete ones at the end left out.

    Uncompressed records before `first_offset` are dropped: a reader that starts in the middle of a batch would get
    earlier messages, and old versions of librdkafka deliver them. A wrapper is kept whole.

    Raises UnsupportedCompressionError for Zstandard, which the old formats do not support.
    """
    if to_magic not in (0, 1):
        raise ValueError(f"cannot convert down to magic {to_magic}, only to 0 or 1")
    parts: list[bytes] = []
    for position, header in iterate_batches(batches):
        if header.is_control:
            continue
        if header.codec is Codec.ZSTD:
            raise UnsupportedCompressionError(
                f"zstd batch at offset {header.base_offset} cannot be converted to magic {to_magic}"
            )
        records = list(iterate_records(batches, position, limit_bytes=limit_bytes))
        if header.is_compressed:
            if records:
                parts.append(_wrap(header, records, to_magic))
        else:
            parts.append(
                _encode_all([record for record in records if record.offset >= first_offset], header, to_magic, 0)
            )
    return b"".join(parts)


def _wrap(header: BatchHeader, records: list[Record], magic: int) -> bytes:
    """One compressed message with all the records."""
    inner = _encode_all(records, header, magic, records[0].offset if magic else 0)
    codec = header.codec
    value = compress_lz4_for_magic_0(inner) if codec is Codec.LZ4 and not magic else compress(codec, inner)
    timestamp = header.max_timestamp if header.is_log_append_time else max(record.timestamp for record in records)
    return encode_message(records[-1].offset, magic, codec | _timestamp_bit(header, magic), timestamp, None, value)


def _encode_all(records: list[Record], header: BatchHeader, magic: int, base_offset: int) -> bytes:
    attributes = _timestamp_bit(header, magic)
    return b"".join(
        encode_message(record.offset - base_offset, magic, attributes, record.timestamp, record.key, record.value)
        for record in records
    )


def _timestamp_bit(header: BatchHeader, magic: int) -> int:
    return LOG_APPEND_TIME_BIT if magic and header.is_log_append_time else 0
