"""Every file of a log directory as rows, with the fields and the order of Kafka's DumpLogSegments.

`tidelog log dump` prints the rows of `dump_file`. Files are only read, and their content is not trusted: corrupt parts
become rows of kind `problem`, and reading continues where possible. Only OSError is raised.

    kind                 of
    batch, record        .log
    offset-entry         .index
    time-entry           .timeindex
    aborted-transaction  .txnindex
    producer             .snapshot
    epoch                leader-epoch-checkpoint
    offset               the four offset checkpoints
    property             meta.properties, partition.metadata, .kafka_cleanshutdown
    note, problem        any
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

from tidelog.records.header import SEQUENCE_MASK
from tidelog.storage.checkpoints import (
    OFFSET_CHECKPOINT_FILES,
    CheckpointError,
    checkpoint_lines,
    parse_offset_checkpoint,
)
from tidelog.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from tidelog.storage.directories.meta_properties import META_PROPERTIES_FILE, MetaPropertiesError, parse_meta_properties
from tidelog.storage.dump._indexes import dump_offset_index, dump_time_index
from tidelog.storage.dump._log import dump_log
from tidelog.storage.dump._rows import DumpOptions, DumpRow, note, problem, row_text
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from tidelog.storage.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadataError,
    format_uuid,
    parse_partition_metadata,
)
from tidelog.storage.producers.snapshot import SnapshotEntry, read_snapshot
from tidelog.storage.segment.transaction_index import TRANSACTION_ENTRY

__all__ = ["DumpOptions", "DumpRow", "dump_file", "row_text"]

_ABORTED_FIELDS: Final = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")

Dumper = Callable[[str, DumpOptions], Iterator[DumpRow]]


def dump_file(
    path: str,
    *,
    print_data: bool = False,
    deep: bool = False,
    sanity_only: bool = False,
    verify_only: bool = False,
    bytes_max: int | None = None,
) -> Iterator[DumpRow]:
    """The rows of one file, whatever kind it is.

    `deep` adds a row for each record, `print_data` (which implies it) their keys and payloads. For indexes,
    `sanity_only` does the check a starting broker does and no more, `verify_only` compares with the log and shows only
    what is wrong. `bytes_max` reads no more than that much of a log.
    """
    options = DumpOptions(print_data, deep or print_data, sanity_only, verify_only, bytes_max)
    name = os.path.basename(path)
    for suffix in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    dumper = _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1])
    if dumper is None:
        known = ", ".join((*_BY_SUFFIX, *_BY_NAME))
        return iter([problem(f"{path} is not a file of a log directory; known are {known}")])
    return dumper(path, options)


def _dump_transaction_index(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    data = _read(path)
    rest = len(data) % TRANSACTION_ENTRY.size
    for values in TRANSACTION_ENTRY.iter_unpack(data[: len(data) - rest]):
        if values[0] != 0:
            yield problem(f"{path}: entry of unknown version {values[0]}")
        yield DumpRow("aborted-transaction", dict(zip(_ABORTED_FIELDS, values, strict=True)))
    if rest:
        yield problem(f"{path}: the last {rest} bytes are not a whole entry")


def _dump_snapshot(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    try:
        producers = read_snapshot(path)
    except CorruptSnapshotError as error:
        yield problem(str(error))
        return
    for producer in producers:
        yield DumpRow("producer", _producer_fields(producer))


def _producer_fields(producer: SnapshotEntry) -> dict[str, object]:
    first_offset = producer.transaction_first_offset
    fields: dict[str, object] = {
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": first_offset if first_offset >= 0 else None,
        "lastTimestamp": producer.timestamp,
    }
    if producer.last_offset >= 0:
        fields["firstSequence"] = (producer.last_sequence - producer.offset_delta) & SEQUENCE_MASK
        fields["lastSequence"] = producer.last_sequence
        fields["lastOffset"] = producer.last_offset
        fields["offsetDelta"] = producer.offset_delta
        fields["timestamp"] = producer.timestamp
    return fields


def _dump_epochs(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    try:
        lines = checkpoint_lines(_read(path), path, 0)
    except CheckpointError as error:
        yield problem(str(error))
        return
    for number, line in lines:
        fields = line.split()
        if len(fields) == 2 and all(field.isascii() and field.isdigit() and len(field) < 20 for field in fields):
            yield DumpRow("epoch", {"leaderEpoch": int(fields[0]), "startOffset": int(fields[1])})
        else:
            yield problem(f"malformed line {number} of {path}: {line[:80]!r} (expected `epoch start-offset`)")


def _dump_offsets(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    try:
        offsets = parse_offset_checkpoint(_read(path), path)
    except CheckpointError as error:
        yield problem(str(error))
        return
    for (topic, partition), offset in offsets.items():
        yield DumpRow("offset", {"topic": topic, "partition": partition, "offset": offset})


def _dump_partition_metadata(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    try:
        topic_id = parse_partition_metadata(_read(path), path)
    except PartitionMetadataError as error:
        yield problem(str(error))
        return
    yield DumpRow("property", {"version": 0, "topic_id": format_uuid(topic_id)})


def _dump_meta_properties(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    try:
        found = parse_meta_properties(_read(path), path)
    except MetaPropertiesError as error:
        yield problem(str(error))
        return
    fields: dict[str, object] = {"version": found.version}
    fields["node.id" if found.version else "broker.id"] = found.broker_id
    fields["cluster.id"] = found.cluster_id
    if found.directory_id is not None:
        fields["directory.id"] = found.directory_id
    yield DumpRow("property", fields | dict(found.others))


def _dump_clean_shutdown(path: str, _: DumpOptions) -> Iterator[DumpRow]:
    data = _read(path)
    if not data:
        yield note(f"{path} is empty: written by a Kafka version without broker epochs")
        return
    import json  # not needed to serve, only to look

    try:
        fields = json.loads(data)
    except ValueError as error:
        yield problem(f"{path} is not JSON: {error}")
        return
    if isinstance(fields, dict):
        yield DumpRow("property", fields)
    else:
        yield problem(f"{path} is not a JSON object")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


_BY_SUFFIX: Final[dict[str, Dumper]] = {
    LOG_SUFFIX: dump_log,
    OFFSET_INDEX_SUFFIX: dump_offset_index,
    TIME_INDEX_SUFFIX: dump_time_index,
    TRANSACTION_INDEX_SUFFIX: _dump_transaction_index,
    SNAPSHOT_SUFFIX: _dump_snapshot,
}
_BY_NAME: Final[dict[str, Dumper]] = {
    LEADER_EPOCH_CHECKPOINT: _dump_epochs,
    PARTITION_METADATA_FILE: _dump_partition_metadata,
    META_PROPERTIES_FILE: _dump_meta_properties,
    CLEAN_SHUTDOWN_FILE: _dump_clean_shutdown,
    **dict.fromkeys(OFFSET_CHECKPOINT_FILES, _dump_offsets),
}
