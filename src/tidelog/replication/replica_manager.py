"""The partitions of this broker, and everything that is appended to or read from them.

The broker's handlers call it; it calls the partitions' logs and keeps the purgatories. Appends of one event-loop turn
are staged and written together in `end_turn`, which the socket server calls before any reply of that turn leaves:

    stage … stage → end_turn: write every dirty log → move high watermarks → answer produces → wake fetches

A log directory that refuses a write goes offline with all its partitions; the others are not disturbed. Neither is a
request by another that cannot be answered: that one fails, the rest of the turn goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, Protocol

from tidelog.quotas import ReplicationQuota
from tidelog.records.validation import PreparedRecords
from tidelog.replication.alter_partition import AlterOutcome
from tidelog.replication.delete_records import DelayedDeleteRecords, DeletedUpTo, DeleteResult
from tidelog.replication.fetch import DelayedFetch, FetchParameters, Wanted, read_partitions
from tidelog.replication.partition import ACKS_ALL, Partition
from tidelog.replication.produce import DelayedProduce, PendingAppend, PendingProduce
from tidelog.replication.replica_selection import ClientMetadata, RackAwareReplicaSelector, ReplicaView
from tidelog.replication.replica_set import IsrProposal, ReplicaRules
from tidelog.replication.traffic import TrafficCounters
from tidelog.replication.wide_fetch import WideFetches
from tidelog.storage.errors import LogDirFailure, OutOfDescriptorsError
from tidelog.storage.log import Log
from tidelog.storage.types import StartOffsetReason
from tidelog.timing import Clock, Purgatory, Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.fetch import FetchPartition, PartitionReply

logger = logging.getLogger(__name__)

_FOLLOWERS: Final = "followers"
"""Followers wait for a log to grow, under a key of their own: consumers wait for its high watermark."""


class PurgeIntervals:
    """How many completed operations may linger in each purgatory; from the `*.purgatory.purge.interval.requests`."""

    __slots__ = ("delete_records", "fetch", "producer")

    def __init__(self, producer: int = 1000, fetch: int = 1000, delete_records: int = 1) -> None:
        self.producer = producer
        self.fetch = fetch
        self.delete_records = delete_records


class ClusterView(Protocol):
    """What a replica manager knows of other brokers and sends to the controller."""

    @property
    def rules(self) -> ReplicaRules:
        """How far a follower may lag, and which brokers are alive."""
        ...

    def is_known(self, topic: str, index: int) -> bool:
        """Whether a partition exists somewhere in the cluster."""
        ...

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        """The rack of a broker that clients of a listener can reach; None if it has none, or cannot be reached."""
        ...

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller for a change of in-sync replicas."""
        ...


class DelayedRecords(Protocol):
    """What follows the partitions that may have delayed records."""

    def opened(self, partition: Partition) -> None:
        """A partition is here, or has other settings, or changes of delayed records were fetched for it."""
        ...

    def replaced(self, partition: Partition) -> None:
        """A partition has another log with the same records."""
        ...

    def closed(self, partition: Partition) -> None:
        """A partition is here no more."""
        ...

    @property
    def has_partitions(self) -> bool:
        """Whether any partition is followed."""
        ...

    def advanced(self, partitions: Sequence[Partition]) -> None:
        """Watermarks or roles of partitions changed."""
        ...


class OnlyBroker:
    """The view of a broker without a cluster: no followers, no controller."""

    rules = ReplicaRules()

    def is_known(self, _topic: str, _index: int) -> bool:
        return False

    def rack_of(self, _broker_id: int, _listener: str) -> str | None:
        return None

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        raise AssertionError(f"{partition.key} has no followers, but {proposal} is proposed")


