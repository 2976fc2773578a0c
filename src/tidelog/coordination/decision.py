"""What a shard decided: plain data that the runtime carries out.

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
"""Key and value of a record of the internal topic; without a value it is a tombstone."""

TimerKey: TypeAlias = Hashable
"""Names a timer within its shard; setting a timer that is set moves it."""


class SetTimer(NamedTuple):
    """Call `Shard.on_timer(key)` in `delay_ms`."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    """Do not call it any more; nothing happens if it was not set."""

    key: TimerKey


TimerChange: TypeAlias = SetTimer | CancelTimer


class Answer(NamedTuple):
    """A reply to a request that was made earlier and has waited since."""

    respond: Respond
    reply: Any


class ProducerEpoch(NamedTuple):
    """Who writes records as part of a transaction."""

    producer_id: int
    producer_epoch: int


class Decision(NamedTuple, Generic[Reply]):
    """Append `records` as one batch, change `timers`, release `reply` and `answers` once all that is committed.

    A request without a `reply` is answered by an `Answer` of a later decision. `then` is called when the records are
    committed, with NONE, or have been refused, with the log's error; it decides what follows. If the log is lost, so
    is the shard, and nothing follows. The records of a decision with a `producer` take part in its transaction.
    """

    reply: Reply | None = None
    records: tuple[StateRecord, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    answers: tuple[Answer, ...] = ()
    then: Callable[[ErrorCode, int], Decision[Any]] | None = None
    producer: ProducerEpoch | None = None


NOTHING: Final[Decision[Any]] = Decision()
"""There is nothing to do."""
