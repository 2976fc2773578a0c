"""The interface between the runtime and the coordinators: one shard keeps the state of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from tidelog.coordination.decision import Answer, Decision, TimerKey
from tidelog.wire.errors import ApiError


class Shard(Protocol):
    """State of one partition of an internal topic. No clock, no files, no tasks.

    `now_ms` is wall time, as in records; the runtime gets deadlines as delays. Requests are methods of the
    implementation, `(…, now_ms) -> Decision`, which may raise ApiError as long as they changed nothing.
    """

    def replay(self, key: bytes, value: bytes | None, producer_id: int, producer_epoch: int) -> None:
        """Apply one record of the log. Only replay changes state that must survive a restart.

        `producer_id` is -1 unless the record is part of a transaction that is not ended yet.
        """
        ...

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """A producer's transaction ended: apply its records, or drop them if it was aborted."""
        ...

    def on_loaded(self, now_ms: int) -> Decision[Any]:
        """The whole log has been replayed; requests follow."""
        ...

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        """A timer that a decision set has expired."""
        ...

    def on_unloaded(self, error: ApiError) -> Iterable[Answer]:
        """This broker no longer leads the partition: answers to all requests that wait in the shard."""
        ...
