"""One partition as this broker sees it: its log, its leader and epoch, its in-sync replicas, its high watermark.

`ReplicaManager` owns the partitions and is their only caller. Appends are staged by the log and written once a turn;
the high watermark moves only in `commit_written`, after the write, so nobody ever reads what could still be lost to a
refused write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.records.validation import PreparedRecords
from tidelog.storage.log import Log
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.types import AppendOrigin, LogAppendInfo
from tidelog.wire.errors import ApiError, ErrorCode

NO_LEADER: Final = -1
ACKS_ALL: Final = -1
READ_COMMITTED: Final = 1
"""The isolation level of a reader that sees no record of an open or aborted transaction."""


class Partition:
    """State of one partition. Cheap: a broker may hold ten thousand of them."""

    __slots__ = (
        "_follower_end_offsets",
        "_local_id",
        "index",
        "is_dirty",
        "is_leader",
        "is_offline",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "replicas",
        "topic",
        "topic_bytes",
        "topic_id",
    )

    def __init__(self, topic: str, index: int, topic_id: bytes, log: Log, local_id: int) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.index = index
        self.topic_id = topic_id
        self.key = (topic, index)
        self.log = log
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.replicas: Sequence[int] = ()
        self.isr: Sequence[int] = ()
        self.is_leader = False
        self.is_dirty = False
        self.is_offline = False
        self._local_id = local_id
        self._follower_end_offsets: dict[int, int] = {}

    def make_leader(self, leader_epoch: int, replicas: Sequence[int], isr: Sequence[int]) -> None:
        """This broker leads from now on, in `leader_epoch`."""
        self.leader_id = self._local_id
        self.is_leader = True
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self._follower_end_offsets = dict.fromkeys((r for r in replicas if r != self._local_id), -1)
            self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        self.advance_high_watermark()

    # --- in ---

    def append(
        self,
        records: bytearray | memoryview,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Stage records on the leader's log; raises ApiError for what the producer must be told."""
        log = self.log
        if not self.is_leader or (acks == ACKS_ALL and len(self.isr) < log.config.min_insync_replicas):
            self.check_appendable(acks)
        return log.append_as_leader(records, self.leader_epoch, now_ms, origin, guard)

    def append_prepared(
        self,
        prepared: PreparedRecords | Exception,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """The same for a client's records that a worker thread prepared, or for the error that it met."""
        self.check_appendable(acks)
        if isinstance(prepared, Exception):
            raise prepared
        return self.log.append_prepared(prepared, self.leader_epoch, now_ms, AppendOrigin.CLIENT, guard)

    def check_appendable(self, acks: int) -> None:
        """Raise unless this broker leads and, for acks=all, enough replicas are in sync."""
        if not self.is_leader:
            raise self.absence()
        # More than there are replicas cannot be asked for: a topic with one replica is written to all the same.
        needed = min(self.log.config.min_insync_replicas, len(self.replicas))
        if acks == ACKS_ALL and len(self.isr) < needed:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(self.isr)} in-sync replicas, min.insync.replicas is {needed}",
            )

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Whether records below `end_offset` are as safe as `acks` asks for: written (1), or committed (-1)."""
        log = self.log
        return (log.high_watermark if acks == ACKS_ALL else log.durable_end_offset) >= end_offset

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to what every in-sync replica has; True when it moved."""
        log = self.log
        committed = log.durable_end_offset
        for replica in self.isr:
            if replica != self._local_id:
                committed = min(committed, self._follower_end_offsets.get(replica, -1))
        if committed <= log.high_watermark:
            return False
        log.update_high_watermark(committed)
        return True

    # --- out ---

    def check_readable(self, current_leader_epoch: int) -> None:
        """Raise unless this broker leads and the client's idea of the epoch is ours."""
        if not self.is_leader:
            raise self.absence()
        if current_leader_epoch not in (-1, self.leader_epoch):
            code = (
                ErrorCode.FENCED_LEADER_EPOCH
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise ApiError(
                code,
                f"{self.topic}-{self.index} is in leader epoch {self.leader_epoch}, "
                f"the request says {current_leader_epoch}",
            )

    def readable_end(self, current_leader_epoch: int, is_follower: bool, isolation_level: int) -> int:
        """How far this reader may read; raises ApiError if it may not read at all."""
        if not self.is_leader or current_leader_epoch not in (-1, self.leader_epoch):
            self.check_readable(current_leader_epoch)
        return self.end_for_reader(is_follower, isolation_level)

    def end_for_reader(self, is_follower: bool, isolation_level: int) -> int:
        """Where the log ends for a reader: at what is written, committed, or committed and of no open transaction."""
        log = self.log
        if is_follower:
            return log.written_end_offset
        return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

    def absence(self) -> ApiError:
        """What to tell who wants something of a partition that is not led here, or no more."""
        if self.is_offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic}-{self.index} is offline")
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self.topic}-{self.index} is not led by broker {self._local_id} but by {self.leader_id}",
        )

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas; with one replica, its own."""
        return self.log.log_start_offset

    def go_offline(self) -> None:
        """The log directory failed: nothing is served from here any more."""
        self.is_offline = True
        self.is_leader = False