class ReplicaManager:
    """Owns this broker's partitions. Everything runs on the event loop's thread."""

    def __init__(
        self,
        local_id: int,
        clock: Clock,
        timer: Timer,
        on_log_dir_failure: Callable[[LogDirFailure], None],
        flush_in_background: Callable[[Log, Callable[[], None]], None],
        wake: Callable[[], None],
        purge_intervals: PurgeIntervals | None = None,
        cluster: ClusterView | None = None,
        replica_selector: RackAwareReplicaSelector | None = None,
        leader_quota: ReplicationQuota | None = None,
    ) -> None:
        intervals = purge_intervals or PurgeIntervals()
        self.local_id = local_id
        self.replica_selector = replica_selector
        """Chooses a follower for consumers near it; None where every consumer reads from the leader."""
        self.leader_quota = leader_quota or ReplicationQuota(local_id)
        """What leaders send to throttled followers."""
        self.delayed: DelayedRecords | None = None
        self._cluster = cluster or OnlyBroker()
        self.produce_purgatory: Purgatory[DelayedProduce] = Purgatory("Produce", timer, intervals.producer)
        self.fetch_purgatory: Purgatory[DelayedFetch] = Purgatory("Fetch", timer, intervals.fetch)
        self.wide_fetches = WideFetches()
        self.delete_records_purgatory: Purgatory[DelayedDeleteRecords] = Purgatory(
            "DeleteRecords", timer, intervals.delete_records
        )
        self._clock = clock
        self._timer = timer
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_wire_name: dict[tuple[bytes, int], Partition] = {}
        self._without_log: set[tuple[str, int]] = set()
        self._before_write: list[Callable[[], None]] = []
        # What those callbacks stage is written within the turn that calls them.
        self._is_gathering = False
        self._dirty: list[Partition] = []
        self._advanced: list[Partition] = []
        """Partitions one of whose watermarks moved in this turn."""
        self._grown: list[Partition] = []
        """Partitions that have followers and were written to in this turn."""
        self._pending: list[PendingProduce | PendingAppend] = []
        self._on_log_dir_failure = on_log_dir_failure
        self._flush_in_background = flush_in_background
        self._wake = wake
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.isr_updates_failed = 0
        self.traffic: TrafficCounters | None = None
        """Counts what goes in and out of topics; None in a broker without metrics."""

    # --- partitions ---

    def add_partition(self, topic: str, index: int, topic_id: bytes, log: Log) -> Partition:
        partition = Partition(topic, index, topic_id, log, self.local_id, self._cluster.rules)
        self._partitions[topic, index] = self._by_wire_name[partition.topic_bytes, index] = partition
        log.on_converted(self._on_converted)
        if self.delayed is not None:
            self.delayed.opened(partition)
        return partition

    def _on_converted(self, log: Log, prepared: PreparedRecords) -> None:
        if self.traffic is not None:
            record_count, size_bytes = prepared.header.record_count, len(prepared.batch)
            self.traffic.count_produce_conversion(log.topic, record_count, size_bytes, prepared.conversion_ns)

    def remove_partition(self, topic: str, index: int) -> Partition | None:
        """Remove a partition; requests that wait for it are completed with its present state."""
        self._without_log.discard((topic, index))
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            del self._by_wire_name[partition.topic_bytes, index]
            partition.is_leader = False
            if self.delayed is not None:
                self.delayed.closed(partition)
            self._complete_all(partition.key)
        return partition

    def replace_log(self, partition: Partition, log: Log) -> None:
        """A copy of the log, in another directory, takes its place. Nothing is staged."""
        partition.log = log
        log.on_converted(self._on_converted)
        if self.delayed is not None:
            self.delayed.replaced(partition)
        if log.is_flush_due:
            self._flush_in_background(log, lambda: self._on_flushed(partition))
        self.watermark_moved(partition)

    def add_offline(self, topic: str, index: int) -> None:
        """A partition of this broker whose log is in a directory that could not even be opened."""
        self._without_log.add((topic, index))

    @property
    def without_log(self) -> int:
        """Partitions of this broker whose log directory could not even be opened."""
        return len(self._without_log)

    def find(self, topic: str | None, index: int) -> Partition | None:
        return self._partitions.get((topic, index))  # type: ignore[arg-type]

    def find_on_wire(self, topic: bytes, index: int) -> Partition | None:
        """The same by the name's bytes, as they stand in a request: decoding them costs more than the search."""
        return self._by_wire_name.get((topic, index))

    def partition(self, topic: str, index: int) -> Partition:
        """The partition; raises the error of a request for one that is not here."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._without_log:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {topic}-{index} is offline")
            if self._cluster.is_known(topic, index):
                # Clients then refresh their metadata.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker has no replica of {topic}-{index}")
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker does not host {topic}-{index}")
        return partition

    def partitions(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    # --- in ---

    def staged(self, partition: Partition) -> None:
        """A partition has records that are not written yet."""
        if not partition.is_dirty:
            partition.is_dirty = True
            self._dirty.append(partition)

    def append(
        self,
        topic: str,
        index: int,
        records: bytearray,
        on_committed: Callable[[ErrorCode, int], None],
        timeout_ms: int = 5_000,
        *,
        is_own: bool = True,
    ) -> int:
        """Stage a batch of this broker's own (a coordinator's, a marker's) and return its first offset.

        One that is not `is_own` is checked and stored as a producer's would be: it has clients' data.
        `on_committed` is called with the error, if any, and that offset once every in-sync replica has it. Raises
        ApiError when the batch cannot even be staged; then nothing is called.
        """
        partition = self._partitions.get((topic, index)) or self.partition(topic, index)
        try:
            if is_own:
                info = partition.append_own(records, self._clock.wall_ms())
            else:
                info = partition.append(records, ACKS_ALL, self._clock.wall_ms())
        except LogDirFailure as failure:
            self.fail_log_dir(failure)
            raise failure.for_client() from failure
        first_offset, last_offset = info[0], info[1]
        if self.traffic is not None:
            self.traffic.count_append(partition, info)
        if not partition.is_dirty:
            self.staged(partition)
        self._pending.append(PendingAppend(partition, first_offset, last_offset + 1, timeout_ms, on_committed))
        if not self._is_gathering:
            self._wake()
        return first_offset

    def await_commit(
        self, topic: str, index: int, on_committed: Callable[[ErrorCode, int], None], timeout_ms: int = 5_000
    ) -> None:
        """Call `on_committed` once every in-sync replica has all that this log holds now, with the error if any.

        Raises ApiError when the partition is not here.
        """
        partition = self._partitions.get((topic, index)) or self.partition(topic, index)
        end_offset = partition.log.log_end_offset
        self._pending.append(PendingAppend(partition, end_offset, end_offset, timeout_ms, on_committed))
        if not self._is_gathering:
            self._wake()

    def answer_when_written(self, pending: PendingProduce | PendingAppend) -> None:
        """Answer a produce at the end of this turn, or later if it has to wait."""
        self._pending.append(pending)

    def before_write(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, before staged records are written: it stages what it has gathered in this turn."""
        self._before_write.append(callback)
        self._wake()

    def write_staged(self) -> None:
        """Write what was staged so far and move high watermarks, so that the next read sees it.

        Requests that wait for it are completed at the end of the turn.
        """
        if self._before_write:
            callbacks, self._before_write = self._before_write, []
            self._is_gathering = True
            for callback in callbacks:
                try:
                    callback()
                except Exception as cause:  # noqa: BLE001 - one callback's failure is not the others'
                    self._timer.report(callback, cause)
            self._is_gathering = False
        dirty = self._dirty
        if dirty:
            self._dirty = []
            for partition in dirty:
                self._write(partition)

    def end_turn(self) -> None:
        """Write what was staged, then answer what waited for it."""
        if self._dirty or self._before_write:
            self.write_staged()
        pending = self._pending
        if pending:
            self._pending = []
            for request in pending:
                try:
                    if not request.try_complete():
                        self._delay(request)
                except Exception as cause:  # noqa: BLE001 - one request's failure is not the others'
                    self._fail(request, cause)
        if self._grown:
            grown, self._grown = self._grown, []
            for partition in grown:
                self._complete_follower_fetches(partition.key)
        advanced = self._advanced
        if advanced:
            self._advanced = []
            if self.delayed is not None and self.delayed.has_partitions:
                self.delayed.advanced(advanced)
            if self._has_waiting:
                for partition in advanced:
                    self._complete_waiting(partition.key)

    def _write(self, partition: Partition) -> None:
        """Write a partition's staged records, and note whose waiting that may end."""
        partition.is_dirty = False
        if partition.is_offline:
            return
        log = partition.log
        try:
            log.write_staged()
        except LogDirFailure as failure:
            self.fail_log_dir(failure)
            return
        except OutOfDescriptorsError as error:
            # What is staged stays so: the next turn tries again, and requests wait for it until their own deadlines.
            logger.warning("%s-%d cannot be written for now: %s", *partition.key, error)
            self.staged(partition)
            return
        except Exception as cause:  # noqa: BLE001 - one log's failure is not the others'
            # What is not written is not acknowledged: the produces of this log wait until they time out.
            self._timer.report(partition.key, cause)
            return
        followers = partition.replica_set.followers
        if followers:
            # Whether the high watermark moves or not, followers may fetch what was written.
            self._grown.append(partition)
        if log.flush_state.is_due:
            self._flush_in_background(log, lambda: self._on_flushed(partition))
        elif partition.advance_high_watermark(self._clock.monotonic_ms() if followers else 0):
            self._advanced.append(partition)

    def _on_flushed(self, partition: Partition) -> None:
        """A sync that `flush.messages` asked for is done: what it covers may be read and answered."""
        if partition.is_leader:
            partition.advance_high_watermark(self._clock.monotonic_ms())
            if self.delayed is not None:
                self.delayed.advanced((partition,))
        self._complete_waiting(partition.key)

    def _delay(self, request: PendingProduce | PendingAppend) -> None:
        now_ms = self._clock.monotonic_ms()
        self.produce_purgatory.watch(DelayedProduce(request, now_ms + max(request.timeout_ms, 0)), request.keys, now_ms)
        request.park()

    def _fail(self, request: PendingProduce | PendingAppend, cause: Exception) -> None:
        """A request cannot be answered; the others of the turn can."""
        try:
            request.fail(cause)
        except Exception as error:  # noqa: BLE001 - one request's failure is not the others'
            self._timer.report(request, error)

    @property
    def _has_waiting(self) -> bool:
        """Whether anything waits for any partition."""
        return bool(
            self.fetch_purgatory.watched_keys
            or self.wide_fetches
            or self.produce_purgatory.watched_keys
            or self.delete_records_purgatory.watched_keys
        )

    def _complete_all(self, key: tuple[str, int]) -> None:
        """Everything about a partition may have changed."""
        self._complete_follower_fetches(key)
        self._complete_waiting(key)

    def _complete_follower_fetches(self, key: tuple[str, int]) -> None:
        """A log with followers has grown. What waits for a watermark is not concerned."""
        if (key, _FOLLOWERS) in self.fetch_purgatory.watched_keys:
            self.fetch_purgatory.check_and_complete((key, _FOLLOWERS))
        if self.wide_fetches:
            self.wide_fetches.changed(key)

    def _complete_waiting(self, key: tuple[str, int]) -> None:
        """A watermark moved."""
        if key in self.fetch_purgatory.watched_keys:
            self.fetch_purgatory.check_and_complete(key)
        if self.wide_fetches:
            self.wide_fetches.changed(key)
        if key in self.produce_purgatory.watched_keys:
            self.produce_purgatory.check_and_complete(key)
        if key in self.delete_records_purgatory.watched_keys:
            self.delete_records_purgatory.check_and_complete(key)

    # --- out ---

    def fetch(
        self,
        parameters: FetchParameters,
        wanted: Sequence[Wanted],
        respond: Callable[[list[PartitionReply]], None],
        fail: Callable[[Exception], None],
    ) -> DelayedFetch | None:
        """Read and respond now, or when there is enough to read. Returns the fetch if it waits: it can be cancelled.

        `fail` is called instead of `respond` when a fetch that waits fails because of a defect of the broker.
        """
        replies = self.read_now(parameters, wanted)
        if replies is None:
            return self.wait_for_more(parameters, wanted, respond, fail)
        respond(replies)
        return None

    def read_now(self, parameters: FetchParameters, wanted: Sequence[Wanted]) -> list[PartitionReply] | None:
        """What `fetch` responds now; None if there is not enough to read yet, and the fetch has time to wait."""
        replies, bytes_read, has_error = read_partitions(self, parameters, wanted)
        if bytes_read >= parameters.min_bytes or has_error or not wanted or parameters.max_wait_ms <= 0:
            if parameters.replica_id >= 0:
                self.count_sent(parameters, wanted, replies)
            return replies
        return None

    def wait_for_more(
        self,
        parameters: FetchParameters,
        wanted: Sequence[Wanted],
        respond: Callable[[list[PartitionReply]], None],
        fail: Callable[[Exception], None],
    ) -> DelayedFetch | None:
        """The second half of `fetch`, after `read_now`."""
        now_ms = self._clock.monotonic_ms()
        delayed = DelayedFetch(self, parameters, wanted, respond, fail, now_ms + parameters.max_wait_ms)
        keys: list[Hashable] = [(entry[1], entry[2][0]) for entry in wanted]
        if parameters.replica_id >= 0:
            keys = [(key, _FOLLOWERS) for key in keys]
        if parameters.min_bytes <= 1:
            # `read_now` found nothing to read: there is no reason to look again.
            self.fetch_purgatory.watch(delayed, keys, now_ms)
            return delayed
        return None if self.fetch_purgatory.try_complete_else_watch(delayed, keys, now_ms) else delayed

    # --- followers ---

    def on_follower_fetch(self, partition: Partition, replica_id: int, fetch: FetchPartition) -> None:
        """A follower has everything before the offset that it asks for; what waited for that is answered this turn."""
        progress = partition.record_fetch(
            replica_id, fetch.fetch_offset, fetch.log_start_offset, self._clock.monotonic_ms()
        )
        if progress.has_watermark_moved:
            self.watermark_moved(partition)
        if progress.proposal is not None:
            self._cluster.propose(partition, progress.proposal)

    def is_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower gets no records for now: it is not in sync, and its leader has sent what it may."""
        quota = self.leader_quota
        return (
            quota.is_limited
            and replica_id not in partition.replica_set.isr
            and quota.covers(*partition.key, partition.log.config.leader_replication_throttled_replicas)
            and quota.is_exceeded(self._clock.monotonic_ms())
        )

    def may_be_behind(self, partition: Partition) -> bool:
        """Whether another broker leads a partition, or may do so without this one having heard of it."""
        return not partition.is_leader or partition.replica_set.may_be_replaced(self._clock.monotonic_ms())

    def count_sent(
        self, parameters: FetchParameters, wanted: Sequence[Wanted], replies: Sequence[PartitionReply]
    ) -> None:
        """Count the records that followers of throttled replicas are sent, those in sync among them."""
        quota = self.leader_quota
        if not quota.is_limited or not parameters.is_from_follower:
            return
        size = 0
        for entry, reply in zip(wanted, replies, strict=True):
            records = reply.records
            if records is None or entry.topic is None:
                continue
            partition = self._partitions.get((entry.topic, reply.partition_index))
            if partition is not None and quota.covers(
                *partition.key, partition.log.config.leader_replication_throttled_replicas
            ):
                size += len(records) if isinstance(records, bytes) else records.length
        if size:
            quota.record(size, self._clock.monotonic_ms())

    def watermark_moved(self, partition: Partition) -> None:
        """A high or low watermark moved outside of a write: requests that wait for it complete at the turn's end."""
        self._advanced.append(partition)
        self._wake()

    def role_changed(self, partition: Partition) -> None:
        """A partition has another leader, epoch or ISR: everything that waits for it is looked at, followers too."""
        self._grown.append(partition)
        self.watermark_moved(partition)

    def on_followed(self, partition: Partition, *, has_watermark_moved: bool) -> None:
        """A follower's log followed its leader's: consumers that read here may read on."""
        if partition.log.has_changes and self.delayed is not None:
            self.delayed.opened(partition)
        if has_watermark_moved:
            self.watermark_moved(partition)

    def propose_shrinking(self) -> None:
        """Ask the controller to remove followers that lag from the in-sync replicas; due every half of the lag."""
        now_ms = self._clock.monotonic_ms()
        for partition in self._partitions.values():
            if partition.replica_set.followers:
                proposal = partition.propose_shrinking(now_ms)
                if proposal is not None:
                    left = sorted(set(partition.isr) - set(proposal.isr))
                    logger.info("%s-%d: %s lag behind and leave the in-sync replicas", *partition.key, left)
                    self._cluster.propose(partition, proposal)

    def on_proposal_answered(self, outcome: AlterOutcome) -> None:
        """The controller answered a proposal."""
        partition, proposal, altered, error = outcome
        if altered is None:
            self.isr_updates_failed += 1
            logger.info(
                "%s-%d: the controller refused to change the ISR to %s: %s",
                *partition.key,
                list(proposal.isr),
                error.name,
            )
            if partition.on_refused(proposal, error):
                self._cluster.propose(partition, proposal)
            return
        change = len(altered.isr) - len(partition.isr)
        self.isr_expands += change > 0
        self.isr_shrinks += change < 0
        if partition.on_altered(proposal, altered, self._clock.monotonic_ms()):
            self.watermark_moved(partition)

    def preferred_read_replica(self, partition: Partition, client: ClientMetadata, fetch_offset: int) -> int:
        """The follower that a consumer should read from; -1 for the leader."""
        if self.replica_selector is None:
            return -1
        now_ms = self._clock.monotonic_ms()
        replica_set, rack_of = partition.replica_set, self._cluster.rack_of
        leader = ReplicaView(self.local_id, rack_of(self.local_id, client.listener), partition.log.log_end_offset, 0)
        candidates = [
            ReplicaView(
                replica,
                rack_of(replica, client.listener),
                follower.log_end_offset,
                now_ms - follower.last_caught_up_ms,
            )
            for replica, follower in replica_set.followers.items()
            if replica in replica_set.isr and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ]
        chosen = self.replica_selector.select(client, leader, [*candidates, leader])
        return -1 if chosen is leader else chosen.broker_id

    # --- deletion ---

    def delete_records(
        self,
        offsets: Sequence[tuple[str, int, int]],
        timeout_ms: int,
        respond: Callable[[list[DeleteResult]], None],
    ) -> None:
        """Move log start offsets (`-1` stands for the high watermark) and respond when all replicas have followed."""
        deleted = [self._delete_before(topic, index, offset) for topic, index, offset in offsets]
        operation = DelayedDeleteRecords(deleted, respond, self._clock.monotonic_ms() + max(timeout_ms, 0))
        keys = [(entry.topic, entry.partition_index) for entry in deleted if entry.partition is not None]
        self.delete_records_purgatory.try_complete_else_watch(operation, keys)

    def _delete_before(self, topic: str, index: int, offset: int) -> DeletedUpTo:
        try:
            partition = self.partition(topic, index)
            partition.check_readable(-1)
            log = partition.log
            if "delete" not in log.config.cleanup_policy:
                raise ApiError(ErrorCode.POLICY_VIOLATION, f"{topic} is not cleaned up by deletion (cleanup.policy)")
            target = log.high_watermark if offset == -1 else offset
            if target < 0 or target > log.high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"cannot delete before {offset}: the high watermark of {topic}-{index} is {log.high_watermark}",
                )
            log.maybe_increment_log_start_offset(target, StartOffsetReason.CLIENT_DELETION)
        except LogDirFailure as failure:
            self.fail_log_dir(failure)
            return DeletedUpTo(topic, index, None, offset, failure.code)
        except ApiError as error:
            return DeletedUpTo(topic, index, None, offset, error.code)
        return DeletedUpTo(topic, index, partition, target)

    # --- failure ---

    def fail_log_dir(self, failure: LogDirFailure) -> None:
        """Take every partition of a failed log directory offline, and complete the requests that wait for them."""
        directory = failure.directory
        failed = [p for p in self._partitions.values() if not p.is_offline and p.log.parent_directory == directory]
        for partition in failed:
            partition.go_offline()
        logger.error("log directory %s failed (%s): %d partitions go offline", directory, failure.cause, len(failed))
        try:
            self._on_log_dir_failure(failure)
        except Exception as cause:  # noqa: BLE001 - the partitions go offline whatever the listener does
            self._timer.report(failure, cause)
        for partition in failed:
            self._complete_all(partition.key)
