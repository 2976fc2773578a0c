"""The state of share partitions in one partition of `__share_group_state`: the core of the share coordinator (KIP-932).

Initialize creates a state in an epoch that its group chooses. The leader of the partition reads it when it begins to
lead, and writes what changes. Two epochs fence: a write of another state epoch comes from before the group's offsets
were reset, one of an older leader epoch from a leader that has been replaced.

A write is an update, and every so many updates a snapshot of the whole state. At intervals every state gets a snapshot,
and the log before them is deleted: its topic is not compacted, because an update adds to those before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tidelog.coordination import Answer, Decision, SetTimer, StateRecord, TimerKey
from tidelog.sharing.runs import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, StateBatch
from tidelog.sharing.schemas import (
    SNAPSHOT,
    UPDATE,
    SchemaError,
    ShareKey,
    SnapshotValue,
    StateBatchValue,
    UpdateValue,
    encode_key,
    encode_value,
    read_key,
    read_snapshot,
    read_update,
)
from tidelog.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

NO_START: Final = -1
"""The start offset of a state that no leader has used yet."""
COLLECT: Final = "collect"
_STORED_STATES: Final = frozenset((AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED))
"""Locks are not stored."""
_SNAPSHOTS_AT_ONCE: Final = 200
"""So many states fit into one batch, with all the batches that a group may have in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateSettings:
    """Defaults are Kafka's."""

    updates_per_snapshot: int = 500
    collect_interval_ms: int = 5 * 60 * 1000


class ShareState(NamedTuple):
    """What is stored of a share partition. A write replaces it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    done_count: int
    batches: tuple[StateBatch, ...]
    snapshot_epoch: int
    created_ms: int
    updates: int = 0
    """Updates since the last snapshot."""

    def with_update(
        self, leader_epoch: int, start_offset: int, done_count: int, batches: Iterable[StateBatch]
    ) -> ShareState:
        start = self.start_offset if start_offset == NO_START else start_offset
        return self._replace(
            leader_epoch=self.leader_epoch if leader_epoch < 0 else leader_epoch,
            start_offset=start,
            done_count=done_count,
            batches=combine(self.batches, batches, start),
        )


class Summary(NamedTuple):
    """A state without its batches."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    done_count: int


