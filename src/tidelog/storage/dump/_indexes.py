"""The rows of `.index` and `.timeindex` files, compared with the log they lead into. See `dump`.

The files are read, not mapped: a dump must not change an index.
"""

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from tidelog.records.header import HEADER_BYTES, BatchHeader, read_header
from tidelog.storage.dump._rows import DumpOptions, DumpRow, note, problem
from tidelog.storage.names import LOG_SUFFIX, offset_of, segment_path
from tidelog.storage.segment.offset_index import OFFSET_ENTRY
from tidelog.storage.segment.time_index import TIME_ENTRY

_OFFSET_ENTRY: Final = "offset-entry"
_TIME_ENTRY: Final = "time-entry"
_ENTRY_KINDS: Final = (_OFFSET_ENTRY, _TIME_ENTRY)
_Entry = tuple[int, int]


class LogHeaders:
    """Batch headers of the log beside an index, by position; none if the log does not exist."""

    __slots__ = ("_descriptor", "_position", "base_offset", "index_path", "path")

    def __init__(self, index_path: str, base_offset: int) -> None:
        self.index_path = index_path
        self.base_offset = base_offset
        self.path = segment_path(os.path.dirname(index_path) or ".", base_offset, LOG_SUFFIX)
        self._position = 0
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._descriptor = -1

    @property
    def is_there(self) -> bool:
        return self._descriptor >= 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def at(self, position: int) -> BatchHeader | None:
        """The header at `position`, None when there is no magic 2 batch."""
        data = os.pread(self._descriptor, HEADER_BYTES, position) if position >= 0 else b""
        if len(data) < HEADER_BYTES:
            return None
        header = read_header(data)
        return header if header.magic == 2 and header.size_bytes >= HEADER_BYTES else None

    def ending_at_or_after(self, offset: int) -> BatchHeader | None:
        """The first batch whose last offset is at least `offset`. Offsets must be asked for in ascending order."""
        while (header := self.at(self._position)) is not None and header.last_offset < offset:
            self._position += header.size_bytes
        return header


def dump_offset_index(path: str, options: DumpOptions) -> Iterator[DumpRow]:
    """Entries as (offset, position); each must lead to the batch that ends with its offset."""
    return _dump_index(path, options, OFFSET_ENTRY, lambda _first, last: last[0] >= 0, _verified_offsets)


def dump_time_index(path: str, options: DumpOptions) -> Iterator[DumpRow]:
    """Entries as (timestamp, offset); each must lead to the batch that ends with its offset and has its timestamp."""
    return _dump_index(
        path, options, TIME_ENTRY, lambda first, last: last[0] >= first[0] and last[1] >= 0, _verified_times
    )


def _dump_index(
    path: str,
    options: DumpOptions,
    entry: Struct,
    is_sane: Callable[[_Entry, _Entry], bool],
    verified: Callable[[LogHeaders, list[_Entry]], Iterator[DumpRow]],
) -> Iterator[DumpRow]:
    """`is_sane` judges the first and the last entry; `verified` has a row for each entry and each of its problems."""
    base_offset = offset_of(os.path.basename(path))
    if base_offset is None:
        yield problem(f"{path}: the name must begin with the 20 digits of the base offset")
        return
    entries, broken = _entries(path, entry)
    yield from broken
    if not entries:
        yield note(f"{path} is empty.")
        return
    if options.sanity_only:
        yield from _sanity(path, is_sane=is_sane(entries[0], entries[-1]) and not broken)
        return
    # The active segment's index is preallocated. Before its first entry it is all zeros, which lead nowhere; Kafka's
    # tool shows the first of them, too.
    is_blank = not any(map(any, entries))
    log = LogHeaders(path, base_offset)
    if not log.is_there:
        yield problem(f"{path} is not compared with its log: there is no {log.path}")
    try:
        for row in verified(log, entries):
            if not options.verify_only if row.kind in _ENTRY_KINDS else not is_blank:
                yield row
    finally:
        log.close()


def _verified_offsets(log: LogHeaders, entries: list[_Entry]) -> Iterator[DumpRow]:
    previous = (-1, -1)
    for slot, (relative, position) in enumerate(entries):
        # After a crash the preallocated rest of the file is still there, full of zeros.
        if relative == 0 and slot > 0:
            return
        if relative <= previous[0] or position <= previous[1]:
            yield problem(f"{log.index_path}: entry {slot} does not ascend")
        previous = (relative, position)
        offset = log.base_offset + relative
        if log.is_there and ((header := log.at(position)) is None or header.last_offset != offset):
            found = "none" if header is None else header.last_offset
            yield problem(
                f"Mismatch in {log.index_path}: index offset: {offset}, log offset: {found}, position: {position}"
            )
        yield DumpRow(_OFFSET_ENTRY, {"offset": offset, "position": position})


def _verified_times(log: LogHeaders, entries: list[_Entry]) -> Iterator[DumpRow]:
    path, previous = log.index_path, (-1, -1)
    for slot, (timestamp, relative) in enumerate(entries):
        if relative == 0 and slot > 0:
            return
        offset = log.base_offset + relative
        if timestamp <= previous[0]:
            yield problem(f"{path}: index timestamp: {timestamp}, previously indexed timestamp: {previous[0]}")
        if relative < previous[1]:
            yield problem(f"{path}: entry {slot} does not ascend")
        elif log.is_there:
            yield from _time_mismatch(path, log, timestamp, offset)
        previous = (timestamp, relative)
        yield DumpRow(_TIME_ENTRY, {"timestamp": timestamp, "offset": offset})


def _time_mismatch(path: str, log: LogHeaders, timestamp: int, offset: int) -> Iterator[DumpRow]:
    header = log.ending_at_or_after(offset)
    if header is None or header.last_offset != offset:
        found = -1 if header is None else header.last_offset
        yield problem(f"{path}: indexed offset: {offset}, found log offset: {found}")
    elif header.max_timestamp != timestamp:
        yield problem(f"{path}: index timestamp: {timestamp}, log timestamp: {header.max_timestamp}")


def _entries(path: str, entry: Struct) -> tuple[list[_Entry], list[DumpRow]]:
    """All whole entries, and a problem when there are bytes left over."""
    with open(path, "rb") as file:
        data = file.read()
    rest = len(data) % entry.size
    entries: list[_Entry] = [(first, second) for first, second in entry.iter_unpack(data[: len(data) - rest])]
    if not rest:
        return entries, []
    return entries, [problem(f"{path}: its {len(data)} bytes are not a multiple of {entry.size}")]


def _sanity(path: str, *, is_sane: bool) -> Iterator[DumpRow]:
    if is_sane:
        yield note(f"{path} passed sanity check.")
    else:
        yield problem(f"{path} fails the sanity check: the broker rebuilds it at its next start")
