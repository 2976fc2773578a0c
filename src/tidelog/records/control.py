"""Control records, which a coordinator writes into a partition besides data.

A marker ends a transaction: a control batch of one record whose key is commit or abort and whose value has the epoch of
the coordinator. `builder` writes markers; the log's producer state, the cleaner and dump tools read them here.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from tidelog.records.errors import CorruptRecordError
from tidelog.records.record import Record

CONTROL_KEY = struct.Struct(">hh")
END_TRANSACTION_VALUE = struct.Struct(">hi")
CONTROL_VERSION = 0


class ControlType(IntEnum):
    """The kinds of control records; the last four belong to Raft logs and are only ever read."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


_LAST_KNOWN = max(ControlType)


class EndTransactionMarker(NamedTuple):
    """The content of a marker."""

    is_commit: bool
    coordinator_epoch: int


def control_type(record: Record) -> ControlType:
    """The kind of a record of a control batch; UNKNOWN for those that later versions may add."""
    key = record.key
    if key is None or len(key) < CONTROL_KEY.size:
        raise CorruptRecordError(
            f"control record at offset {record.offset} has a key of {len(key or b'')} bytes, not 4"
        )
    version, kind = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"control record at offset {record.offset} has key version {version}")
    return ControlType(kind) if 0 <= kind <= _LAST_KNOWN else ControlType.UNKNOWN


def parse_end_transaction_marker(record: Record) -> EndTransactionMarker:
    """Read a commit or abort marker; later versions of its value may only add to the end."""
    kind = control_type(record)
    if kind not in (ControlType.COMMIT, ControlType.ABORT):
        raise CorruptRecordError(
            f"control record at offset {record.offset} is {kind.name}, not the end of a transaction"
        )
    value = record.value
    if value is None or len(value) < END_TRANSACTION_VALUE.size:
        size = len(value or b"")
        raise CorruptRecordError(f"transaction marker at offset {record.offset} has a value of {size} bytes, not 6")
    version, coordinator_epoch = END_TRANSACTION_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"transaction marker at offset {record.offset} has value version {version}")
    return EndTransactionMarker(kind is ControlType.COMMIT, coordinator_epoch)
