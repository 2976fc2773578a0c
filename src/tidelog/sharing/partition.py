"""One partition as one share group sees it: which records are available, locked or done (KIP-932).

    AVAILABLE  --acquire-->  ACQUIRED  --accept-->                  ACKNOWLEDGED
        ^                        |     --gap-->                     ARCHIVED
        +---release, timeout-----+     --reject, too many times-->  ARCHIVED, or by way of ARCHIVING

What is released, or whose lock has timed out, may have to wait: a group has delays by the count of deliveries, and a
release may bring its own. A group with dead letters has an owner that writes them: it takes what is ARCHIVING and
stored as such (`take_letters`), and says when their dead letters are there (`letters_written`).

The range in flight begins at `start_offset`, before which everything is done, and ends at `end_offset`, from which on
nothing was delivered. An acknowledgement takes effect when it is stored: until then its records stay locked, and if
it cannot be stored they are locked as before. What needs no confirmation (a lock that times out, a session that ends)
takes effect at once and is stored with the next write. There is one write under way at a time, so that a start offset
is never stored before the acknowledgements that it rests on.

Decisions are pure: the owner reads records, writes what `take_write` returns and reports back with `on_written`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from tidelog.sharing.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    FINAL,
    Change,
    DeliveryState,
    Run,
    Runs,
    StateBatch,
)
from tidelog.wire.errors import ApiError, ErrorCode

NO_DEADLINE: Final = 2**63 - 1
DELAY_MS_MAX: Final = 366 * 86_400_000
"""The longest delay that a release may bring."""


class AckType(IntEnum):
    """How a consumer acknowledges a record, by its number on the wire."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_TARGETS: Final = {
    AckType.GAP: ARCHIVED,
    AckType.ACCEPT: ACKNOWLEDGED,
    AckType.RELEASE: AVAILABLE,
}
_KEPT: Final = FINAL | {ARCHIVING}
"""States of stored records that are not delivered any more."""


class Ack(NamedTuple):
    """An acknowledgement of a range of offsets: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    delay_ms: int = -1
    """How long what is released waits; -1: as long as the group's settings say."""


class ReadBatch(NamedTuple):
    """A record batch that was read, as far as it matters here."""

    first_offset: int
    last_offset: int
    is_delivered: bool = True
    """False for what no consumer may or need see: aborted records, control batches, batches without records."""


class Letter(NamedTuple):
    """Records whose dead letter is to be written."""

    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool
    """By a consumer; otherwise they were delivered too often."""
    since_ms: int
    """Since when it is to be written, by the wall clock; 0 if this is not known."""
    may_be_written: bool
    """A leader before this one may have written it, not before that time."""