def combine(before: Iterable[StateBatch], after: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Batches with newer ones on top of them, without what lies before `start`; in order, without overlaps."""
    newer = sorted(after)
    pieces = list(newer)
    for batch in before:
        pieces += _without(batch, newer)
    found: list[StateBatch] = []
    for piece in sorted(pieces):
        if piece.last_offset < start:
            continue
        batch = piece._replace(first_offset=max(piece.first_offset, start))
        if found and found[-1].last_offset + 1 == batch.first_offset and found[-1][2:] == batch[2:]:
            found[-1] = found[-1]._replace(last_offset=batch.last_offset)
        else:
            found.append(batch)
    return tuple(found)


def _without(batch: StateBatch, newer: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """What newer batches, which are in order, leave of an older one."""
    first = batch.first_offset
    for other in newer:
        if other.last_offset < first:
            continue
        if other.first_offset > batch.last_offset:
            break
        if other.first_offset > first:
            yield batch._replace(first_offset=first, last_offset=other.first_offset - 1)
        first = other.last_offset + 1
    if first <= batch.last_offset:
        yield batch._replace(first_offset=first)


class StateLog(Protocol):
    """The log that keeps the states of a shard, and the cluster's topics."""

    def end_offset(self) -> int:
        """Where the next record goes."""
        ...

    def delete_before(self, offset: int) -> None:
        """What lies before an offset is not needed any more."""
        ...

    def has_topic(self, topic_id: bytes) -> bool: ...


class ShareStateShard:
    """The states of one partition of the topic."""

    def __init__(self, partition: int, settings: ShareStateSettings, log: StateLog) -> None:
        self.partition = partition
        self._settings = settings
        self._log = log
        self._states: dict[ShareKey, ShareState] = {}
        self._has_news = False
        """Whether anything was written since the last collection."""
        self._orphans: frozenset[bytes] = frozenset()
        """Topics that did not exist at the last collection. One that still does not was deleted."""

    # --- replay ---

    def replay(self, key: bytes, value: bytes | None, _producer_id: int, _producer_epoch: int) -> None:
        try:
            kind, share_key = read_key(key)
            if value is None:
                self._states.pop(share_key, None)
            elif kind == SNAPSHOT:
                self._states[share_key] = _restored(read_snapshot(value))
            elif kind == UPDATE:
                self._replay_update(share_key, read_update(value))
            else:
                logger.debug("a record with key version %d is skipped", kind)
        except SchemaError as error:
            logger.error("a record of __share_group_state-%d is skipped: %s", self.partition, error)
        self._has_news = True

    def _replay_update(self, key: ShareKey, value: UpdateValue) -> None:
        state = self._states.get(key)
        if state is None or value.snapshot_epoch != state.snapshot_epoch:
            return  # its snapshot was deleted, or a newer one has it already
        updated = state.with_update(
            value.leader_epoch, value.start_offset, value.delivery_complete_count, _batches(value.state_batches)
        )
        self._states[key] = updated._replace(updates=state.updates + 1)

    def replay_end_transaction(self, _producer_id: int, _producer_epoch: int, _is_commit: bool) -> None:
        """States are never part of a transaction."""

    # --- loading and unloading ---

    def on_loaded(self, _now_ms: int) -> Decision[Any]:
        return Decision(timers=(SetTimer(COLLECT, self._settings.collect_interval_ms),))

    def on_timer(self, _key: TimerKey, now_ms: int) -> Decision[Any]:
        """Make snapshots of everything, if there is anything new, so that the log before them can be deleted."""
        again = SetTimer(COLLECT, self._settings.collect_interval_ms)
        gone = frozenset(key.topic_id for key in self._states if not self._log.has_topic(key.topic_id))
        deleted, self._orphans = gone & self._orphans, gone
        if not self._has_news and not deleted:
            return Decision(timers=(again,))
        self._has_news = False
        return self._collect(list(self._states), deleted, self._log.end_offset(), now_ms)._replace(timers=(again,))

    def on_unloaded(self, _error: ApiError) -> Iterable[Answer]:
        return ()

    def _collect(self, keys: list[ShareKey], deleted: frozenset[bytes], needed_from: int, now_ms: int) -> Decision[Any]:
        """Snapshots of some states, then of the others; then only the log from `needed_from` on is needed."""
        records: list[StateRecord] = []
        for key in keys[:_SNAPSHOTS_AT_ONCE]:
            state = self._states.get(key)
            if state is None or key.topic_id in deleted:
                records.append((encode_key(SNAPSHOT, key), None))
            else:
                records.append(_snapshot_record(key, state._replace(snapshot_epoch=state.snapshot_epoch + 1), now_ms))
        rest = keys[_SNAPSHOTS_AT_ONCE:]
        if not records:
            return Decision()

        def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
            if code is not ErrorCode.NONE:
                self._has_news = True
                return Decision()
            if rest:
                return self._collect(rest, deleted, needed_from, now_ms)
            self._log.delete_before(needed_from)
            return Decision()

        return Decision(records=tuple(records), then=then)

    # --- requests ---

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int) -> Decision[ErrorCode]:
        """Begin a state in a new epoch, or the same once more; raises ApiError for an older one."""
        state = self._states.get(key)
        if state is not None and state_epoch < state.state_epoch:
            raise _fenced_state(state_epoch, state)
        snapshot_epoch = 0 if state is None else state.snapshot_epoch + 1
        created = ShareState(state_epoch, 0, start_offset, 0, (), snapshot_epoch, now_ms)
        return Decision(ErrorCode.NONE, (_snapshot_record(key, created, now_ms),))

    def read(self, key: ShareKey, leader_epoch: int, _now_ms: int) -> Decision[ShareState]:
        """The state, for a leader: from now on, no older one may write. Raises ApiError."""
        state = self._known(key)
        _check_leader(leader_epoch, state)
        if leader_epoch == state.leader_epoch:
            return Decision(state)
        update = UpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.done_count,
        )
        return Decision(state._replace(leader_epoch=leader_epoch), (_update_record(key, update),))

    def summary(self, key: ShareKey) -> Summary:
        """For descriptions: a state that does not exist has no start offset."""
        state = self._states.get(key)
        if state is None:
            return Summary(0, 0, NO_START, -1)
        return Summary(state.state_epoch, state.leader_epoch, state.start_offset, state.done_count)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        done_count: int,
        batches: Sequence[StateBatch],
        now_ms: int,
    ) -> Decision[ErrorCode]:
        """Change the state; raises ApiError if another epoch has begun."""
        state = self._known(key)
        if leader_epoch >= 0:
            _check_leader(leader_epoch, state)
        if state_epoch >= 0 and state_epoch != state.state_epoch:
            raise _fenced_state(state_epoch, state)
        for first, last, delivery_state, *_ in batches:
            if first > last or delivery_state not in _STORED_STATES:
                text = f"offsets {first} to {last} in state {delivery_state} cannot be stored"
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if state.updates + 1 >= self._settings.updates_per_snapshot:
            after = state.with_update(leader_epoch, start_offset, done_count, batches)
            after = after._replace(snapshot_epoch=state.snapshot_epoch + 1)
            return Decision(ErrorCode.NONE, (_snapshot_record(key, after, now_ms),))
        update = UpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch if leader_epoch >= 0 else state.leader_epoch,
            start_offset=state.start_offset if start_offset == NO_START else start_offset,
            delivery_complete_count=done_count,
            state_batches=[_value(batch) for batch in batches],
        )
        return Decision(ErrorCode.NONE, (_update_record(key, update),))

    def delete(self, key: ShareKey, _now_ms: int) -> Decision[ErrorCode]:
        """Forget a state; one that does not exist is deleted already."""
        if key not in self._states:
            return Decision(ErrorCode.NONE)
        return Decision(ErrorCode.NONE, ((encode_key(SNAPSHOT, key), None),))

    def states(self) -> Iterable[tuple[ShareKey, ShareState]]:
        """For checks and counts."""
        return self._states.items()

    def _known(self, key: ShareKey) -> ShareState:
        state = self._states.get(key)
        if state is None:
            text = f"there is no state of {key.coordinator_key}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return state


