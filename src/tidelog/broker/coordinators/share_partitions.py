"""Share partitions on the broker that leads them: read, lock, acknowledge, and store what changes (KIP-932).

A share partition is loaded from its stored state at the first request for it, and dropped when this broker does not
lead the partition any more, when its state was reset, or when the last consumer of its group leaves. What
`tidelog.sharing` decides is carried out here: records are read from the log, writes go to `ShareStates`, one at a time
for each share partition, and requests are answered when theirs is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.broker.coordinators.dead_letters import DeadLetters, may_be_retried
from tidelog.broker.coordinators.share_states import ShareStates, StateWrite
from tidelog.replication.partition import READ_COMMITTED
from tidelog.sharing.dead_letters import DeadLetterRules
from tidelog.sharing.partition import (
    NO_DEADLINE,
    Ack,
    Acquired,
    Letter,
    ShareLimits,
    SharePartition,
    Write,
)
from tidelog.sharing.reading import read_batches
from tidelog.sharing.runs import Change
from tidelog.sharing.schemas import ShareKey
from tidelog.sharing.sessions import ShareSession, ShareSessions
from tidelog.sharing.state import NO_START
from tidelog.timing import DelayedOperation
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.coordinators.edge import EdgeParts
    from tidelog.replication.partition import Partition
    from tidelog.timing import TimerTask

logger = logging.getLogger(__name__)

READ_BYTES_MAX: Final = 1 << 20
"""So much of a partition is read at once; a larger batch is still read whole."""
_READS_MAX: Final = 20
"""How often a fetch reads on where there is nothing for consumers, before it is answered without records."""
_DROPPED_AFTER: Final = frozenset(
    {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors of a write after which the state here is not the group's any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupRules:
    """The settings of one group that its partitions follow."""

    limits: ShareLimits
    isolation_level: int = 0
    auto_offset_reset: str = "latest"
    """`earliest`, `latest`, or milliseconds before now."""
    dead_letters: DeadLetterRules | None = None
    can_renew: bool = True
    """Whether members may renew their locks."""
    sessions_max: int = 2_000


class Fetched(NamedTuple):
    """Records that a member has locked, and the batches that they are in."""

    records: bytes
    acquired: list[Acquired]


class LedPartition:
    """A share partition whose leader is this broker."""

    __slots__ = (
        "core",
        "is_dropped",
        "is_retired",
        "key",
        "leader_epoch",
        "letters",
        "loading",
        "partition",
        "state_epoch",
        "timer",
        "waiters",
    )

    def __init__(self, key: ShareKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = -1
        self.core: SharePartition | None = None
        """None until its state is loaded."""
        self.loading: asyncio.Task[None] | None = None
        self.letters: asyncio.Task[None] | None = None
        """What writes its dead letters."""
        self.waiters: dict[Change, asyncio.Future[ErrorCode]] = {}
        self.timer: TimerTask | None = None
        self.is_dropped = False
        self.is_retired = False
        """No consumer of the group is left: it is dropped when everything is stored."""

    @property
    def watch_key(self) -> tuple[str, bytes, int]:
        """What waits for its records is found under this key."""
        return self.key


class SharePartitions:
    """All share partitions of a broker, and the sessions of their consumers."""

    def __init__(
        self,
        parts: EdgeParts,
        states: ShareStates,
        dead_letters: DeadLetters,
        rules_of: Callable[[str], ShareGroupRules],
    ) -> None:
        self._parts = parts
        self._states = states
        self.dead_letters = dead_letters
        self.rules_of = rules_of
        self._manager = parts.replica_manager
        self._clock = parts.clock
        self._led: dict[ShareKey, LedPartition] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.sessions = ShareSessions(self._on_session_closed)
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._led)

    def led(self) -> Iterable[LedPartition]:
        """All that are here, for metrics and descriptions."""
        return self._led.values()

    # --- load and drop ---

    async def get(self, key: ShareKey) -> LedPartition:
        """A share partition with its state; raises ApiError."""
        found = self._find(key)
        if found.core is None:
            if found.loading is None:
                found.loading = self._spawn(self._load(found))
            await asyncio.shield(found.loading)
            if found.core is None or found.is_dropped:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{key.coordinator_key} is not led here any more")
        return found

    def _find(self, key: ShareKey) -> LedPartition:
        name = self._parts.image.topic_name(key.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        partition = self._manager.partition(name, key.partition)
        partition.check_readable(-1)
        found = self._led.get(key)
        if found is not None and (found.leader_epoch != partition.leader_epoch or found.partition is not partition):
            self._drop(found)
            found = None
        if found is None:
            found = self._led[key] = LedPartition(key, partition)
        found.is_retired = False
        return found

    async def _load(self, led: LedPartition) -> None:
        key, partition = led.key, led.partition
        try:
            state = await self._states.read(key, led.leader_epoch)
            rules = self.rules_of(key.group_id)
            has_state = state.start_offset != NO_START
            core = SharePartition(
                state.start_offset if has_state else self._first_offset(partition, rules),
                state.batches if has_state else (),
                is_stored=has_state,
                wall_ahead_ms=self._clock.wall_ms() - self._clock.monotonic_ms(),
                limits=rules.limits,
            )
        except BaseException:
            self._drop(led)
            raise
        led.state_epoch = state.state_epoch
        core.move_start(partition.log.log_start_offset)
        led.core = core
        self._flush(led)
        self._set_timer(led)
        self._write_letters(led, core)

    def _first_offset(self, partition: Partition, rules: ShareGroupRules) -> int:
        """Where a group begins that has no state yet."""
        reset = rules.auto_offset_reset
        log = partition.log
        if reset == "earliest":
            return log.log_start_offset
        end_offset = partition.end_for_reader(False, rules.isolation_level)
        if reset == "latest":
            return end_offset
        found = log.offset_for_timestamp(self._clock.wall_ms() - int(reset))
        return end_offset if found is None else min(found.offset, end_offset)

    def _drop(self, led: LedPartition, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Forget a share partition: the next request loads it again, here or elsewhere."""
        led.is_dropped = True
        if self._led.get(led.key) is led:
            del self._led[led.key]
        if led.timer is not None:
            led.timer.cancel()
        waiters, led.waiters = led.waiters, {}
        for future in waiters.values():
            _settle(future, code)
        self._changed(led)

    def lead(self, _partition: Partition) -> None:
        """Share partitions are loaded when they are asked for."""

    def resign(self, topic: str, index: int) -> None:
        """This broker does not lead a partition any more."""
        for led in [led for led in self._led.values() if led.partition.key == (topic, index)]:
            self._drop(led)

    async def close(self) -> None:
        """Store nothing more. What was not stored was not confirmed either."""
        self._is_stopped = True
        for led in list(self._led.values()):
            self._drop(led)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve)
        return task

    # --- sessions ---

    def _on_session_closed(self, session: ShareSession, is_last: bool) -> None:
        group_id, member_id = session.key
        limits = self.rules_of(group_id).limits
        for led in [led for led in self._led.values() if led.key.group_id == group_id]:
            if led.core is not None and led.core.release_member(member_id, limits):
                self._changed(led)
            led.is_retired = is_last
            self._flush(led)

    # --- acquire ---

    def may_acquire(self, led: LedPartition, rules: ShareGroupRules) -> bool:
        """Whether a fetch of this share partition would find something; True as well if it would get an error."""
        if led.is_dropped or led.core is None or not led.partition.is_leader:
            return True
        end_offset = led.partition.end_for_reader(False, rules.isolation_level)
        return led.core.may_acquire(end_offset, self._clock.monotonic_ms(), rules.limits)

    def acquire(
        self,
        led: LedPartition,
        member_id: str,
        rules: ShareGroupRules,
        *,
        max_bytes: int,
        records_max: int,
        batch_records: int,
        is_strict: bool,
    ) -> Fetched | None:
        """Lock records for a member; None if there are none. Raises ApiError and LogDirFailure."""
        core, partition = led.core, led.partition
        if led.is_dropped or core is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{led.key.coordinator_key} is not led here any more")
        end_offset = partition.readable_end(led.leader_epoch, False, rules.isolation_level)
        log = partition.log
        now_ms = self._clock.monotonic_ms()
        core.expire(now_ms, rules.limits)
        core.move_start(log.log_start_offset)
        fetched = None
        for _ in range(_READS_MAX):
            if not core.may_acquire(end_offset, now_ms, rules.limits):
                break
            offset = core.next_offset(now_ms)
            read = log.read(offset, min(max_bytes, READ_BYTES_MAX), end_offset, True)
            if read.slice is None:
                break
            aborted = None
            if rules.isolation_level == READ_COMMITTED:
                found = log.aborted_transactions(offset, log.read_end_offset(read))
                aborted = [(entry.producer_id, entry.first_offset) for entry in found]
            data = read.slice.read()
            there = read_batches(data, offset, aborted)
            acquired = core.acquire(
                member_id,
                there.batches,
                now_ms,
                rules.limits,
                records_max=records_max,
                batch_records=batch_records,
                is_strict=is_strict,
            )
            if acquired:
                begin, end = there.part_of(acquired)
                fetched = Fetched(data[begin:end], acquired)
                break
        self._flush(led)
        self._set_timer(led)
        return fetched

    # --- acknowledge ---

    def acknowledge(
        self, led: LedPartition, member_id: str, acks: Sequence[Ack], rules: ShareGroupRules
    ) -> asyncio.Future[ErrorCode] | None:
        """Acknowledge records of a member; the result is there once they are stored. None: it is there already.

        Raises ApiError if they are not locked by the member.
        """
        if led.is_dropped or led.core is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{led.key.coordinator_key} is not led here any more")
        now_ms = self._clock.monotonic_ms()
        change = led.core.acknowledge(member_id, acks, now_ms, rules.limits)
        if change is None:
            self._set_timer(led)
            return None
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        led.waiters[change] = future
        self._flush(led)
        return future

    # --- store ---

    def _flush(self, led: LedPartition) -> None:
        """Store what has changed, unless a write is under way: what changes meanwhile goes with the next."""
        core = led.core
        if core is None or led.is_dropped or self._is_stopped:
            return
        write = core.take_write()
        if write is not None:
            self._spawn(self._store(led, core, write))
        elif led.is_retired and not core.is_writing and led.letters is None:
            self._drop(led)

    async def _store(self, led: LedPartition, core: SharePartition, write: Write) -> None:
        code = ErrorCode.NONE
        try:
            await self._states.write(
                led.key,
                StateWrite(led.state_epoch, led.leader_epoch, write.start_offset, write.done_count, write.batches),
            )
        except ApiError as error:
            code = error.code
            logger.info("the state of %s was not stored: %s", led.key.coordinator_key, error)
        except Exception:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            logger.exception("the state of %s was not stored", led.key.coordinator_key)
        if led.is_dropped:
            return
        core.on_written(write, is_stored=code is ErrorCode.NONE)
        outcome = _OUTCOMES.get(code, code)
        for change in write.changes:
            future = led.waiters.pop(change, None)
            if future is not None:
                _settle(future, outcome)
        if code in _DROPPED_AFTER:
            self._drop(led)
            return
        self._set_timer(led)
        self._changed(led)
        self._write_letters(led, core)
        if code is ErrorCode.NONE:
            self._flush(led)
        else:
            # What needs no confirmation waits for the next change, or for the timer below.
            self._parts.timer.call_at(self._clock.monotonic_ms() + _RETRY_MS, lambda: self._flush(led))
            self._parts.wake()

    # --- dead letters ---

    def _write_letters(self, led: LedPartition, core: SharePartition) -> None:
        """Write the dead letters that are due, unless that is under way: then those are next."""
        if led.letters is None and core.has_letters and not led.is_dropped and not self._is_stopped:
            led.letters = self._spawn(self._write_all_letters(led, core))

    async def _write_all_letters(self, led: LedPartition, core: SharePartition) -> None:
        try:
            while not led.is_dropped and (letters := core.take_letters()):
                for letter in letters:
                    await self._write_letter(led, core, letter)
        finally:
            led.letters = None
        self._flush(led)
        self._changed(led)

    async def _write_letter(self, led: LedPartition, core: SharePartition, letter: Letter) -> None:
        """Write one until it is there, or cannot be; or until another broker leads, which will do so."""
        backoff_s = _LETTER_BACKOFF_S

        def archive(last_offset: int) -> None:
            nonlocal letter
            if not led.is_dropped:
                core.letters_written(letter.first_offset, last_offset)
                self._flush(led)
            letter = letter._replace(first_offset=last_offset + 1)

        while not led.is_dropped:
            rules = self.rules_of(led.key.group_id).dead_letters
            if rules is None:
                text = "records of %s are archived without a dead letter: the group has no topic for them any more"
                logger.warning(text, led.key.coordinator_key)
                archive(letter.last_offset)
                return
            try:
                await self.dead_letters.write(letter, led.key.group_id, led.partition, rules, archive)
                return
            except ApiError as error:
                if not may_be_retried(error):
                    logger.error("dead letters of %s cannot be written: %s", led.key.coordinator_key, error)
                    archive(letter.last_offset)
                    return
                logger.warning("dead letters of %s are tried again: %s", led.key.coordinator_key, error)
            except Exception:
                logger.exception("dead letters of %s are tried again", led.key.coordinator_key)
            letter = letter._replace(may_be_written=True)
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, _LETTER_BACKOFF_S_MAX)

    # --- timers and waiting fetches ---

    def _set_timer(self, led: LedPartition) -> None:
        """Have the next lock or delay end in time."""
        core = led.core
        if core is None or led.is_dropped:
            return
        deadline_ms = core.next_deadline_ms()
        timer = led.timer
        if deadline_ms == NO_DEADLINE:
            return
        if timer is not None and timer.is_pending:
            if timer.deadline_ms <= deadline_ms:
                return
            timer.cancel()
        led.timer = self._parts.timer.call_at(deadline_ms, lambda: self._on_timer(led))
        self._parts.wake()

    def _on_timer(self, led: LedPartition) -> None:
        core = led.core
        if core is None or led.is_dropped:
            return
        if core.expire(self._clock.monotonic_ms(), self.rules_of(led.key.group_id).limits):
            self._flush(led)
            self._changed(led)
        self._set_timer(led)

    def _changed(self, led: LedPartition) -> None:
        """Records may have become available: look at the fetches that wait."""
        purgatory = self._manager.fetch_purgatory
        if led.watch_key in purgatory.watched_keys:
            purgatory.check_and_complete(led.watch_key)
            self._parts.wake()

    def wait(self, fetch: DelayedShareFetch) -> None:
        """Let a fetch wait for records of its partitions, new ones as well as released ones."""
        keys: list[Any] = [led.watch_key for led in fetch.partitions]
        keys += {led.partition.key for led in fetch.partitions}
        purgatory: Any = self._manager.fetch_purgatory  # one place where fetches wait for a partition
        purgatory.watch(fetch, keys, self._clock.monotonic_ms())
        self._parts.wake()