class Acquired(NamedTuple):
    """Records that a member has locked."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """Settings of the group that hold for one request."""

    lock_ms: int = 30_000
    delivery_count_limit: int = 5
    records_in_flight_max: int = 2_000
    retry_delays_ms: tuple[int, ...] = ()
    """How long a released record waits after its first, second, … delivery; the last one holds for all later ones."""
    has_dead_letters: bool = False
    """Whether what is rejected or delivered too often is written to another topic before it is archived."""

    @property
    def failed(self) -> DeliveryState:
        """What a record becomes that is rejected or was delivered too often."""
        return ARCHIVING if self.has_dead_letters else ARCHIVED

    def retry_delay_ms(self, delivery_count: int) -> int:
        delays = self.retry_delays_ms
        return delays[min(delivery_count, len(delays)) - 1] if delays and delivery_count > 0 else 0


class Write(NamedTuple):
    """What has changed since the last write. Only `SharePartition` looks into `changes` and `ranges`."""

    start_offset: int
    done_count: int
    """Records behind the start that are done."""
    batches: tuple[StateBatch, ...]
    changes: tuple[Change, ...]
    ranges: tuple[tuple[int, int], ...]


class SharePartition:
    """The state of one partition for one group, on the broker that leads the partition."""

    __slots__ = (
        "_dirty",
        "_in_flight",
        "_letters",
        "_old_letters",
        "_runs",
        "_stored_start",
        "_unsent",
        "_wall_ahead_ms",
        "_write",
        "end_offset",
        "start_offset",
    )

    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        is_stored: bool = True,
        wall_ahead_ms: int = 0,
        limits: ShareLimits | None = None,
    ) -> None:
        """As it was stored. Records between stored batches were delivered, if at all, without an acknowledgement.

        `wall_ahead_ms` is the wall clock's time less that of the clock that deadlines are of: what is stored must mean
        the same to other brokers.
        """
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._runs = Runs()
        self._dirty: list[tuple[int, int]] = []
        self._letters: list[tuple[int, int]] = []
        """What is stored as being archived, and not taken yet."""
        self._old_letters: list[tuple[int, int]] = []
        """The same, of a leader before this one: it may have written their dead letters."""
        self._wall_ahead_ms = wall_ahead_ms
        self._unsent: list[Change] = []
        self._write: Write | None = None
        self._stored_start = start_offset if is_stored else -1
        for first, last, state, count, time_ms in sorted(batches):
            if last < self.end_offset:
                continue
            if first > self.end_offset:
                self._extend(first - 1, AVAILABLE)
            run = self._extend(last, DeliveryState(state) if state in _KEPT else AVAILABLE, count)
            if run.state in (AVAILABLE, ARCHIVING) and time_ms > 0:
                run.deadline_ms = max(time_ms - wall_ahead_ms, 1)
            if run.state is ARCHIVING:
                run.is_rejected = limits is None or count < limits.delivery_count_limit
                self._old_letters.append((run.first, run.last))
        self._in_flight = sum(len(run) for run in self._runs if not run.is_done)
        self._advance()

    def _extend(self, last: int, state: DeliveryState, count: int = 0) -> Run:
        run = Run(self.end_offset, last, state, count)
        self._runs.append(run)
        self.end_offset = last + 1
        return run

    # --- questions ---

    @property
    def runs(self) -> Runs:
        """For descriptions and checks only."""
        return self._runs

    @property
    def in_flight(self) -> int:
        """Records between start and end that are not done."""
        return self._in_flight

    @property
    def is_writing(self) -> bool:
        return self._write is not None

    def next_offset(self, now_ms: int) -> int:
        """The first record that may be acquired, or the end: where to read next."""
        for run in self._runs:
            if run.is_acquirable(now_ms):
                return run.first
        return self.end_offset

    def may_acquire(self, readable_end: int, now_ms: int, limits: ShareLimits) -> bool:
        """Whether there is a record below `readable_end` to acquire."""
        offset = self.next_offset(now_ms)
        return offset < readable_end and (offset < self.end_offset or self._in_flight < limits.records_in_flight_max)

    def next_deadline_ms(self) -> int:
        """When a lock or a delay ends, at the earliest; `NO_DEADLINE` if there is none."""
        return min(
            (
                run.deadline_ms
                for run in self._runs
                if run.deadline_ms and run.change is None and run.state is not ARCHIVING
            ),
            default=NO_DEADLINE,
        )

    # --- acquire ---

    def acquire(
        self,
        member_id: str,
        batches: Sequence[ReadBatch],
        now_ms: int,
        limits: ShareLimits,
        *,
        records_max: int,
        batch_records: int,
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Lock records of these batches, which were read at `next_offset`, for a member.

        At most `records_max`, and in whole batches unless `is_strict`: then the last batch may exceed that limit. The
        result has `batch_records` in an entry if it can.
        """
        if not batches:
            return []
        deadline_ms = now_ms + limits.lock_ms
        taken = self._acquire_again(member_id, batches, now_ms, deadline_ms, records_max, is_strict)
        left = records_max - sum(piece.last_offset - piece.first_offset + 1 for piece in taken)
        taken += self._acquire_new(member_id, batches, deadline_ms, left, limits, is_strict)
        self._runs.join()
        self._advance()
        return _in_batches(taken, batch_records)

    def _acquire_again(
        self,
        member_id: str,
        batches: Sequence[ReadBatch],
        now_ms: int,
        deadline_ms: int,
        left: int,
        is_strict: bool,
    ) -> list[Acquired]:
        """Lock what was in flight before and is available."""
        self._archive_hidden(batches)
        taken = []
        first, end = batches[0].first_offset, batches[-1].last_offset
        for run in self._runs.within(first, end):
            if left <= 0:
                break
            if not run.is_acquirable(now_ms):
                continue
            low, high = max(run.first, first), min(run.last, end)
            if is_strict:
                high = min(high, low + left - 1)
            for piece in self._runs.cut_out(low, high):
                piece.count += 1
                _lock(piece, member_id, deadline_ms)
                taken.append(Acquired(piece.first, piece.last, piece.count))
            left -= high - low + 1
        return taken

    def _archive_hidden(self, batches: Sequence[ReadBatch]) -> None:
        """What is in flight since before a restart may prove to hold nothing for consumers."""
        position = batches[0].first_offset
        for batch in batches:
            if position >= self.end_offset:
                return
            if batch.first_offset > position:
                self._archive_available(position, min(batch.first_offset, self.end_offset) - 1)
            if not batch.is_delivered:
                self._archive_available(batch.first_offset, min(batch.last_offset, self.end_offset - 1))
            position = batch.last_offset + 1

    def _archive_available(self, first: int, last: int) -> None:
        if any(run.state is AVAILABLE and run.change is None for run in self._runs.within(first, last)):
            for run in self._runs.cut_out(first, last):
                if run.state is AVAILABLE and run.change is None:
                    self._end(run, ARCHIVED)

    def _acquire_new(
        self,
        member_id: str,
        batches: Sequence[ReadBatch],
        deadline_ms: int,
        left: int,
        limits: ShareLimits,
        is_strict: bool,
    ) -> list[Acquired]:
        """Lock what was never delivered, and skip over what holds no records for consumers."""
        taken = []
        for batch in batches:
            if batch.last_offset < self.end_offset:
                continue
            if batch.first_offset > self.end_offset:
                self._skip(batch.first_offset - 1)
            if not batch.is_delivered:
                self._skip(batch.last_offset)
                continue
            room = min(left, limits.records_in_flight_max - self._in_flight)
            if room <= 0:
                break
            first, last = self.end_offset, batch.last_offset
            if is_strict:
                last = min(last, first + room - 1)
            run = Run(first, last, AVAILABLE, 1)
            _lock(run, member_id, deadline_ms)
            self._runs.append(run)
            self.end_offset = last + 1
            taken.append(Acquired(first, last, 1))
            self._in_flight += last - first + 1
            left -= last - first + 1
            if last < batch.last_offset:
                break
        return taken

    def _skip(self, last: int) -> None:
        first = self.end_offset
        self._extend(last, ARCHIVED)
        self._dirty.append((first, last))

    # --- acknowledge ---

    def acknowledge(self, member_id: str, acks: Sequence[Ack], now_ms: int, limits: ShareLimits) -> Change | None:
        """Acknowledge records of a member, all or none; raises ApiError if one of them is not locked by it.

        Returns the change to wait for; None if there is nothing to store, because locks are only renewed or the
        records lie before the start.
        """
        pieces = self._pieces_of(acks)
        for first, last, *_ in pieces:
            self._check_held(member_id, first, last)
        change = Change()
        for first, last, kind, delay_ms in pieces:
            for run in self._runs.cut_out(first, last):
                if kind is AckType.RENEW:
                    run.deadline_ms = now_ms + limits.lock_ms
                    continue
                _aim(run, kind, delay_ms, now_ms, limits)
                run.change = change
                change.runs.append(run)
        if not change.runs:
            self._runs.join()
            return None
        self._unsent.append(change)
        return change

    def _pieces_of(self, acks: Sequence[Ack]) -> list[tuple[int, int, AckType, int]]:
        """Ranges of one type each and their delays, in order and from the start on."""
        pieces: list[tuple[int, int, AckType, int]] = []
        for ack in sorted(acks):
            check_ack(ack)
            if pieces and ack.first_offset <= pieces[-1][1]:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, f"offset {ack.first_offset} is acknowledged twice")
            first = ack.first_offset
            if len(ack.types) == 1:
                pieces.append((first, ack.last_offset, AckType(ack.types[0]), ack.delay_ms))
                continue
            for kind, group in groupby(ack.types):
                last = first + sum(1 for _ in group) - 1
                pieces.append((first, last, AckType(kind), ack.delay_ms))
                first = last + 1
        start = self.start_offset
        return [(max(first, start), last, kind, delay) for first, last, kind, delay in pieces if last >= start]

    def _check_held(self, member_id: str, first: int, last: int) -> None:
        if last >= self.end_offset:
            text = f"offset {last} was not acquired: nothing from {self.end_offset} on was"
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, text)
        for run in self._runs.within(first, last):
            if run.state is not ACQUIRED or run.member_id != member_id or run.change is not None:
                text = f"offset {max(first, run.first)} is not locked by {member_id}"
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, text)

    # --- what takes effect at once ---

    def expire(self, now_ms: int, limits: ShareLimits) -> bool:
        """End the locks that have timed out; whether there were any, or a delay has passed."""
        has_changed = False
        for run in self._runs:
            if run.change is not None or not run.deadline_ms or run.deadline_ms > now_ms or run.state is ARCHIVING:
                continue
            has_changed = True
            if run.state is ACQUIRED:
                self._free(run, limits, limits.retry_delay_ms(run.count))
            else:
                run.deadline_ms = 0
        if has_changed:
            self._runs.join()
            self._advance()
        return has_changed

    def release_member(self, member_id: str, limits: ShareLimits) -> bool:
        """The session of a member has ended: what it holds is available, as if it had not been delivered to it."""
        has_changed = False
        for run in self._runs:
            if run.state is ACQUIRED and run.member_id == member_id and run.change is None:
                run.count -= 1
                run.deadline_ms = 0
                self._free(run, limits, 0)
                has_changed = True
        if has_changed:
            self._runs.join()
            self._advance()
        return has_changed

    def _free(self, run: Run, limits: ShareLimits, delay_ms: int) -> None:
        """End a lock without an acknowledgement; what waits then waits from its deadline on."""
        if run.count >= limits.delivery_count_limit:
            self._end(run, limits.failed)
        else:
            run.state = run.target = AVAILABLE
            run.member_id = ""
            run.deadline_ms = run.deadline_ms + delay_ms if delay_ms else 0
            self._dirty.append((run.first, run.last))

    def _end(self, run: Run, state: DeliveryState) -> None:
        run.state = run.target = state
        run.member_id = ""
        if state in FINAL:
            run.deadline_ms = 0
            self._in_flight -= len(run)
        self._dirty.append((run.first, run.last))

    def move_start(self, log_start_offset: int) -> bool:
        """The log begins at this offset now: what lies before is gone. Whether that moved the start."""
        if log_start_offset <= self.start_offset:
            return False
        self._in_flight -= sum(
            min(run.last, log_start_offset - 1) - run.first + 1
            for run in self._runs.within(self.start_offset, log_start_offset - 1)
            if not run.is_done
        )
        self._runs.drop_before(log_start_offset)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self._advance()
        return True

    def _advance(self) -> None:
        """Move the start over what is done."""
        start = self.start_offset
        for run in self._runs:
            if not run.is_done:
                break
            start = run.last + 1
        if start > self.start_offset:
            self._runs.drop_before(start)
            self.start_offset = start

    # --- store ---

    def take_write(self) -> Write | None:
        """What is to be stored now; None if nothing is, or a write is under way."""
        if self._write is not None:
            return None
        if not self._unsent and not self._dirty and self._stored_start == self.start_offset:
            return None
        changes, self._unsent = tuple(self._unsent), []
        ranges = tuple(self._dirty)
        self._dirty = []
        start = self._start_after(set(changes))
        batches, done_count = self._stored_form(set(changes), ranges, start)
        self._write = Write(start, done_count, batches, changes, ranges)
        return self._write

    def _start_after(self, changes: set[Change]) -> int:
        """Where the start will be when these changes are stored."""
        start = self.start_offset
        for run in self._runs:
            if not (run.is_done or (run.change in changes and run.target in FINAL)):
                break
            start = run.last + 1
        return start

    def _stored_form(
        self, changes: set[Change], ranges: Sequence[tuple[int, int]], start: int
    ) -> tuple[tuple[StateBatch, ...], int]:
        batches: list[StateBatch] = []
        done_count = 0
        wanted = _united(ranges)
        for run in self._runs:
            if run.last < start:
                continue
            is_changed = run.change in changes
            state = run.target if is_changed else run.state
            if state in FINAL:
                done_count += len(run)
            stored = AVAILABLE if state is ACQUIRED else state
            deadline_ms = run.target_deadline_ms if is_changed else run.deadline_ms
            has_time = deadline_ms and state in (AVAILABLE, ARCHIVING)
            time_ms = deadline_ms + self._wall_ahead_ms if has_time else 0
            if is_changed:
                _add(batches, StateBatch(run.first, run.last, stored, run.count, time_ms))
                continue
            while wanted and wanted[0][1] < run.first:
                wanted.pop(0)
            for first, last in wanted:
                if first > run.last:
                    break
                low, high = max(first, run.first), min(last, run.last)
                _add(batches, StateBatch(low, high, stored, run.count, time_ms))
        return tuple(batches), done_count

    def on_written(self, write: Write, *, is_stored: bool) -> None:
        """The write is stored, or was rejected: then locks are as before, and the rest goes with the next write."""
        assert write is self._write, "the write under way is the one that has ended"
        self._write = None
        for change in write.changes:
            for run in change.runs:
                run.change = None
                if is_stored:
                    self._settle(run)
                else:
                    run.target, run.is_rejected = run.state, False
        if is_stored:
            self._stored_start = write.start_offset
            for first, last in write.ranges:
                self._letters += [
                    (max(run.first, first), min(run.last, last))
                    for run in self._runs.within(first, last)
                    if run.state is ARCHIVING
                ]
        else:
            start = self.start_offset
            self._dirty += [(max(first, start), last) for first, last in write.ranges if last >= start]
        self._runs.join()
        self._advance()

    def _settle(self, run: Run) -> None:
        if run.last < self.start_offset:
            return  # the log start has moved past it meanwhile
        run.state = run.target
        run.member_id = ""
        run.deadline_ms = run.target_deadline_ms
        if run.state in FINAL:
            self._in_flight -= len(run)
            run.deadline_ms = 0
        elif run.state is ARCHIVING:
            self._letters.append((run.first, run.last))

    # --- dead letters ---

    def take_letters(self) -> list[Letter]:
        """The dead letters to write, each once; what is stored as being archived is not delivered any more."""
        found = []
        for ranges, may_be_written in ((self._old_letters, True), (self._letters, False)):
            for first, last in _united(ranges):
                for run in self._runs.within(first, last):
                    if run.state is ARCHIVING:
                        low, high = max(first, run.first), min(last, run.last)
                        since_ms = run.deadline_ms + self._wall_ahead_ms if run.deadline_ms else 0
                        found.append(Letter(low, high, run.count, run.is_rejected, since_ms, may_be_written))
        self._old_letters, self._letters = [], []
        return found

    @property
    def has_letters(self) -> bool:
        """Whether there are dead letters to take."""
        return bool(self._letters or self._old_letters)

    def letters_written(self, first: int, last: int) -> None:
        """The dead letters of these records are there, or cannot be: archive the records."""
        first = max(first, self.start_offset)
        if first <= last:
            for run in self._runs.cut_out(first, last):
                if run.state is ARCHIVING:
                    self._end(run, ARCHIVED)
            self._runs.join()
            self._advance()


