"""Verification of the first batch of a transaction in a log (KIP-890).

A batch of a transaction is appended only if the transaction's coordinator has the partition in it: otherwise no marker
would ever end it, and read-committed consumers would wait for ever. The log itself has the transactions that are open
in it, so only the first batch is verified with the coordinator.

The response may be late. A guard ties it to the state of the log when the verification began: a marker written in
between removes the guard, and the batch is rejected.

`ProducerStateManager` keeps the guards of one log; the broker's produce handler passes them to the append.
"""

from __future__ import annotations

from typing import Final

from tidelog.records.header import SEQUENCE_MASK

_HALF: Final = 0x4000_0000


class VerificationGuard:
    """Allows the append of the first batch of a producer's transaction, once its coordinator has verified it."""

    __slots__ = ("begins_at_zero", "created_ms", "lowest_sequence", "producer_epoch")

    def __init__(
        self, producer_epoch: int, lowest_sequence: int, created_ms: int, *, begins_at_zero: bool = False
    ) -> None:
        """`begins_at_zero`: each transaction of the producer has an epoch of its own, so the first sequence is 0."""
        self.producer_epoch = producer_epoch
        self.begins_at_zero = begins_at_zero
        self.lowest_sequence = lowest_sequence
        self.created_ms = created_ms

    def note(self, producer_epoch: int, sequence: int) -> None:
        """Another request is verified, too: the batch with the lowest sequence must be appended first."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch and _is_after(self.lowest_sequence, sequence):
            self.lowest_sequence = sequence

    def is_overtaken(self, sequence: int) -> bool:
        """Whether an earlier batch is being verified and has not been appended yet."""
        return _is_after(sequence, self.lowest_sequence)


def _is_after(sequence: int, other: int) -> bool:
    """Sequences wrap around, so the shorter distance decides. Offset commits have no sequence and are never after."""
    if sequence < 0 or other < 0:
        return False
    return 0 < (sequence - other) & SEQUENCE_MASK < _HALF


OPEN: Final = VerificationGuard(-1, -1, -1)
"""In place of a guard: there is an open transaction, and it must still be open when the batch is appended."""


class Verifications:
    """The guards of one log, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, begins_at_zero: bool = False
    ) -> VerificationGuard:
        """A guard for a producer; concurrent requests share it."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = VerificationGuard(producer_epoch, sequence, now_ms, begins_at_zero=begins_at_zero)
            self._guards[producer_id] = guard
        else:
            guard.note(producer_epoch, sequence)
        return guard

    def is_current(self, producer_id: int, guard: VerificationGuard) -> bool:
        return self._guards.get(producer_id) is guard

    def end(self, producer_id: int) -> None:
        """Remove a producer's guard: its transaction has begun here, or has ended."""
        if self._guards:
            self._guards.pop(producer_id, None)

    def clear(self) -> None:
        self._guards.clear()

    def remove_expired(self, oldest_ms: int) -> None:
        """Forget guards of requests that were never answered."""
        for producer_id in [key for key, guard in self._guards.items() if guard.created_ms <= oldest_ms]:
            del self._guards[producer_id]