def _check_leader(leader_epoch: int, state: ShareState) -> None:
    if leader_epoch < state.leader_epoch:
        text = f"leader epoch {leader_epoch} is older than {state.leader_epoch}"
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, text)


def _fenced_state(state_epoch: int, state: ShareState) -> ApiError:
    return ApiError(ErrorCode.FENCED_STATE_EPOCH, f"the state is in epoch {state.state_epoch}, not {state_epoch}")


def _restored(value: SnapshotValue) -> ShareState:
    return ShareState(
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
        value.snapshot_epoch,
        value.create_timestamp,
    )


def _batches(values: Iterable[StateBatchValue]) -> tuple[StateBatch, ...]:
    return tuple(map(StateBatch.of, values))


def _value(batch: StateBatch) -> StateBatchValue:
    return StateBatchValue(**batch.fields())


def _snapshot_record(key: ShareKey, state: ShareState, now_ms: int) -> StateRecord:
    value = SnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.done_count,
        create_timestamp=state.created_ms,
        write_timestamp=now_ms,
        state_batches=[_value(batch) for batch in state.batches],
    )
    return encode_key(SNAPSHOT, key), encode_value(value)


def _update_record(key: ShareKey, value: UpdateValue) -> StateRecord:
    return encode_key(UPDATE, key), encode_value(value)
