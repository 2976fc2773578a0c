"""The decision of a shard: plain data that the runtime carries out.

Named tuples rather than frozen dataclasses, because one is made for every heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.wire.errors import ErrorCode

Reply = TypeVar("Reply")

Respond: TypeAlias = Callable[[Any], None]
"""Takes the reply of one request, or the ApiError it failed with. Called once."""

StateRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a record of the internal topic; a null value is a tombstone."""

TimerKey: TypeAlias = Hashable
"""Names a timer within its shard; setting a timer that is set moves it."""


class SetTimer(NamedTuple):
    """Call `Shard.on_timer(key)` in `delay_ms`."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    """Cancel a timer; does nothing if it was not set."""

    key: TimerKey


TimerChange: TypeAlias = SetTimer | CancelTimer


class Answer(NamedTuple):
    """A reply to an earlier request that has been waiting."""

    respond: Respond
    reply: Any


class ProducerEpoch(NamedTuple):
    """The producer of records that are part of a transaction."""

    producer_id: int
    producer_epoch: int


class Decision(NamedTuple, Generic[Reply]):
    """Append `records` as one batch, change `timers`, release `reply` and `answers` once all that is committed.

    A request without a `reply` is answered by an `Answer` of a later decision. `then` is called with NONE when the
    records are committed, or with the log's error when it rejected them; it returns the next decision. It is not called
    if the partition was lost. The records of a decision with a `producer` are part of its transaction.
    """

    reply: Reply | None = None
    records: tuple[StateRecord, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    answers: tuple[Answer, ...] = ()
    then: Callable[[ErrorCode, int], Decision[Any]] | None = None
    producer: ProducerEpoch | None = None


NOTHING: Final[Decision[Any]] = Decision()
"""The empty decision."""
