"""Share partitions beside a naive model that keeps every record for itself.

What holds after every step: no record is locked twice at once, none is delivered after a confirmed accept, more often
than the limit allows or before its delay is over, and what was stored brings back exactly what was confirmed. In the
end every record that was not accepted, rejected or exhausted is delivered, and in a group with dead letters those that
were rejected or exhausted have one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from tests.property.effort import examples
from tidelog.sharing.partition import Ack, AckType, Acquired, ReadBatch, ShareLimits, SharePartition, Write
from tidelog.sharing.runs import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, StateBatch
from tidelog.wire.errors import ApiError, ErrorCode

LIMITS = ShareLimits(lock_ms=100, delivery_count_limit=3, records_in_flight_max=40)
KINDS_OF_GROUPS = st.builds(
    replace,
    st.just(LIMITS),
    retry_delays_ms=st.sampled_from([(), (50,), (30, 170)]),
    has_dead_letters=st.booleans(),
)
WALL_AHEAD_MS = 1_700_000_000_000
MEMBERS = st.sampled_from(["ann", "bob", "eve"])
LOG_SIZE = 120


@dataclass
class Record:
    """One offset, as the model sees it."""

    holder: str | None = None
    deadline_ms: int = 0
    count: int = 0
    is_done: bool = False
    is_confirmed: bool = False
    """Whether an accept or reject was confirmed to a consumer."""
    may_have_letter: bool = False
    """Whether it was rejected, or delivered too often."""
    letters: int = 0
    available_ms: int = 0
    """Before which it is not delivered."""
    confirmed_ms: int | None = None
    """The same, if its release was confirmed and it was not delivered since."""


class Store:
    """The persister: the last state of every offset, and the start."""

    def __init__(self) -> None:
        self.start = 0
        self.batches: dict[int, tuple[int, ...]] = {}

    def apply(self, write: Write) -> None:
        self.start = write.start_offset
        for first, last, *rest in write.batches:
            for offset in range(first, last + 1):
                self.batches[offset] = tuple(rest)

    def read(self) -> tuple[int, list[StateBatch]]:
        kept = [(offset, offset, *self.batches[offset]) for offset in sorted(self.batches) if offset >= self.start]
        return self.start, [StateBatch(*batch) for batch in kept]


class SharePartitionBesideModel(RuleBasedStateMachine):
    """Random consumers, time, failing writes and restarts."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.partition = SharePartition(0, wall_ahead_ms=WALL_AHEAD_MS)
        self.store = Store()
        self.records = [Record() for _ in range(LOG_SIZE)]
        self.hidden = {offset for offset in range(LOG_SIZE) if offset % 17 == 5}
        self.write: Write | None = None
        self.waiting: list[tuple[object, str, dict[int, AckType]]] = []
        self.limits = LIMITS
        self.delays: dict[int, int] = {}
        """Until when what is being released waits."""

    @initialize(limits=KINDS_OF_GROUPS)
    def choose(self, limits: ShareLimits) -> None:
        self.limits = limits

    def batches_from(self, offset: int, size: int, count: int) -> list[ReadBatch]:
        """Batches of the log as a read at `offset` would find them; an offset that is hidden is a batch of its own."""
        found: list[ReadBatch] = []
        position = offset
        while position < LOG_SIZE and len(found) < count:
            if position in self.hidden:
                found.append(ReadBatch(position, position, False))
                position += 1
                continue
            last = position
            while last + 1 < min(position + size, LOG_SIZE) and last + 1 not in self.hidden:
                last += 1
            found.append(ReadBatch(position, last))
            position = last + 1
        return found

    @rule(
        target=held,
        member=MEMBERS,
        size=st.integers(1, 9),
        count=st.integers(1, 5),
        records_max=st.integers(1, 20),
        is_strict=st.booleans(),
    )
    def acquire(self, member: str, size: int, count: int, records_max: int, is_strict: bool) -> object:
        offset = self.partition.next_offset(self.now_ms)
        acquired = self.partition.acquire(
            member,
            self.batches_from(offset, size, count),
            self.now_ms,
            self.limits,
            records_max=records_max,
            batch_records=7,
            is_strict=is_strict,
        )
        total = 0
        for first, last, delivery_count in acquired:
            for each in range(first, last + 1):
                record = self.records[each]
                assert each not in self.hidden
                assert record.holder is None, f"{each} is locked by {record.holder}"
                assert not record.is_confirmed
                assert not record.is_done
                assert not record.letters
                assert record.available_ms <= self.now_ms
                record.available_ms, record.confirmed_ms = 0, None
                record.holder, record.deadline_ms = member, self.now_ms + LIMITS.lock_ms
                record.count += 1
                assert record.count == delivery_count <= LIMITS.delivery_count_limit
                total += 1
        assert not is_strict or total <= records_max
        return multiple(*[(member, entry) for entry in acquired])

    @rule(taken=consumes(held), data=st.data())
    def acknowledge(self, taken: tuple[str, Acquired], data: st.DataObject) -> None:
        member, (first, last, _) = taken
        types = data.draw(st.lists(st.sampled_from(AckType), min_size=last - first + 1, max_size=last - first + 1))
        delay_ms = data.draw(st.sampled_from([-1, 0, 90])) if AckType.RELEASE in types else -1
        pending = {offset for _, _, kinds in self.waiting for offset in kinds}
        kinds = {
            offset: kind
            for offset, kind in zip(range(first, last + 1), types, strict=True)
            if offset >= self.partition.start_offset
        }
        may = all(self.records[offset].holder == member and offset not in pending for offset in kinds)
        try:
            change = self.partition.acknowledge(member, [Ack(first, last, types, delay_ms)], self.now_ms, self.limits)
        except ApiError as error:
            assert error.code is ErrorCode.INVALID_RECORD_STATE  # noqa: PT017 - whether it is raised is random
            assert not may
            return
        assert may
        for offset, kind in kinds.items():
            if kind is AckType.RENEW:
                self.records[offset].deadline_ms = self.now_ms + LIMITS.lock_ms
            elif kind is AckType.RELEASE:
                count = self.records[offset].count
                waits_ms = self.limits.retry_delay_ms(count) if delay_ms < 0 else delay_ms
                self.delays[offset] = self.now_ms + waits_ms if waits_ms else 0
        stored = {offset: kind for offset, kind in kinds.items() if kind is not AckType.RENEW}
        assert (change is None) == (not stored)
        if change is not None:
            self.waiting.append((change, member, stored))

    @rule(ms=st.integers(1, 150))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.expire()

    def expire(self) -> None:
        pending = {offset for _, _, kinds in self.waiting for offset in kinds}
        for offset, record in enumerate(self.records):
            if record.holder is not None and record.deadline_ms <= self.now_ms and offset not in pending:
                record.holder = None
                record.is_done = record.may_have_letter = record.count >= LIMITS.delivery_count_limit
                if not record.is_done and (delay_ms := self.limits.retry_delay_ms(record.count)):
                    record.available_ms = record.deadline_ms + delay_ms
        self.partition.expire(self.now_ms, self.limits)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        pending = {offset for _, _, kinds in self.waiting for offset in kinds}
        for offset, record in enumerate(self.records):
            if record.holder == member and offset not in pending:
                record.holder = None
                record.count -= 1
        self.partition.release_member(member, self.limits)

    @precondition(lambda self: self.write is None)
    @rule()
    def begin_write(self) -> None:
        self.write = self.partition.take_write()

    @precondition(lambda self: self.write is not None)
    @rule(is_stored=st.booleans(), is_lost=st.booleans())
    def end_write(self, is_stored: bool, is_lost: bool) -> None:
        """A write that fails may have been stored all the same: its response was lost."""
        write = self.write
        assert write is not None
        self.write = None
        if is_stored or is_lost:
            self.store.apply(write)
        self.partition.on_written(write, is_stored=is_stored)
        for entry in [entry for entry in self.waiting if entry[0] in write.changes]:
            self.waiting.remove(entry)
            for offset, kind in entry[2].items() if is_stored else ():
                self._confirm(offset, kind)
        self.expire()

    def _confirm(self, offset: int, kind: AckType) -> None:
        record = self.records[offset]
        record.holder = None
        if kind is AckType.RELEASE:
            record.is_done = record.may_have_letter = record.count >= LIMITS.delivery_count_limit
            if not record.is_done:
                record.available_ms = record.confirmed_ms = self.delays[offset]
        else:
            record.is_done = record.is_confirmed = True
            record.may_have_letter = kind is AckType.REJECT

    @rule()
    def write_letters(self) -> None:
        """What is taken is stored, so that no other leader delivers it: a letter is the end of a record."""
        for letter in self.partition.take_letters():
            assert self.limits.has_dead_letters
            for offset in range(letter.first_offset, letter.last_offset + 1):
                assert self.store.batches[offset][0] == ARCHIVING
                record = self.records[offset]
                assert record.may_have_letter
                assert not record.letters or letter.may_be_written
                record.letters += 1
            self.partition.letters_written(letter.first_offset, letter.last_offset)

    @rule()
    def restart(self) -> None:
        """Another broker leads: it has what is stored. Nothing that was confirmed comes back."""
        start, batches = self.store.read()
        self.partition = SharePartition(start, batches, wall_ahead_ms=WALL_AHEAD_MS, limits=self.limits)
        self.write, self.waiting = None, []
        for record in self.records:
            record.holder = None
            record.is_done = record.is_confirmed
        for run in self.partition.runs:
            for offset in range(run.first, run.last + 1):
                record = self.records[offset]
                record.count = run.count
                if record.confirmed_ms is not None:
                    assert run.deadline_ms == record.confirmed_ms, f"{offset} does not wait as long as it was confirmed"
                record.available_ms = run.deadline_ms
        self._take_over_done()

    def _take_over_done(self) -> None:
        """Records that were archived without a consumer's asking may be done or not; the stored state says."""
        done = set(range(self.partition.start_offset))
        for run in self.partition.runs:
            if run.is_done or run.state is ARCHIVING:
                done.update(range(run.first, run.last + 1))
        for offset, record in enumerate(self.records):
            assert not record.is_confirmed or offset in done, f"{offset} was confirmed and is delivered again"
            record.is_done = offset in done
            if offset in done and self.store.batches.get(offset, (0,))[0] == ARCHIVING:
                record.may_have_letter = True  # the response to a write was lost
            if offset >= self.partition.end_offset:
                assert record.confirmed_ms is None
                record.count = record.available_ms = 0

    @invariant()
    def runs_cover_the_range(self) -> None:
        partition = self.partition
        position = partition.start_offset
        in_flight = 0
        for run in partition.runs:
            assert run.first == position
            position = run.last + 1
            in_flight += 0 if run.is_done else len(run)
        assert position == partition.end_offset
        assert in_flight == partition.in_flight <= LIMITS.records_in_flight_max + 9

    @invariant()
    def the_state_is_the_model_s(self) -> None:
        pending = {offset for _, _, kinds in self.waiting for offset in kinds}
        for run in self.partition.runs:
            for offset in range(run.first, run.last + 1):
                record = self.records[offset]
                if run.state is ACQUIRED:
                    assert record.holder == run.member_id
                    assert (run.change is not None) == (offset in pending)
                elif run.state is AVAILABLE and offset not in self.hidden:
                    assert record.holder is None
                    assert not record.is_done
                elif run.state in (ACKNOWLEDGED, ARCHIVING, ARCHIVED):
                    assert offset in self.hidden or record.is_done
        for offset in range(self.partition.start_offset):
            assert offset in self.hidden or self.records[offset].is_done

    def teardown(self) -> None:
        """Once all writes succeed, one consumer gets whatever is left, in the end."""
        if self.write is not None:
            self.end_write(is_stored=True, is_lost=False)
        for _ in range(40 * LOG_SIZE):
            self.now_ms += LIMITS.lock_ms
            self.expire()
            self.begin_write()
            if self.write is not None:
                self.end_write(is_stored=True, is_lost=False)
            self.write_letters()
            if self.partition.start_offset >= LOG_SIZE:
                break
            offset = self.partition.next_offset(self.now_ms)
            acquired = self.partition.acquire(
                "last", self.batches_from(offset, 10, 5), self.now_ms, self.limits, records_max=20, batch_records=20
            )
            for first, last, _ in acquired:
                for each in range(first, last + 1):
                    record = self.records[each]
                    assert not record.is_done
                    record.holder, record.count = "last", record.count + 1
                kinds = dict.fromkeys(range(first, last + 1), AckType.ACCEPT)
                change = self.partition.acknowledge("last", [Ack(first, last, [1])], self.now_ms, self.limits)
                self.waiting.append((change, "last", kinds))
        assert self.partition.start_offset == LOG_SIZE
        for offset, record in enumerate(self.records):
            assert record.is_done or offset in self.hidden
            if self.limits.has_dead_letters and record.may_have_letter:
                assert record.letters, f"{offset} has no dead letter"


TestSharePartitionBesideModel = SharePartitionBesideModel.TestCase
TestSharePartitionBesideModel.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
