"""The delayed records of one partition: what waits, and what to append next.

The state is derived from the committed part of the partition's log, on every replica, so a new leader knows what
waits. A leader changes it only by appending a change (`tidelog.records.delayed`) and applying it once it is committed,
one at a time: what was delivered, cancelled or moved is decided by the log alone. A new leader appends none before it
has applied everything its log held when its epoch began: it could deliver again what the leader before it had
delivered.

The time is an argument. Files are those of the log and of `storage.waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.records.batch import iterate_records
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.delayed import (
    CHANGE_OVERHEAD_BYTES,
    ENTRY_BYTES,
    WAITING_SIZE_BYTES,
    Change,
    Entry,
    build_delivery,
    delivery_bytes,
    distances_of,
    encode_change,
    encode_floor,
    is_change,
    is_floor,
    key_hash,
    key_of,
    parse_change,
    parse_floor,
    unpack_entry,
    waiting_bytes,
    waiting_size,
)
from tidelog.records.header import BatchHeader
from tidelog.replication.partition import ACKS_ALL, Partition
from tidelog.storage.segment import Segment
from tidelog.storage.waiting.files import AppliedLog, Checkpoint, Pending, WaitingFiles
from tidelog.storage.waiting.index import LOCATION_STEP, RECENT_MAX, WaitingIndex

_DELIVERED_RECORDS_MAX: Final = 2000
_DELIVERED_BYTES_MAX: Final = 256 << 10
_CARRIED_BYTES_MAX: Final = 256 << 10
_APPLIED_BATCHES: Final = 200
"""Batches in one step of `apply`: about a millisecond."""
_GUESSED_BYTES: Final = 1024


class _Announced(NamedTuple):
    """A change that takes effect if the batch at `offset` has the checksum `crc`."""

    offset: int
    crc: int
    change: Change


class _Changes:
    """Changes to append, as `Log.append_announced` and `Log.append_changes` take them."""

    __slots__ = ("_carried", "_removed", "_replacements")

    def __init__(
        self,
        removed: Sequence[bytes],
        replacements: Sequence[bytes] = (),
        carried: Sequence[tuple[Entry, bytes]] = (),
    ) -> None:
        self._removed = removed
        self._replacements = replacements
        self._carried = carried

    @property
    def batch_count(self) -> int:
        return 1

    def encode(self, base_offset: int, crc: int, now_ms: int) -> list[bytes]:
        payload = [waiting_bytes(tail) for _, tail in self._carried]
        moved = [
            entry._replace(location=base_offset, distance=distance).pack()
            for (entry, _), distance in zip(self._carried, distances_of(payload), strict=True)
        ]
        change = Change(self._removed, [*self._replacements, *moved], 1 if crc else 0, crc)
        return [encode_change(change, payload, base_offset=base_offset, timestamp=now_ms)]


class _Floor:
    """A floor to append, as `Log.append_changes` takes it."""

    __slots__ = ("_offset",)

    def __init__(self, offset: int) -> None:
        self._offset = offset

    @property
    def batch_count(self) -> int:
        return 1

    def encode(self, base_offset: int, crc: int, now_ms: int) -> list[bytes]:  # noqa: ARG002 - it announces none
        return [encode_floor(self._offset, base_offset=base_offset, timestamp=now_ms)]


class DelayedPartition:
    """The waiting records of one replica. The event loop's thread owns it."""

    def __init__(self, partition: Partition, recent_max: int = RECENT_MAX) -> None:
        self.partition = partition
        self._recent_max = recent_max
        self._files = WaitingFiles(lambda: partition.log.directory)
        self._announced: list[_Announced] = []
        # A leader that comes back to its partition, with another log say, may have a change under way.
        self._own_end = partition.log.log_end_offset
        self._own_epoch = partition.leader_epoch
        self._changes_since_checkpoint = 0
        self.index: WaitingIndex
        self._pending: Pending
        self._applied: AppliedLog
        self._next: int
        loaded = self._files.load(recent_max)
        if loaded is not None and self._is_of_this_log(loaded[1]):
            self.index, self._applied, self._pending = loaded
            self._next = self._applied.offset
        else:
            self._start_over()
        self._checkpointed = self._applied
        self._generation = partition.log.positions.generation
        self._retain()

    def _is_of_this_log(self, applied: AppliedLog) -> bool:
        """Whether the log still holds what was applied; a truncation may have removed it."""
        log = self.partition.log
        if not applied.offset:
            return True
        if applied.offset > log.log_end_offset:
            return False
        found = log.leader_epochs.epoch_for_offset(applied.offset - 1)
        return -1 in (found, applied.leader_epoch) or found == applied.leader_epoch

    def _start_over(self) -> None:
        """Forget everything and apply the log from its start. What was cleaned was settled before."""
        log = self.partition.log
        self.index = self._files.new_index(self._recent_max)
        self._pending = {}
        self._announced = []
        clean_point = log.positions.clean_point
        self._next = max(log.log_start_offset, clean_point if clean_point <= log.high_watermark else 0)
        self._applied = AppliedLog(self._next, -1)

    # From the log

    @property
    def applied_offset(self) -> int:
        """Everything below it is applied."""
        return self._next

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing can: the topic's setting is off, and its log is applied."""
        return (
            not self.partition.log.config.tidelog_delay_enable
            # A replica that lags behind a compacted log needs the next floor.
            and not self.partition.log.config.is_compacted
            and not len(self.index)
            and not self._pending
            # Changes that are not committed yet may let records wait.
            and self._next >= self.partition.log.log_end_offset
        )

    def apply(self) -> bool:
        """Apply some committed batches; whether there are more. Raises OSError and CorruptRecordError."""
        log = self.partition.log
        if log.positions.generation != self._generation:
            self._generation = log.positions.generation
            if self._next > log.high_watermark or not self._is_of_this_log(self._applied):
                self._start_over()
        self._next = max(self._next, log.log_start_offset)
        end = log.high_watermark
        if self._next >= end:
            return False
        left = _APPLIED_BATCHES
        for segment, position, header in log.batches(self._next, end):
            if header.base_offset >= self._next:
                self._apply_batch(segment, position, header)
            self._next = header.next_offset
            if not self._announced:
                self._applied = AppliedLog(self._next, header.partition_leader_epoch)
            left -= 1
            if not left:
                return self._next < end
        self._next = max(self._next, end)
        return False

    def _apply_batch(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if self._announced:
            self._resolve(header)
        if not header.is_control:
            return
        if header.producer_id >= 0:
            if header.producer_id in self._pending:
                self._end_transaction(segment.read_batch(position, header), header.producer_id)
            return
        batch = segment.read_batch(position, header)
        if is_change(batch, header):
            change = parse_change(batch)
            if change.lead:
                self._announced.append(_Announced(header.base_offset + change.lead, change.crc, change))
            else:
                self._take_effect(change)
        elif is_floor(batch, header):
            self._settle(parse_floor(batch))

    def _settle(self, floor: int) -> None:
        """Nothing below an offset waits, whatever this replica has missed of a log that was compacted meanwhile."""
        self._changes_since_checkpoint += 1
        self.index.settle(floor)
        for producer_id, (epoch, entries) in list(self._pending.items()):
            kept = [entry for entry in entries if unpack_entry(entry).location >= floor]
            if kept:
                self._pending[producer_id] = epoch, kept
            else:
                del self._pending[producer_id]
        self._retain()

    def _resolve(self, header: BatchHeader) -> None:
        """A batch follows changes that may depend on it."""
        waiting = []
        for announced in self._announced:
            if announced.offset > header.base_offset:
                waiting.append(announced)
            elif announced.offset == header.base_offset and announced.crc == header.crc:
                self._take_effect(announced.change)
        self._announced = waiting

    def _take_effect(self, change: Change) -> None:
        self._changes_since_checkpoint += len(change.removed) + len(change.added)
        if change.producer_id >= 0:
            _, entries = self._pending.setdefault(change.producer_id, (change.producer_epoch, []))
            entries.extend(change.added)
            return
        index = self.index
        for entry in change.removed:
            index.remove(entry)
        for entry in change.added:
            index.add(entry)

    def _end_transaction(self, batch: bytes, producer_id: int) -> None:
        """A commit lets the records of a transaction wait, an abort drops them. Relative delays begin here."""
        _, entries = self._pending.pop(producer_id)
        self._changes_since_checkpoint += len(entries)
        for record in iterate_records(batch):
            if parse_end_transaction_marker(record).is_commit:
                for packed in entries:
                    entry = unpack_entry(packed)
                    if entry.deliver_at_ms < 0:
                        entry = entry._replace(deliver_at_ms=record.timestamp - entry.deliver_at_ms)
                    self.index.add(entry.pack())

    # To the log

    @property
    def may_change(self) -> bool:
        """Whether this replica leads, knows all that its log held, and its own last change is applied."""
        partition = self.partition
        if not partition.is_leader or not partition.is_settled:
            return False
        if self._next < partition.replica_set.leader_epoch_start_offset:
            return False
        return self._own_epoch != partition.leader_epoch or self._next >= self._own_end

    def next_due_ms(self) -> int | None:
        """When the next record is due; None if none waits."""
        first = self.index.first()
        return None if first is None else unpack_entry(first).deliver_at_ms

    def deliver(self, now_ms: int) -> bool:
        """Append the records that are due, some at a time; whether there were any.

        Raises ApiError if the partition cannot be appended to now, and LogDirFailure.
        """
        assert self.may_change, f"{self.partition.key} has a change under way"
        self.partition.check_appendable(ACKS_ALL)
        log = self.partition.log
        rules = log.rules
        room = min(_DELIVERED_BYTES_MAX, rules.max_message_bytes, rules.segment_bytes)
        earliest_ms = max(now_ms - rules.before_max_ms, 0)
        taken: list[bytes] = []
        due: list[tuple[int, bytes]] = []
        read = self.reader()
        for packed in self.index.ordered():
            entry = unpack_entry(packed)
            if entry.deliver_at_ms > now_ms or len(taken) == _DELIVERED_RECORDS_MAX:
                break
            tail = read(entry)
            if tail is not None:
                room -= delivery_bytes(len(tail))
                if room < 0 and due:
                    break
                due.append((max(entry.deliver_at_ms, earliest_ms), tail))
            taken.append(packed)
        if not taken:
            return False
        if not due:
            # Their bytes are gone with a part of the log that was lost.
            self._append(_Changes(taken), now_ms)
            return True
        batch = memoryview(bytearray(build_delivery(due)))
        prepared = log.prepare_append(log.name, batch, rules, now_ms, from_client=False)
        info = log.append_announced(prepared, _Changes(taken), self.partition.leader_epoch, now_ms)
        self._appended(info.last_offset + 1)
        return True

    def cancel(self, entries: Sequence[bytes], now_ms: int) -> None:
        """Remove entries that wait."""
        self._append(_Changes(entries), now_ms)

    def reschedule(self, entries: Sequence[bytes], deliver_at_ms: int, now_ms: int) -> None:
        """Give entries that wait another time."""
        moved = [unpack_entry(entry)._replace(deliver_at_ms=deliver_at_ms).pack() for entry in entries]
        self._append(_Changes(entries, moved), now_ms)

    def carry(self, entries: Sequence[bytes], now_ms: int) -> None:
        """Copy the bytes of waiting records to the end of the log, so that its front can be deleted."""
        read = self.reader()
        found = [(packed, entry, read(entry)) for packed in entries for entry in (unpack_entry(packed),)]
        carried = [(entry, tail) for _, entry, tail in found if tail is not None]
        self._append(_Changes([packed for packed, _, _ in found], (), carried), now_ms)

    @property
    def floor_due(self) -> int:
        """The floor that could be appended: below it nothing waits, and the checkpoint has everything."""
        retained_from = self.partition.log.retained_from or 0
        return retained_from - retained_from % LOCATION_STEP

    def settle(self, now_ms: int) -> None:
        """Append a floor, so that the log can be compacted up to it."""
        self._append(_Floor(self.floor_due), now_ms)

    def _append(self, changes: _Changes | _Floor, now_ms: int) -> None:
        assert self.may_change, f"{self.partition.key} has a change under way"
        self.partition.check_appendable(ACKS_ALL)
        self._appended(self.partition.log.append_changes(changes, self.partition.leader_epoch, now_ms))

    def _appended(self, end_offset: int) -> None:
        self._own_end = end_offset
        self._own_epoch = self.partition.leader_epoch

    @property
    def own_end(self) -> int:
        """The offset after the last change of this leader."""
        return self._own_end

    # Searching

    def reader(self) -> Callable[[Entry], bytes | None]:
        """A function that returns the bytes of an entry's record, None if the log has lost them."""
        ends: dict[int, tuple[Segment, int] | None] = {}

        def read(entry: Entry) -> bytes | None:
            location = entry.location
            if location not in ends:
                ends[location] = self.partition.log.end_of_batch(location)
            found = ends[location]
            if found is None:
                return None
            segment, end = found
            file = segment.log_file
            start = end - 1 - entry.distance
            data = file.read(start, min(_GUESSED_BYTES, entry.distance))
            size = waiting_size(data)
            if size + WAITING_SIZE_BYTES > len(data):
                data = file.read(start, size + WAITING_SIZE_BYTES)
            return data[WAITING_SIZE_BYTES : WAITING_SIZE_BYTES + size]

        return read

    def find(self, key: bytes | None) -> Iterator[list[bytes]]:
        """The entries of a key, some at a time."""
        read = self.reader()
        for piece in self.index.with_hash(key_hash(key)):
            yield [
                packed for packed in piece if (tail := read(unpack_entry(packed))) is not None and key_of(tail) == key
            ]

    def still_waiting(self, entries: Iterable[bytes]) -> list[bytes]:
        """Those of some entries that wait."""
        return [entry for entry in entries if self.index.has(entry)]

    def before(self, offset: int) -> Iterator[list[bytes]]:
        """Entries whose bytes lie before an offset of the log, some at a time."""
        for piece in self.index.in_pieces():
            yield [packed for packed in piece if unpack_entry(packed).location < offset]

    def groups(self, entries: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Entries in groups whose records fit one control batch."""
        rules = self.partition.log.rules
        limit = min(_CARRIED_BYTES_MAX, rules.max_message_bytes, rules.segment_bytes) - CHANGE_OVERHEAD_BYTES
        read = self.reader()
        group: list[bytes] = []
        room = limit
        for packed in entries:
            size = len(read(unpack_entry(packed)) or b"") + WAITING_SIZE_BYTES + 2 * ENTRY_BYTES
            if group and size > room:
                yield group
                group, room = [], limit
            group.append(packed)
            room -= size
        if group:
            yield group

    # Files

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether a restart would have to apply many changes again."""
        return self._changes_since_checkpoint >= 4096

    @property
    def is_checkpointed(self) -> bool:
        """Whether the last checkpoint has all that is applied."""
        return self._checkpointed == self._applied

    def checkpoint(self) -> Checkpoint:
        """What to write; `checkpoint_written` says that it was."""
        self._changes_since_checkpoint = 0
        return self._files.checkpoint(self.index, self._applied, self._pending)

    def checkpoint_written(self, checkpoint: Checkpoint) -> None:
        """A checkpoint is on disk: runs that it does not name may go, and the log before it."""
        self._checkpointed = checkpoint.applied
        self._files.remove_others(self.index.run_numbers() | checkpoint.numbers)
        self._retain()

    def forget(self) -> None:
        """Nothing waits: remove the files and let go of the log."""
        self._files.remove()
        log = self.partition.log
        log.retained_from = log.settled_before = None
        log.forget_changes()

    def _retain(self) -> None:
        """Keep the segments that waiting records lie in, and those that a restart would apply again."""
        locations = [unpack_entry(entry).location for _, some in self._pending.values() for entry in some[:1]]
        first = self.index.first_location
        if first is not None:
            locations.append(first)
        log = self.partition.log
        log.retained_from = retained_from = min([self._checkpointed.offset, *locations])
        log.settled_before = min(self.index.floor, retained_from)
