"""The files of a partition's directory, found with one listing, after finishing or undoing interrupted work.

The suffixes show what the broker was doing when it stopped (`names`):

    .deleted   was being deleted: is removed
    .cleaned   a compaction's output, not finished: is removed
    .swap      a compaction's output, finished: replaces the segments it was made from

Called by `loader`.
"""

import logging
import os
from typing import Final

from tidelog.storage._files import LogFile
from tidelog.storage.names import (
    CLEANED_SUFFIX,
    DELAYED_CHECKPOINT,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
    segment_path,
)
from tidelog.storage.partition_metadata import PARTITION_METADATA_FILE
from tidelog.storage.replacing import unlink_if_exists
from tidelog.storage.segment.batches import iterate_headers

logger = logging.getLogger(__name__)

_STEM_DIGITS: Final = 20
_TEMPORARY_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class PartitionFiles:
    """The files of one partition, by kind and base offset.

    Only the sizes of log files are read: an index does not matter where the log is empty, and most logs of a broker
    with very many are.
    """

    __slots__ = (
        "has_delayed_records",
        "has_leader_epochs",
        "has_metadata",
        "leftovers",
        "log_bytes",
        "offset_indexes",
        "snapshots",
        "time_indexes",
        "transaction_indexes",
    )

    def __init__(self, directory: str) -> None:
        self.log_bytes: dict[int, int] = {}
        self.offset_indexes: dict[int, os.DirEntry[str]] = {}
        self.time_indexes: dict[int, os.DirEntry[str]] = {}
        self.transaction_indexes: set[int] = set()
        self.snapshots: list[int] = []
        self.leftovers: list[str] = []
        self.has_delayed_records = False
        self.has_leader_epochs = False
        self.has_metadata = False
        with os.scandir(directory) as entries:
            for entry in entries:
                self._add(entry)
        self.snapshots.sort()

    def _add(self, entry: os.DirEntry[str]) -> None:
        name = entry.name
        suffix = name[_STEM_DIGITS:]
        if suffix == LOG_SUFFIX:
            self.log_bytes[int(name[:_STEM_DIGITS])] = entry.stat().st_size
        elif suffix == OFFSET_INDEX_SUFFIX:
            self.offset_indexes[int(name[:_STEM_DIGITS])] = entry
        elif suffix == TIME_INDEX_SUFFIX:
            self.time_indexes[int(name[:_STEM_DIGITS])] = entry
        elif name == LEADER_EPOCH_CHECKPOINT:
            self.has_leader_epochs = True
        elif name == PARTITION_METADATA_FILE:
            self.has_metadata = True
        elif suffix == SNAPSHOT_SUFFIX:
            self.snapshots.append(int(name[:_STEM_DIGITS]))
        elif suffix == TRANSACTION_INDEX_SUFFIX:
            self.transaction_indexes.add(int(name[:_STEM_DIGITS]))
        elif name == DELAYED_CHECKPOINT:
            self.has_delayed_records = True
        elif name.endswith(_TEMPORARY_SUFFIXES):
            self.leftovers.append(name)

    def remove_orphans(self, directory: str) -> int:
        """Remove index files that have no log file; how many there were."""
        removed = 0
        for bases, suffix in (
            (self.offset_indexes, OFFSET_INDEX_SUFFIX),
            (self.time_indexes, TIME_INDEX_SUFFIX),
            (self.transaction_indexes, TRANSACTION_INDEX_SUFFIX),
        ):
            for base_offset in [base for base in bases if base not in self.log_bytes]:
                path = segment_path(directory, base_offset, suffix)
                logger.warning("removing %s: there is no log file for this index", path)
                unlink_if_exists(path)
                removed += 1
        return removed


def list_partition(directory: str) -> PartitionFiles:
    """List a partition's directory; if it shows interrupted work, finish or undo that and list it again."""
    try:
        files = PartitionFiles(directory)
        if files.leftovers:
            _clear_leftovers(directory, files.leftovers)
            files = PartitionFiles(directory)
    except ValueError as error:
        raise OSError(f"{directory} has a file whose name is not an offset: {error}") from error
    return files


def _clear_leftovers(directory: str, names: list[str]) -> None:
    cleaned = [base for name in names if name.endswith(CLEANED_SUFFIX) and (base := offset_of(name)) is not None]
    swapped: set[str] = set()
    for name in names:
        if not name.endswith(SWAP_SUFFIX):
            unlink_if_exists(f"{directory}/{name}")
        elif cleaned and (offset_of(name) or 0) >= min(cleaned):
            # A segment was being split when the broker stopped: some parts are missing.
            unlink_if_exists(f"{directory}/{name}")
        else:
            swapped.add(name)
    finished = [name for name in sorted(swapped) if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in finished:
        if (base_offset := offset_of(name)) is not None:
            _finish_swap(directory, base_offset)
    for name in swapped:
        _settle_index(directory, name)


def _settle_index(directory: str, name: str) -> None:
    """Rename an index whose log file has been renamed already; remove one without a log file."""
    path = f"{directory}/{name}"
    base_offset, live_path = offset_of(name), path.removesuffix(SWAP_SUFFIX)
    has_log = base_offset is not None and os.path.exists(segment_path(directory, base_offset, LOG_SUFFIX))
    if has_log and os.path.exists(path) and not os.path.exists(live_path):
        os.rename(path, live_path)
    else:
        unlink_if_exists(path)


def _finish_swap(directory: str, base_offset: int) -> None:
    """Replace segments by the compacted one that was made from them."""
    log_path = segment_path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX)
    end_offset = base_offset + 1
    for _, header in iterate_headers(LogFile(log_path), 0, os.stat(log_path).st_size):
        end_offset = header.next_offset
    replaced = 0
    for name in os.listdir(directory):
        offset = offset_of(name)
        if offset is not None and base_offset <= offset < end_offset and not name.endswith(SWAP_SUFFIX):
            os.unlink(f"{directory}/{name}")
            replaced += 1
    for suffix in _SEGMENT_SUFFIXES:
        path = segment_path(directory, base_offset, suffix)
        if os.path.exists(path + SWAP_SUFFIX):
            os.rename(path + SWAP_SUFFIX, path)
    logger.info(
        "finished an interrupted compaction in %s: segment %d replaced %d files", directory, base_offset, replaced
    )