def check_ack(ack: Ack) -> None:
    """Raise ApiError for an acknowledgement that is malformed, whatever is locked."""
    size = ack.last_offset - ack.first_offset + 1
    if size <= 0 or ack.first_offset < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there are no offsets from {ack.first_offset} to {ack.last_offset}")
    if len(ack.types) not in (1, size):
        text = f"{len(ack.types)} types acknowledge the {size} offsets from {ack.first_offset} on"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    unknown = set(ack.types) - _KNOWN_TYPES
    if unknown:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{min(unknown)} is no type of acknowledgement")
    if not -1 <= ack.delay_ms <= DELAY_MS_MAX:
        text = f"a delay of {ack.delay_ms} ms is not from 0 to {DELAY_MS_MAX} ms (366 days)"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    if ack.delay_ms >= 0 and AckType.RELEASE not in ack.types:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a delay without a record that is released")


_KNOWN_TYPES: Final = frozenset(AckType)


def _aim(run: Run, kind: AckType, delay_ms: int, now_ms: int, limits: ShareLimits) -> None:
    """Note what a locked run becomes once its acknowledgement is stored."""
    run.target_deadline_ms = 0
    run.is_rejected = kind is AckType.REJECT
    if kind is AckType.REJECT or (kind is AckType.RELEASE and run.count >= limits.delivery_count_limit):
        run.target, run.target_deadline_ms = limits.failed, now_ms
        return
    run.target = _TARGETS[kind]
    if kind is AckType.RELEASE:
        waits_ms = limits.retry_delay_ms(run.count) if delay_ms < 0 else delay_ms
        run.target_deadline_ms = now_ms + waits_ms if waits_ms else 0


def _lock(run: Run, member_id: str, deadline_ms: int) -> None:
    run.state = run.target = ACQUIRED
    run.member_id = member_id
    run.deadline_ms = deadline_ms


def _in_batches(taken: Iterable[Acquired], batch_records: int) -> list[Acquired]:
    """Neighbours in one entry, as long as it has no more than `batch_records`."""
    found: list[Acquired] = []
    for piece in taken:
        if found:
            before = found[-1]
            size = piece.last_offset - before.first_offset + 1
            is_next = before.last_offset + 1 == piece.first_offset and before.delivery_count == piece.delivery_count
            if is_next and size <= batch_records:
                found[-1] = before._replace(last_offset=piece.last_offset)
                continue
        found.append(piece)
    return found


def _add(batches: list[StateBatch], batch: StateBatch) -> None:
    if batches:
        before = batches[-1]
        if before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            batches[-1] = before._replace(last_offset=batch.last_offset)
            return
    batches.append(batch)


def _united(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those that overlap or touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
