"""The beginning and the end of a log: making a new one, closing it, and freeing its name before it is deleted."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.config import LogConfig
from tidelog.storage import names
from tidelog.storage._files import Replacements
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.producers.state import DAY_MS, ProducerStateManager
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log

OnFilesDeleted = Callable[[Sequence[str], int], None]
"""Called with the paths of files that were renamed to `.deleted` and the delay in ms after which they may go."""


def create_log(
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    now_ms: int,
    *,
    producer_expiration_ms: int = DAY_MS,
    topic_id: bytes | None = None,
    on_files_deleted: OnFilesDeleted | None = None,
    start_offset: int = 0,
) -> "Log":
    """Make the directory and the files of a new, empty log. Nothing stays open until the first append.

    FileExistsError when there is such a directory, as it may hold records.
    """
    from tidelog.storage.log import Log

    try:
        os.mkdir(directory, 0o755)
        segment = Segment.create(directory, start_offset, config, now_ms)
    except FileExistsError:
        raise
    except OutOfDescriptorsError:
        from shutil import rmtree  # ten milliseconds of imports that a start-up does not need

        # A directory that is left behind would be in the way of the next try.
        rmtree(directory, ignore_errors=True)
        raise
    except OSError as error:
        raise LogDirFailure(os.path.dirname(directory), error) from error
    return Log(
        directory,
        topic,
        partition,
        config,
        segments=[segment],
        log_start_offset=start_offset,
        recovery_point=start_offset,
        next_offset=start_offset,
        producer_state=ProducerStateManager(
            f"{topic}-{partition}", directory, expiration_ms=producer_expiration_ms, snapshots=[]
        ),
        leader_epochs=LeaderEpochCache(directory),
        topic_id=topic_id,
        on_files_deleted=on_files_deleted,
        is_new=True,
        now_ms=now_ms,
    )


def close(log: "Log", replacements: Replacements | None = None) -> None:
    """Close cleanly: write what is staged, snapshot the producers, trim the files and let go of them.

    The caller flushes first where the clean-shutdown marker is to vouch for the data. With `replacements` nothing is
    synced: the caller syncs the whole file system instead, and commits them.
    """
    log.write_staged()
    try:
        log.producer_state.map_end_offset = log.log_end_offset
        log.producer_state.take_snapshot(sync=replacements is None)
        log.leader_epochs.flush(replacements)
        log.active_segment.close()
    except OSError as error:
        raise log.fail(error) from error
    release(log)


def release(log: "Log") -> None:
    """Let go of the files without writing anything: the directory has failed, or is about to be deleted."""
    for segment in log.segments:
        segment.release()


def rename_for_delete(log: "Log") -> str:
    """Rename the directory to `<topic>-<partition>.<id>-delete`, so that the partition's name is free; the new path.

    Nothing may be appended any more. Fetches under way can go on reading.
    """
    log.write_staged()
    name = names.delete_directory(log.topic, log.partition, os.urandom(16).hex())
    directory = os.path.join(log.parent_directory, name)
    try:
        os.rename(log.directory, directory)
    except OSError as error:
        raise log.fail(error) from error
    log.is_deleted = True
    log.directory = directory
    log.producer_state.move_to(directory)
    log.leader_epochs.directory = directory
    for segment in log.segments:
        segment.move_to(directory)
    if log.active_segment.size_bytes:
        _trim_indexes(log)
    return directory


def _trim_indexes(log: "Log") -> None:
    """Cut the active segment's indexes to their entries: tools take the zeros behind for damage."""
    try:
        log.active_segment.offset_index.trim()
        log.active_segment.time_index.trim()
    except OSError as error:
        raise log.fail(error) from error
