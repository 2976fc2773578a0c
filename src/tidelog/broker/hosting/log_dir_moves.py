"""Moves replicas between the log directories of this broker while they serve (AlterReplicaLogDirs).

A move is a task that copies the log piece by piece: a thread reads, the loop appends, a quarter of a megabyte at a
time, at `replica.alter.log.dirs.io.max.bytes.per.second`. A move goes on after a restart. It ends when the copy has
taken the log's place, when the partition is deleted or moved elsewhere, or when one of the two directories fails.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tidelog.replication.future_replica import FutureReplica
from tidelog.storage.errors import AppendOffsetError, LogDirFailure, OutOfDescriptorsError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.hosting.cleaner import CleanerService
    from tidelog.broker.runtime.background import BackgroundPool, Flusher
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.quotas import ReplicationQuota
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.storage.directories.manager import LogManager
    from tidelog.storage.log import Log
    from tidelog.timing import Clock

logger = logging.getLogger(__name__)

_PIECE_BYTES: Final = 1 << 18
_SYNCS_MAX: Final = 10
"""A log that is synced after every write may stay ahead of its copy for ever: after so many the copy replaces it."""


class LogDirMoves:
    """The moves of one broker; as many at a time as `num.replica.alter.log.dirs.threads` says."""

    def __init__(
        self,
        settings: CurrentSettings,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        cleaning: CleanerService,
        flusher: Flusher,
        background: BackgroundPool,
        slices: TimeSlices,
        clock: Clock,
        quota: ReplicationQuota,
    ) -> None:
        """`quota` limits the bytes that are copied."""
        config = settings.config
        self._settings = settings
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._cleaning = cleaning
        self._flusher = flusher
        self._background = background
        self._slices = slices
        self._clock = clock
        self._quota = quota
        self._free = asyncio.Semaphore(config.num_replica_alter_log_dirs_threads or len(config.log_dirs))
        self._tasks: dict[PartitionKey, tuple[Log, asyncio.Task[None]]] = {}
        self._is_closed = False

    def move(self, topic: str, index: int, path: str) -> None:
        """Begin to move a replica, or remember where it is to be created. Raises ApiError and LogDirFailure.

        A move to another directory that is under way ends; one to the directory that the replica is in cancels it.
        """
        log_manager = self._log_manager
        if path in log_manager.offline_directories():
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} is offline")
        if path not in log_manager.live_directories():
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs of this broker")
        partition = self._find(topic, index)
        copy = log_manager.get_future_log(topic, index)
        if copy is not None and copy.parent_directory != path and partition is not None:
            log_manager.delete_future_log(topic, index)
            copy = None
        if partition is None:
            log_manager.prefer_directory(topic, index, path)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"this broker has no replica of {topic}-{index} yet")
        if copy is None and partition.log.parent_directory != path:
            logger.info("%s moves from %s to %s", partition.log.name, partition.log.parent_directory, path)
            copy = log_manager.create_future_log(partition.log, path)
            self._start(partition, copy, is_resumed=False)

    def _find(self, topic: str, index: int) -> Partition | None:
        try:
            partition = self._replica_manager.partition(topic, index)
        except ApiError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            return None
        if partition.is_offline:
            raise partition.absence()
        return partition

    def resume(self) -> None:
        """Go on with moves that a restart interrupted, as far as their partitions are there."""
        for key, copy in self._log_manager.future_logs():
            partition = self._replica_manager.find(*key)
            if partition is not None and not partition.is_offline and self._copy_of(key) is not copy:
                logger.info("%s goes on moving to %s", copy.name, copy.parent_directory)
                self._start(partition, copy, is_resumed=True)

    def _copy_of(self, key: PartitionKey) -> Log | None:
        """The copy that a task fills."""
        found = self._tasks.get(key)
        return None if found is None else found[0]

    def _start(self, partition: Partition, copy: Log, *, is_resumed: bool) -> None:
        if self._is_closed:
            return
        self._cleaning.abort(partition.log)
        replica = FutureReplica(partition, copy, is_resumed=is_resumed)
        task = asyncio.get_running_loop().create_task(self._run(replica))
        self._tasks[partition.key] = copy, task
        task.add_done_callback(lambda _: self._forget(partition.key, copy))

    def _forget(self, key: PartitionKey, copy: Log) -> None:
        if self._copy_of(key) is copy:
            del self._tasks[key]

    async def close(self) -> None:
        """Copy no more. Copies stay on disk, for the next start."""
        self._is_closed = True
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- one move ---

    async def _run(self, replica: FutureReplica) -> None:
        try:
            async with self._free:
                await self._move(replica)
        except Exception:
            logger.exception("the move of %s to %s failed", replica.copy.name, replica.copy.parent_directory)
        finally:
            if self._copy_of(replica.partition.key) is replica.copy:  # a move to another directory may have begun
                replica.end()

    async def _move(self, replica: FutureReplica) -> None:
        pause_s = self._settings.config.replica_fetch_backoff_ms / 1000
        syncs, segment = 0, replica.copy.active_segment
        flushing: asyncio.Future[None] | None = None
        while self._is_wanted(replica):
            try:
                if wait_ms := self._throttle_ms():
                    await asyncio.sleep(wait_ms / 1000)
                    continue
                await self._slices.pause()
                if not self._is_wanted(replica):
                    return
                replica.align(self._clock.wall_ms())
                if not replica.is_caught_up:
                    await self._copy_piece(replica)
                    if replica.copy.active_segment is not segment and (flushing is None or flushing.done()):
                        # A crash then need not read the whole copy again, and the last sync is a short one.
                        segment = replica.copy.active_segment
                        flushing = asyncio.ensure_future(self._flush(replica.copy))
                        flushing.add_done_callback(_retrieve)
                elif flushing is not None:
                    # Not under a rename: files that are synced by their names would not be found.
                    ending, flushing = flushing, None
                    await ending
                elif not replica.is_synced or (not replica.is_as_durable and syncs < _SYNCS_MAX):
                    syncs += 1
                    await self._sync(replica)
                else:
                    self._replace(replica)
                    return
            except LogDirFailure as failure:
                if self._is_wanted(replica):
                    self._replica_manager.fail_log_dir(failure)
            except (ApiError, AppendOffsetError, OutOfDescriptorsError) as error:
                logger.warning("the move of %s is tried again: %s", replica.copy.name, error)
                await asyncio.sleep(pause_s)

    def _is_wanted(self, replica: FutureReplica) -> bool:
        """Whether the partition is there, and the copy is still the one to be made."""
        partition = replica.partition
        return (
            self._replica_manager.find(*partition.key) is partition
            and not partition.is_offline
            and self._log_manager.get_future_log(*partition.key) is replica.copy
        )

    def _throttle_ms(self) -> int:
        """How long nothing may be copied; not longer than a pause, as the limit may change meanwhile."""
        if not self._quota.is_limited:
            return 0
        return min(self._quota.throttle_ms(self._clock.monotonic_ms()), self._settings.config.replica_fetch_backoff_ms)

    async def _copy_piece(self, replica: FutureReplica) -> None:
        piece = replica.next_piece(_PIECE_BYTES)
        if piece is None:
            await asyncio.sleep(0)  # the rest is staged, and written at the end of this turn
            return
        records = await self._background.run(piece.slice.read)
        await self._slices.pause()
        is_copied = self._is_wanted(replica) and replica.append(piece, records, self._clock.wall_ms())
        if is_copied and self._quota.is_limited:
            self._quota.record(len(records), self._clock.monotonic_ms())

    async def _sync(self, replica: FutureReplica) -> None:
        """Bring the copy to disk, before the log that it replaces is deleted."""
        await self._flush(replica.copy)
        await self._background.run(self._log_manager.marking_complete(replica.copy))
        replica.is_synced = True

    async def _flush(self, copy: Log) -> None:
        job = copy.prepare_flush()
        await self._background.run(job.run)
        copy.complete_flush(job, self._clock.wall_ms())

    def _replace(self, replica: FutureReplica) -> None:
        """The copy takes the log's place, within one step of the loop."""
        partition = replica.partition
        replica.end()
        replica.hand_over()
        before = partition.log.parent_directory
        log = self._log_manager.replace_with_future_log(*partition.key)
        log.on_rolled(self._flusher.flush)
        self._replica_manager.replace_log(partition, log)
        logger.info("%s has moved from %s to %s", log.name, before, log.parent_directory)


def _retrieve(flushing: asyncio.Future[None]) -> None:
    """A failure is raised where the end of the flush is awaited; if the move ended before, it is of no interest."""
    if not flushing.cancelled():
        flushing.exception()
