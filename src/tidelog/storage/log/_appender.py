"""Appends batches to a log: checks them, assigns offsets, updates indexes and producer state, and stages them.

The order is that of Kafka's `UnifiedLog.append`: check, assign offsets, check the producer, roll, update, stage. The
usual batch is handled in `append_as_leader` itself: one batch of magic 2 from a client that is stored unchanged. Other
methods handle batches that must be changed or checked record by record (`tidelog.records.validation`), batches of
coordinators with their transaction markers, batches that are rejected, and the batches that followers fetch.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.config import LogConfig
from tidelog.records.checksum import crc32c
from tidelog.records.control import EndTransactionMarker
from tidelog.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    SEQUENCE_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_offset_length_epoch_into,
    read_header,
    unpack_header,
)
from tidelog.records.scanner import scan
from tidelog.records.usual import read_usual
from tidelog.records.validation import (
    HEADERS_AT_ONCE_MAX,
    RECORDS_AT_ONCE_MAX,
    PreparedRecords,
    assign,
    short_content,
)
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.log._append_checks import AppendLimits, fetched_batches, marker_of, prepare_append
from tidelog.storage.log._flushing import FlushState
from tidelog.storage.log._lookup import Lookup
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import Segments
from tidelog.storage.log._staging import Staging
from tidelog.storage.producers.state import BatchMetadata, ProducerStateManager
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.segment import Segment
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import AppendOrigin, LogAppendInfo

_new = tuple.__new__
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_NO_FAULT: Final = 0
_RECALLED_BYTES: Final = 16 << 20
"""Bytes of the log that are read for batches from before a snapshot: enough for many producers, in milliseconds."""

Marker = tuple[EndTransactionMarker, int]
"""The end of a transaction, and the timestamp of its record."""


class Announcement(Protocol):
    """Control batches that belong to a batch after them (`tidelog.records.delayed`)."""

    @property
    def batch_count(self) -> int: ...

    def encode(self, base_offset: int, crc: int, now_ms: int) -> list[bytes]:
        """The control batches, of one offset each from `base_offset` on; `crc` is that of the batch after them."""
        ...


class Appender:
    """Appends to one log."""

    __slots__ = (
        "_config",
        "_flush_state",
        "_leader_epochs",
        "_lookup",
        "_name",
        "_positions",
        "_producer_state",
        "_segments",
        "_staging",
        "has_changes",
        "limits",
        "on_converted",
        "on_rolled",
    )

    def __init__(
        self,
        name: str,
        config: LogConfig,
        *,
        segments: Segments,
        positions: Positions,
        staging: Staging,
        flush_state: FlushState,
        lookup: Lookup,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochCache,
    ) -> None:
        self._name = name
        self._segments = segments
        self._positions = positions
        self._staging = staging
        self._flush_state = flush_state
        self._lookup = lookup
        self._producer_state = producer_state
        self._leader_epochs = leader_epochs
        self.has_changes = False
        """Whether control batches about delayed records were appended."""
        self.on_rolled: Callable[[], object] | None = None
        """Called when a segment has been rolled."""
        self.on_converted: Callable[[PreparedRecords], object] | None = None
        """Called with a client's records that were converted and appended."""
        self.update_config(config)

    def update_config(self, config: LogConfig) -> None:
        """Apply a changed configuration from the next batch and the next segment on."""
        self._config = config
        self.limits = AppendLimits(config)

    # From a client

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Check records, give them the next offsets and stage them. The buffer belongs to the log from now on.

        With a `guard`, a batch of a transaction is appended only if the transaction is open here or was verified.

        Raises ApiError for the producer (InvalidRecordError if only some records are invalid) and LogDirFailure. Raises
        TooMuchWorkError for a client's records that would block the event loop: a worker thread then runs
        `prepare_append` on them, and `append_prepared` takes the result.
        """
        if type(records) is not memoryview:
            records = memoryview(records)
        size = len(records)
        limits = self.limits
        staging = self._staging
        if size < HEADER_BYTES or origin is not _CLIENT or not limits.stores_as_is or staging.failure is not None:
            if origin is AppendOrigin.COORDINATOR:
                return self.append_own(records, leader_epoch, now_ms)
            return self.append_checked(records, leader_epoch, now_ms, origin, guard)
        earliest, latest = now_ms - limits.timestamp_before_max_ms, now_ms + limits.timestamp_after_max_ms
        header = read_usual(
            records,
            limits.batch_bytes_max,
            RECORDS_AT_ONCE_MAX,
            earliest,
            latest,
            limits.needs_key,
            HEADERS_AT_ONCE_MAX,
            crc32c,
        )
        if header is None:
            return self.append_checked(records, leader_epoch, now_ms, origin, guard)
        _, length, _, _, _, attributes, delta, since, max_timestamp, producer_id, _, _, count = header
        if attributes & CODEC_MASK:
            content = short_content(attributes & CODEC_MASK, records) if limits.keeps_codec else None
            if content is None or scan(
                content, 0, 0, count, since, earliest, latest, limits.needs_key, NO_TIMESTAMP, HEADERS_AT_ONCE_MAX
            ) != (len(content), count, max_timestamp, _NO_FAULT):
                return self.append_checked(records, leader_epoch, now_ms, origin, guard)
        if producer_id >= 0:
            batch_header: BatchHeader = _new(BatchHeader, header)
            duplicate = self._check_producer(batch_header, _CLIENT, guard)
            if duplicate is not None:
                return duplicate
        positions = self._positions
        first_offset = positions.log_end_offset
        last_offset = first_offset + delta
        segment = self._segments.active
        if (
            segment.size_bytes + size > limits.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_clock_ms
            or last_offset > segment.max_offset
            or segment.is_index_full
        ):
            segment = self._roll_if_due(max_timestamp, last_offset, size, now_ms)
        pack_offset_length_epoch_into(records, 0, first_offset, length, leader_epoch)
        leader_epochs = self._leader_epochs
        if leader_epoch != leader_epochs.latest_epoch:
            leader_epochs.assign(leader_epoch, first_offset)
        try:
            segment.append(last_offset, max_timestamp, size, now_ms)
        except OSError as error:
            raise staging.fail(error) from error
        staging.buffers.append(records)
        positions.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self._producer_state.update(batch_header, first_offset)
        return _new(
            LogAppendInfo,
            (first_offset, last_offset, max_timestamp, NO_TIMESTAMP, positions.log_start_offset, count, size, False),
        )

    def append_checked(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append after all checks; `append_as_leader` calls it for all but the usual batch.

        Raises TooMuchWorkError when a client's records would block the event loop.
        """
        self._staging.check_usable()
        is_client = origin is AppendOrigin.CLIENT
        prepared = prepare_append(
            self._name, records, self.limits.rules, now_ms, from_client=is_client, on_loop=is_client
        )
        return self.append_prepared(prepared, leader_epoch, now_ms, origin, guard)

    def append_prepared(
        self,
        prepared: PreparedRecords,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """See `Log.append_prepared`."""
        self._staging.check_usable()
        if prepared.waiting is not None:
            info = self.append_announced(prepared, prepared.waiting, leader_epoch, now_ms, origin, guard)
        else:
            first_offset = self._positions.log_end_offset
            info = self._append_at(first_offset, prepared, None, leader_epoch, now_ms, origin, guard)
        if prepared.is_converted and origin is AppendOrigin.CLIENT and self.on_converted is not None:
            self.on_converted(prepared)
        return info

    def append_announced(
        self,
        prepared: PreparedRecords,
        announcement: Announcement,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """See `Log.append_announced`."""
        first_offset = self._positions.log_end_offset + announcement.batch_count
        return self._append_at(first_offset, prepared, announcement, leader_epoch, now_ms, origin, guard)

    def _append_at(
        self,
        first_offset: int,
        prepared: PreparedRecords,
        announcement: Announcement | None,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> LogAppendInfo:
        validated = assign(prepared, self.limits.rules, first_offset, leader_epoch, now_ms)
        batch = memoryview(validated.records)
        header = read_header(batch)
        if header.producer_id >= 0:
            duplicate = self._check_producer(header, origin, guard)
            if duplicate is not None:
                return duplicate
        marker = self._check_marker(header, batch, origin)
        if announcement is not None:
            for built in announcement.encode(self._positions.log_end_offset, header.crc, now_ms):
                self._append_built(memoryview(bytearray(built)), leader_epoch, now_ms)
        self._roll_if_due(validated.max_timestamp, validated.last_offset, len(batch), now_ms)
        self._leader_epochs.assign(leader_epoch, first_offset)
        self._account(header, marker, now_ms)
        self._stage(batch, validated.last_offset + 1)
        return LogAppendInfo(
            first_offset,
            validated.last_offset,
            validated.max_timestamp,
            validated.log_append_time,
            self._positions.log_start_offset,
            validated.record_count,
            len(batch),
            False,
        )

    # From this broker

    def _append_built(self, batch: memoryview, leader_epoch: int, now_ms: int) -> None:
        """Append a control batch as it is, its offsets included, whatever the topic's settings."""
        header = read_header(batch)
        assert header.base_offset == self._positions.log_end_offset, "an announcement is built for its offset"
        self._roll_if_due(header.max_timestamp, header.last_offset, len(batch), now_ms)
        self._leader_epochs.assign(leader_epoch, header.base_offset)
        pack_offset_length_epoch_into(batch, 0, header.base_offset, header.batch_length, leader_epoch)
        self._account(header, None, now_ms)
        self._stage(batch, header.next_offset)

    def append_changes(self, changes: Announcement, leader_epoch: int, now_ms: int) -> int:
        """See `Log.append_changes`."""
        self._staging.check_usable()
        for built in changes.encode(self._positions.log_end_offset, 0, now_ms):
            self._append_built(memoryview(bytearray(built)), leader_epoch, now_ms)
        return self._positions.log_end_offset

    def append_own(self, records: bytearray | memoryview, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append a batch that this broker has just built, a coordinator's or a marker, which needs few checks.

        A batch that the topic's configuration would change takes the long way.
        """
        staging, limits = self._staging, self.limits
        size = len(records)
        if size < HEADER_BYTES or staging.failure is not None:
            return self.append_checked(memoryview(records), leader_epoch, now_ms, _COORDINATOR)
        built = unpack_header(records)
        _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, _, _, count = built
        if (
            length + LENGTH_PREFIX_BYTES != size
            or size > limits.batch_bytes_max
            or not (limits.stores_own or limits.stores_as_built(attributes))
        ):
            return self.append_checked(memoryview(records), leader_epoch, now_ms, _COORDINATOR)
        positions = self._positions
        first_offset = positions.log_end_offset
        last_offset = first_offset + delta
        header: BatchHeader | None = None
        if producer_id >= 0:
            header = _new(BatchHeader, (first_offset, length, leader_epoch, *built[3:]))
            self._check_producer(header, _COORDINATOR, None)
            marker = self._check_marker(header, memoryview(records), _COORDINATOR)
        segment = self._segments.active
        if (
            segment.size_bytes + size > limits.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_clock_ms
            or last_offset > segment.max_offset
            or segment.is_index_full
        ):
            segment = self._roll_if_due(max_timestamp, last_offset, size, now_ms)
        if leader_epoch != self._leader_epochs.latest_epoch:
            self._leader_epochs.assign(leader_epoch, first_offset)
        pack_offset_length_epoch_into(records, 0, first_offset, length, leader_epoch)
        if header is not None:
            self._account(header, marker, now_ms)
        else:
            try:
                segment.append(last_offset, max_timestamp, size, now_ms)
            except OSError as error:
                raise staging.fail(error) from error
        staging.buffers.append(records)
        positions.log_end_offset = last_offset + 1
        return _new(
            LogAppendInfo,
            (first_offset, last_offset, max_timestamp, NO_TIMESTAMP, positions.log_start_offset, count, size, False),
        )

    # From the leader

    def append_as_follower(self, records: bytes | bytearray | memoryview, now_ms: int) -> LogAppendInfo:
        """See `Log.append_as_follower`."""
        self._staging.check_usable()
        batches = fetched_batches(self._name, memoryview(records), self._positions.log_end_offset)
        max_timestamp = NO_TIMESTAMP
        record_count = size_bytes = 0
        for batch, header in batches:
            self._append_fetched(batch, header, now_ms)
            max_timestamp = max(max_timestamp, header.max_timestamp)
            record_count += header.record_count
            size_bytes += len(batch)
        first_offset = batches[0][1].base_offset if batches else -1
        last_offset = batches[-1][1].last_offset if batches else -1
        start_offset = self._positions.log_start_offset
        return LogAppendInfo(
            first_offset, last_offset, max_timestamp, NO_TIMESTAMP, start_offset, record_count, size_bytes, False
        )

    def _append_fetched(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        marker = self._check_marker(header, batch, AppendOrigin.REPLICATION)
        segment_bytes = self.limits.segment_bytes
        if self._segments.active.should_roll(
            header.max_timestamp, header.last_offset, len(batch), segment_bytes, now_ms
        ):
            self.roll(now_ms, header.base_offset)
        self._leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._account(header, marker, now_ms)
        self._stage(batch, header.next_offset)

    # Producers

    def _check_producer(
        self, header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None
    ) -> LogAppendInfo | None:
        """Reject a batch that is out of order; return the first result if it is a client's retry, else None."""
        state = self._producer_state
        entry = state.producers.get(header[9])
        if (
            entry is not None
            and header[11] == (entry.last_sequence + 1) & SEQUENCE_MASK
            and header[10] == entry.producer_epoch
            and (header[5] & TRANSACTIONAL_BIT if entry.transaction_first_offset >= 0 else guard is None)
        ):
            return None
        if state.is_recall_due and entry is not None:
            self._recall_batches()
        duplicate = state.check(header, origin)
        if duplicate is not None:
            return self._already_there(header, duplicate)
        if guard is not None and header.is_transactional:
            state.check_verified(header, guard)
        return None

    def _already_there(self, header: BatchHeader, duplicate: BatchMetadata) -> LogAppendInfo:
        """The result for a retry: the offsets and the timestamp of the first append, as in Kafka."""
        return LogAppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            duplicate.timestamp,
            self._positions.log_start_offset,
            header.record_count,
            header.size_bytes,
            True,
        )

    def _recall_batches(self) -> None:
        """Restore the batches of producers from before the last snapshot.

        A snapshot has the last batch of each producer, as in Kafka. But a producer may have five requests in flight
        when the broker stops, and retries all of them. Those that had been written must be recognised, or it gets
        OUT_OF_ORDER_SEQUENCE_NUMBER and fails. So at the first batch that does not continue its producer's sequence,
        the end of the log before the snapshot is read once, headers only, for all producers.
        """
        state = self._producer_state
        first_offsets = (entry.batches[0].first_offset for entry in state.producers.values() if entry.batches)
        try:
            state.recall(self._lookup.headers_before(max(first_offsets, default=0), _RECALLED_BYTES))
        except OSError as error:
            raise self._staging.fail(error) from error

    def _check_marker(self, header: BatchHeader, batch: memoryview, origin: AppendOrigin) -> Marker | None:
        """The marker in a control batch, if its coordinator may still write it."""
        marker = marker_of(header, batch)
        if marker is not None:
            self._producer_state.check_marker(header, marker[0].coordinator_epoch, origin)
        return marker

    # Accounting and staging

    def _account(self, header: BatchHeader, marker: Marker | None, now_ms: int) -> None:
        """Update the active segment, its indexes and the producer state with a batch."""
        segment = self._segments.active
        try:
            segment.append(header.last_offset, header.max_timestamp, header.size_bytes, now_ms)
            if header.producer_id < 0:
                if header.is_control:
                    self.has_changes = True
                return
            if not header.is_control:
                self._producer_state.update(header, header.base_offset)
            elif marker is not None:
                self._end_transaction(segment, header, marker)
        except OSError as error:
            raise self._staging.fail(error) from error

    def _end_transaction(self, segment: Segment, header: BatchHeader, marker: Marker) -> None:
        state = self._producer_state
        end, timestamp = marker
        completed = state.end_transaction(
            header, header.last_offset, timestamp, end.coordinator_epoch, is_commit=end.is_commit
        )
        if completed is None:
            return
        if completed.is_aborted:
            producer_id, first_offset, last_offset, _ = completed
            last_stable_offset = state.last_stable_offset(completed)
            segment.transaction_index.append(
                AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
            )
        state.complete(completed)

    def _stage(self, batch: memoryview, next_offset: int) -> None:
        """Keep a batch until the next write."""
        self._staging.buffers.append(batch)
        self._positions.log_end_offset = next_offset

    # Segments

    def _roll_if_due(self, max_timestamp: int, last_offset: int, size_bytes: int, now_ms: int) -> Segment:
        """The segment that batches of `size_bytes` up to `last_offset` go to: the active one, or a new one."""
        segment = self._segments.active
        if segment.should_roll(max_timestamp, last_offset, size_bytes, self.limits.segment_bytes, now_ms):
            return self.roll(now_ms)
        return segment

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """See `Log.roll`."""
        self._staging.write()
        active = self._segments.active
        base = max(base_offset or 0, self._positions.log_end_offset)
        if active.size_bytes == 0 and active.base_offset == base:
            return active
        flush_state = self._flush_state
        try:
            active.become_inactive()
            flush_state.add_unsynced(*active.index_paths())
            segment = Segment.create(active.directory, base, self._config, now_ms)
            self._producer_state.map_end_offset = base
            snapshot = self._producer_state.take_snapshot(sync=False)
        except OSError as error:
            raise self._staging.fail(error) from error
        if snapshot is not None:
            flush_state.add_unsynced(snapshot)
        flush_state.add_unsynced(active.directory)
        self._segments.add(segment)
        self._lookup.forget()
        self._staging.follow_active_segment()
        if self.on_rolled is not None:
            self.on_rolled()
        return segment