_RETRY_MS: Final = 1_000
_LETTER_BACKOFF_S: Final = 0.1
_LETTER_BACKOFF_S_MAX: Final = 10.0
"""Before a dead letter is tried again, first and at most."""
_OUTCOMES: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a consumer gets for an error of the store."""


class DelayedShareFetch(DelayedOperation):
    """A fetch that waits until there is a record to lock, or its time is up."""

    __slots__ = ("_fail", "_may_acquire", "_respond", "partitions")

    def __init__(
        self,
        partitions: Sequence[LedPartition],
        may_acquire: Callable[[LedPartition], bool],
        respond: Callable[[], None],
        fail: Callable[[Exception], None],
        deadline_ms: int,
    ) -> None:
        super().__init__(deadline_ms)
        self.partitions = partitions
        self._may_acquire = may_acquire
        self._respond = respond
        self._fail = fail

    def try_complete(self) -> bool:
        return any(map(self._may_acquire, self.partitions)) and self.force_complete()

    def on_complete(self) -> None:
        self._respond()

    def on_failure(self, error: Exception) -> None:
        self._fail(error)


def _settle(future: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    if not future.done():
        future.set_result(code)


def _retrieve(task: asyncio.Task[None]) -> None:
    """The error of a load is raised by those who wait for it."""
    if not task.cancelled():
        task.exception()
