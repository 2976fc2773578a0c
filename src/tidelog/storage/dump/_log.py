"""The rows of a `.log` file: its batches and, if asked for, their records. See `dump`."""

import os
from collections.abc import Iterator

from tidelog.records.batch import iterate_records
from tidelog.records.compression import Codec
from tidelog.records.control import ControlType, control_type, parse_end_transaction_marker
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LEGACY_BYTES_MIN,
    LENGTH_PREFIX_BYTES,
    MAGIC_POSITION,
    SEQUENCE_MASK,
    BatchHeader,
    check_crc,
    is_legacy_intact,
    read_header,
    read_header_of_any_magic,
    read_length,
)
from tidelog.records.record import Record
from tidelog.storage.dump._rows import DumpOptions, DumpRow, note, problem
from tidelog.storage.names import offset_of


def dump_log(path: str, options: DumpOptions) -> Iterator[DumpRow]:
    """Batches in file order. It ends with a problem at bytes that are not a batch: nothing after them can be found."""
    start_offset = offset_of(os.path.basename(path))
    yield note(f"Log starting offset: {'unknown' if start_offset is None else start_offset}")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        limit = size if options.bytes_max is None else min(size, options.bytes_max)
        position = 0
        last_offset = -1
        while position < limit:
            batch = read_batch(file.fileno(), position, limit)
            if isinstance(batch, str):
                if limit == size:
                    left = f"Found {size - position} invalid bytes at the end of {os.path.basename(path)}"
                    yield problem(f"{left}: {batch} at position {position}")
                return
            yield batch_row(batch, position)
            if options.deep:
                for row, offset in _record_rows(batch, options):
                    if offset is not None:
                        if last_offset >= 0 and offset != last_offset + 1:
                            yield problem(f"Non-consecutive offsets: {last_offset} is followed by {offset}")
                        last_offset = offset
                    yield row
            position += len(batch)


def read_batch(descriptor: int, position: int, limit: int) -> bytes | str:
    """The whole batch at `position`, or a text that says why there is none."""
    head = os.pread(descriptor, LENGTH_PREFIX_BYTES + 5, position)
    if len(head) < LENGTH_PREFIX_BYTES + 5 or position + len(head) > limit:
        return "the header of a batch is cut off"
    size = read_length(head) + LENGTH_PREFIX_BYTES
    magic = head[MAGIC_POSITION]
    if magic > 2:
        return f"magic {magic} is unknown"
    if size < (HEADER_BYTES if magic == 2 else LEGACY_BYTES_MIN[magic]):
        return f"a size of {size} bytes is less than a header of magic {magic}"
    if position + size > limit:
        return f"a batch of {size} bytes is cut off after {limit - position}"
    data = os.pread(descriptor, size, position)
    return data if len(data) == size else "the file was cut off while it was read"


def batch_row(batch: bytes, position: int) -> DumpRow:
    """The row of a whole batch, of any magic."""
    if batch[MAGIC_POSITION] < 2:
        return _legacy_row(batch, position)
    header = read_header(batch)
    return DumpRow(
        "batch",
        {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon_ms,
            "position": position,
            _time_name(header.is_log_append_time): header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compresscodec": _codec_name(header.attributes & CODEC_MASK),
            "crc": header.crc,
            "isvalid": check_crc(batch, 0, header),
        },
    )


def _legacy_row(message: bytes, position: int) -> DumpRow:
    """A message of magic 0 or 1, as logs that were written before Kafka 0.11 hold them."""
    header = read_header_of_any_magic(message.ljust(HEADER_BYTES, b"\0"), 0)
    name = "NoTimestampType" if header.magic == 0 else _time_name(header.is_log_append_time)
    return DumpRow(
        "batch",
        {
            "offset": header.base_offset,
            "position": position,
            name: header.max_timestamp,
            "size": len(message),
            "magic": header.magic,
            "compresscodec": _codec_name(header.attributes & CODEC_MASK),
            "crc": header.crc,
            "isvalid": is_legacy_intact(message),
        },
    )


def _record_rows(batch: bytes, options: DumpOptions) -> Iterator[tuple[DumpRow, int | None]]:
    """Each record's row with its offset; a batch that cannot be decoded yields its problem and no offset."""
    if batch[MAGIC_POSITION] < 2:
        yield note(f"the messages inside a batch of magic {batch[MAGIC_POSITION]} are not shown"), None
        return
    header = read_header(batch)
    try:
        for record in iterate_records(batch):
            yield DumpRow("record", _record_fields(record, header, options)), record.offset
    except CorruptRecordError as error:
        yield problem(f"the records of the batch at offset {header.base_offset} cannot be read: {error}"), None


def _record_fields(record: Record, header: BatchHeader, options: DumpOptions) -> dict[str, object]:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & SEQUENCE_MASK
    fields: dict[str, object] = {
        "offset": record.offset,
        _time_name(header.is_log_append_time): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [key for key, _ in record.headers],
    }
    if header.is_control:
        fields.update(_control_fields(record))
    elif options.print_data:
        if record.key is not None:
            fields["key"] = record.key.decode("utf-8", "backslashreplace")
        if record.value is not None:
            fields["payload"] = record.value.decode("utf-8", "backslashreplace")
    return fields


def _control_fields(record: Record) -> dict[str, object]:
    kind = control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        marker = parse_end_transaction_marker(record)
        return {"endTxnMarker": kind.name, "coordinatorEpoch": marker.coordinator_epoch}
    return {"controlType": f"{kind.name}({int(kind)})"}


def _time_name(is_log_append_time: bool) -> str:
    return "LogAppendTime" if is_log_append_time else "CreateTime"


def _codec_name(number: int) -> str:
    return Codec(number).name.lower() if number < len(Codec) else f"unknown({number})"
