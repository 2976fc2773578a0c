"""A second copy of the transactions that SQLite may still lose: one checksummed entry for each, in a file of its own.

SQLite ends its write-ahead log at the first frame whose checksum is wrong, and says nothing: one flipped bit takes
every transaction behind it, though each was synced. The journal holds the same transactions since the last checkpoint,
so the store can carry out again what the tree has lost. Entries are written after the commit and not synced: the tree
is the first copy, and a crash of the process leaves both.

    entry   length int32, CRC-32C uint32 of all that follows, zxid int64, wall clock ms int64, operations as JSON
"""

import json
import logging
import os
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.metadata._database import FILE_MODE, forbid_others
from tidelog.metadata.store import Check, Create, Delete, Operation, Set
from tidelog.records.checksum import crc32c

JOURNAL_BYTES_MAX: Final = 8 << 20
"""Beyond this size the store checkpoints the tree and begins a new journal."""

_HEAD: Final = Struct(">iI")
_BODY: Final = Struct(">qq")
_KINDS: Final = {"create": Create, "set": Set, "delete": Delete, "check": Check}

logger = logging.getLogger(__name__)


class JournalEntry(NamedTuple):
    """One transaction of the tree."""

    zxid: int
    wall_ms: int
    operations: list[Operation]


class Journal:
    """The journal at `path`. A journal that cannot be written is given up: the tree is whole without it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0
        self._descriptor = -1

    def read(self) -> list[JournalEntry]:
        """The entries up to the first that is damaged or cut off; none if there is no journal."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return []
        entries, end = parse_journal(data)
        if end < len(data):
            logger.warning("%s is not readable behind byte %d of %d", self.path, end, len(data))
        return entries

    def begin(self) -> None:
        """Begin an empty journal: the tree's own file holds everything."""
        self.close()
        try:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            forbid_others(self.path)
        except OSError as error:
            logger.warning("%s cannot be written, so the metadata has no second copy: %s", self.path, error)

    def append(self, zxid: int, wall_ms: int, operations: Sequence[Operation]) -> None:
        """Add a transaction that is committed."""
        if self._descriptor < 0:
            return
        entry = format_entry(zxid, wall_ms, operations)
        try:
            written = os.write(self._descriptor, entry)
            if written < len(entry):
                raise OSError(f"only {written} of {len(entry)} bytes were written")
        except OSError as error:
            # An entry that is missing would make those behind it worthless.
            logger.warning("%s cannot be written, so the metadata has no second copy: %s", self.path, error)
            self.remove()
            return
        self.size_bytes += len(entry)

    def put_aside(self) -> None:
        """Keep the file under another name: it cannot be used, but an operator may want to read it."""
        self.close()
        try:
            os.replace(self.path, self.path + ".unused")
        except OSError as error:
            logger.warning("%s cannot be renamed: %s", self.path, error)

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        try:
            os.unlink(self.path)
        except OSError:
            return

    def close(self) -> None:
        self.size_bytes = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def format_entry(zxid: int, wall_ms: int, operations: Sequence[Operation]) -> bytes:
    text = json.dumps([_encode(operation) for operation in operations], separators=(",", ":")).encode()
    body = _BODY.pack(zxid, wall_ms) + text
    return _HEAD.pack(len(body), crc32c(body)) + body


def parse_journal(data: bytes) -> tuple[list[JournalEntry], int]:
    """The whole entries at the start of `data`, and where the first that is not begins."""
    entries: list[JournalEntry] = []
    position = 0
    while position + _HEAD.size + _BODY.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        start = position + _HEAD.size
        body = data[start : start + length] if length >= _BODY.size else b""
        if len(body) < max(length, _BODY.size) or crc32c(body) != checksum:
            break
        zxid, wall_ms = _BODY.unpack_from(body)
        entries.append(JournalEntry(zxid, wall_ms, [_decode(fields) for fields in json.loads(body[_BODY.size :])]))
        position = start + length
    return entries, position


def _encode(operation: Operation) -> tuple[Any, ...]:
    # Data may be any bytes; latin-1 gives each a character of its own.
    if isinstance(operation, Create):
        path, data, ephemeral, sequential = operation
        return "create", path, data.decode("latin-1"), ephemeral, sequential
    if isinstance(operation, Set):
        return "set", operation.path, operation.data.decode("latin-1"), operation.expected_version
    return "delete" if isinstance(operation, Delete) else "check", *operation


def _decode(fields: list[Any]) -> Operation:
    name, *values = fields
    if name in ("create", "set"):
        values[1] = values[1].encode("latin-1")
    operation: Operation = _KINDS[name](*values)
    return operation
