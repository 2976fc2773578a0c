"""One partition as this broker sees it: its log, its leader and epoch, its replicas, its high watermark.

Appends are staged by the log and written once a turn; the high watermark moves only after the write, so that no reader
ever sees what could still be lost to a refused write.

Decisions are pure: the time is an argument, and what is to be sent (a proposal to the controller) is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.records.validation import PreparedRecords
from tidelog.replication.replica_set import (
    AlteredPartition,
    IsrProposal,
    LeaderAndIsr,
    ReplicaRules,
    ReplicaSet,
)
from tidelog.storage.errors import AppendOffsetError
from tidelog.storage.log import Log
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.types import AppendOrigin, LogAppendInfo, StartOffsetReason
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.primitives import Buffer

NO_LEADER: Final = -1
ACKS_ALL: Final = -1
READ_COMMITTED: Final = 1
"""The isolation level of a reader that sees no record of an open or aborted transaction."""

_DEFAULT_RULES: Final = ReplicaRules()


class FetchProgress(NamedTuple):
    """What a follower's fetch changed: whether a watermark moved, and a change of the ISR to ask for."""

    has_watermark_moved: bool
    proposal: IsrProposal | None


class Partition:
    """State of one partition. Cheap: a broker may hold ten thousand of them."""

    __slots__ = (
        "appended",
        "controller_epoch",
        "index",
        "is_dirty",
        "is_leader",
        "is_offline",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "replica_set",
        "topic",
        "topic_bytes",
        "topic_id",
    )

    def __init__(
        self, topic: str, index: int, topic_id: bytes, log: Log, local_id: int, rules: ReplicaRules = _DEFAULT_RULES
    ) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.index = index
        self.topic_id = topic_id
        self.key = (topic, index)
        self.log = log
        self.appended: list[int] | None = None
        """Where a broker with metrics counts what is appended: requests, records and bytes of the topic."""
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.controller_epoch = -1
        self.is_leader = False
        self.is_dirty = False
        self.is_offline = False
        self.replica_set = ReplicaSet(local_id, rules)

    # --- roles ---

    def make_leader(self, leader_epoch: int, replicas: Sequence[int], isr: Sequence[int]) -> None:
        """This broker leads from now on, without a controller."""
        local_id = self.replica_set.local_id
        self.become_leader(LeaderAndIsr(local_id, leader_epoch, tuple(isr), tuple(replicas)), 0)

    def become_leader(self, state: LeaderAndIsr, now_ms: int) -> bool:
        """This broker leads in `state.leader_epoch`; whether it did not lead before.

        A state older than the one that is known changes nothing.
        """
        replica_set = self.replica_set
        if state.partition_epoch < replica_set.partition_epoch:
            return False
        is_new_leader = not self.is_leader
        is_new_epoch = state.leader_epoch > self.leader_epoch
        log = self.log
        log.write_staged()
        replica_set.lead(state, log.log_end_offset, now_ms, is_new_leader=is_new_leader, is_new_epoch=is_new_epoch)
        if is_new_epoch:
            log.leader_epochs.assign(state.leader_epoch, log.log_end_offset)
        self._take_over(state, is_leader=True)
        # The ISR may be down to this broker.
        self.advance_high_watermark(now_ms)
        return is_new_leader

    def become_follower(self, state: LeaderAndIsr) -> bool:
        """Another broker leads, or none; whether the epoch is new, so that fetching must begin again."""
        if state.partition_epoch < self.replica_set.partition_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.log.write_staged()
        self.replica_set.follow(state)
        self._take_over(state, is_leader=False)
        return is_new_epoch

    def _take_over(self, state: LeaderAndIsr, *, is_leader: bool) -> None:
        self.leader_id = state.leader_id
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.is_leader = is_leader

    @property
    def isr(self) -> Sequence[int]:
        """The in-sync replicas that the controller has committed; known to the leader only."""
        return self.replica_set.isr

    @property
    def replicas(self) -> Sequence[int]:
        """The brokers that have a replica, the preferred leader first."""
        return self.replica_set.replicas

    # --- followers, seen by the leader ---

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Raise unless a broker that fetches has a replica.

        A follower may know of a reassignment before its leader does; with an epoch that matches it is asked to retry.
        """
        if replica_id not in self.replica_set.followers:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(code, f"broker {replica_id} has no replica of {self.topic}-{self.index}")

    def record_fetch(self, replica_id: int, fetch_offset: int, log_start_offset: int, now_ms: int) -> FetchProgress:
        """A follower asked for `fetch_offset`, so it has everything before it."""
        replica_set, log = self.replica_set, self.log
        follower = replica_set.followers[replica_id]
        end_before, start_before = follower.log_end_offset, follower.log_start_offset
        follower.record_fetch(fetch_offset, log_start_offset, log.log_end_offset, now_ms)
        proposal = replica_set.propose_expansion(replica_id, self.leader_epoch, log.high_watermark)
        has_moved = start_before != log_start_offset
        # A replica that held the high watermark back may be gone since: a fetch that brings nothing new asks again.
        if (end_before != fetch_offset or log.high_watermark < fetch_offset) and self.advance_high_watermark(now_ms):
            has_moved = True
        return FetchProgress(has_moved, proposal)

    def propose_shrinking(self, now_ms: int) -> IsrProposal | None:
        """The proposal to remove followers that lag behind, if there are any."""
        if not self.is_leader:
            return None
        return self.replica_set.propose_shrinking(self.leader_epoch, self.log.log_end_offset, now_ms)

    def on_altered(self, proposal: IsrProposal, altered: AlteredPartition, now_ms: int) -> bool:
        """The controller committed a proposal; whether the high watermark moved."""
        if not self.is_leader or not self.replica_set.accept(proposal, altered, self.leader_epoch):
            return False
        return self.advance_high_watermark(now_ms)

    def on_refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """The controller refused a proposal; whether to send it again."""
        return self.is_leader and self.replica_set.refuse(proposal, error)

    # --- the leader, seen by a follower ---

    def append_fetched(self, records: Buffer, now_ms: int) -> LogAppendInfo:
        """Append what the leader sent and write it: the next fetch says that it is there.

        So it is synced at once where `flush.messages` asks for that, as in Kafka: the leader counts it as committed.
        """
        info = append_copied(self.log, records, now_ms)
        if self.log.is_flush_due:
            self.log.flush(now_ms=now_ms)
        return info

    def follow_leader(self, leader_high_watermark: int, leader_start_offset: int) -> bool:
        """Take over the leader's high watermark, as far as the log reaches, and its start; whether the former moved.

        It never falls here: the high watermark of a new leader may lag behind for a while, and what was committed
        under the leader before stays so. Only a truncation takes it back.
        """
        log = self.log
        committed = min(leader_high_watermark, log.log_end_offset)
        has_moved = committed > log.high_watermark
        if has_moved:
            log.update_high_watermark(committed)
        if log.log_start_offset < leader_start_offset <= log.high_watermark:
            log.maybe_increment_log_start_offset(leader_start_offset, StartOffsetReason.LEADER_INCREMENT)
        return has_moved

    # --- in ---

    def append(
        self,
        records: bytearray | memoryview,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Stage records on the leader's log; raises ApiError if they are rejected."""
        log = self.log
        if not self.is_leader or (acks == ACKS_ALL and len(self.replica_set.isr) < log.config.min_insync_replicas):
            self.check_appendable(acks)
        return log.append_as_leader(records, self.leader_epoch, now_ms, origin, guard)

    def append_own(self, records: bytearray, now_ms: int) -> LogAppendInfo:
        """Stage a batch that this broker has built itself, which every in-sync replica must get; raises ApiError."""
        log = self.log
        if not self.is_leader or len(self.replica_set.isr) < log.config.min_insync_replicas:
            self.check_appendable(ACKS_ALL)
        return log.append_own(records, self.leader_epoch, now_ms)

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
        replica_set = self.replica_set
        # What is needed is `min.insync.replicas`, or less where there are fewer replicas.
        if acks == ACKS_ALL and len(replica_set.isr) < self.log.config.min_insync_replicas and self.is_under_min_isr:
            needed = replica_set.needed_in_sync(self.log.config.min_insync_replicas)
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(replica_set.isr)} in-sync replicas, "
                f"min.insync.replicas is {needed}",
            )

    @property
    def is_under_min_isr(self) -> bool:
        """Whether there are fewer in-sync replicas than `min.insync.replicas`."""
        replica_set = self.replica_set
        return len(replica_set.isr) < replica_set.needed_in_sync(self.log.config.min_insync_replicas)

    def shortage(self) -> ApiError | None:
        """The error for records that are committed while too few replicas are left to keep them, if so."""
        replica_set = self.replica_set
        needed = replica_set.needed_in_sync(self.log.config.min_insync_replicas)
        if len(replica_set.maximal_isr) >= needed:
            return None
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            f"the in-sync replicas of {self.topic}-{self.index} became fewer than {needed} while records were appended",
        )

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Whether records below `end_offset` are as safe as `acks` asks for: written (1), or committed (-1)."""
        log = self.log
        safe = log.positions.high_watermark if acks == ACKS_ALL else log.flush_state.durable_end_offset
        return safe >= end_offset

    def advance_high_watermark(self, now_ms: int = 0) -> bool:
        """Move the leader's high watermark to what every in-sync replica has; True when it moved.

        A follower takes over that of its leader: it knows no replicas, and what it wrote as a leader until a moment ago
        may not be committed.
        """
        if not self.is_leader:
            return False
        log = self.log
        committed = log.flush_state.durable_end_offset
        replica_set = self.replica_set
        if replica_set.followers:
            committed = replica_set.committed_end_offset(
                committed, log.positions.log_end_offset, log.config.min_insync_replicas, now_ms
            )
        if committed <= log.positions.high_watermark:
            return False
        log.positions.update_high_watermark(committed)
        return True

    # --- out ---

    def check_readable(self, current_leader_epoch: int, *, is_leader_only: bool = True) -> None:
        """Raise unless the request's leader epoch is current, and this broker leads or may serve as a follower."""
        if self.is_offline:
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
        if is_leader_only and not self.is_leader:
            raise self.absence()

    def readable_end(
        self, current_leader_epoch: int, is_follower: bool, isolation_level: int, is_leader_only: bool = True
    ) -> int:
        """How far this reader may read; raises ApiError if it may not read at all."""
        if not self.is_leader or current_leader_epoch not in (-1, self.leader_epoch):
            self.check_readable(current_leader_epoch, is_leader_only=is_leader_only)
        return self.end_for_reader(is_follower, isolation_level)

    def end_for_reader(self, is_follower: bool, isolation_level: int) -> int:
        """Where the log ends for a reader: at what is written, committed, or committed and of no open transaction."""
        positions = self.log.positions
        if is_follower:
            return positions.written_end_offset
        return positions.last_stable_offset if isolation_level == READ_COMMITTED else positions.high_watermark

    @property
    def is_settled(self) -> bool:
        """Whether the high watermark has reached what a new leader's log held when its epoch began."""
        return self.log.high_watermark >= self.replica_set.leader_epoch_start_offset

    def absence(self) -> ApiError:
        """The error of a request for a partition that this broker does not lead."""
        if self.is_offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic}-{self.index} is offline")
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self.topic}-{self.index} is not led by broker {self.replica_set.local_id} but by {self.leader_id}",
        )

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas; with one replica, its own."""
        return self.replica_set.low_watermark(self.log.log_start_offset)

    def go_offline(self) -> None:
        """The log directory failed: nothing is served from here any more."""
        self.is_offline = True
        self.is_leader = False


def append_copied(log: Log, records: Buffer, now_ms: int) -> LogAppendInfo:
    """Append batches of another log, the next in order, and write them.

    The first batch of an empty log may begin before its start. Raises AppendOffsetError, ApiError and LogDirFailure.
    """
    try:
        info = log.append_as_follower(records, now_ms)
    except AppendOffsetError as error:
        start_offset = log.log_start_offset
        if log.log_end_offset != start_offset or not error.first_offset < start_offset <= error.last_offset:
            raise
        # DeleteRecords moved the other log's start into the middle of a batch, and batches come whole.
        log.truncate_fully_and_start_at(error.first_offset, now_ms, start_offset)
        info = log.append_as_follower(records, now_ms)
    log.write_staged()
    return info
