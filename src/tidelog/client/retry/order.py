"""Order by key while records of a key wait. Pure.

The waiting records of a key are numbered. The one with the lowest number, the head, may be handled; any other record of
the key waits behind it in the same retry topic, and waits again when it comes before its turn. The numbers that wait
are a range, `[head, tail)`, which is written to a compacted topic in the transactions that change it.

Transactions may commit changes in another order than they happened, because each partition is committed up to its first
unfinished record. Each change therefore names its number, and the range of a key is kept until all are committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.retry.waiting_numbers import WaitingNumbers, decode_numbers


class KeyAddress(NamedTuple):
    """A key, in the partition where its records were first read."""

    topic: str
    partition: int
    key: bytes


class Change(NamedTuple):
    """A number that waits from now on, or that waits no longer."""

    address: KeyAddress
    sequence: int
    is_release: bool


@dataclass(slots=True)
class _State:
    numbers: WaitingNumbers
    committed: WaitingNumbers
    attempts: int = 1
    """How often the head has failed, as far as it is known."""
    pending: int = 0
    """Changes that are not committed."""


class KeyOrder:
    """The keys with waiting records of the partitions that this member reads."""

    def __init__(self) -> None:
        self._states: dict[KeyAddress, _State] = {}

    def is_turn(self, address: KeyAddress, sequence: int | None) -> bool:
        """Whether a record may be handled. A number that is not known counts as a new record."""
        found = self._states.get(address)
        return found is None or found.numbers.is_turn(sequence)

    def head_attempts(self, address: KeyAddress) -> int:
        """How often the record that the others wait for has failed."""
        found = self._states.get(address)
        return 1 if found is None else found.attempts

    def wait(self, address: KeyAddress, sequence: int | None, attempts: int = 0) -> Change:
        """A record waits, as the head after so many failures or behind it: under its number or a new one."""
        found = self._states.setdefault(address, _State(WaitingNumbers(), WaitingNumbers()))
        number, found.numbers = found.numbers.wait(sequence)
        if number == found.numbers.head:
            found.attempts = max(attempts, 1)
        found.pending += 1
        return Change(address, number, is_release=False)

    def release(self, address: KeyAddress, sequence: int | None) -> Change | None:
        """The record is handled, or a dead letter: the next number is the head."""
        found = self._states.get(address)
        if found is None or sequence is None or not found.numbers.has(sequence):
            return None
        found.numbers = found.numbers.release(sequence)
        found.attempts = 1
        found.pending += 1
        return Change(address, sequence, is_release=True)

    def states(self, changes: Iterable[Change]) -> dict[KeyAddress, bytes | None]:
        """The records for the compacted topic that belong into the transaction with these changes."""
        folded: dict[KeyAddress, WaitingNumbers] = {}
        for change in changes:
            found = self._states.get(change.address)
            if found is not None:
                folded[change.address] = _fold(folded.get(change.address, found.committed), change)
        return {
            address: None if each.is_empty else each.encode(partition=address.partition)
            for address, each in folded.items()
        }

    def committed(self, changes: Iterable[Change]) -> None:
        """The transaction with these changes is committed."""
        for change in changes:
            found = self._states.get(change.address)
            if found is None:
                continue
            found.committed = _fold(found.committed, change)
            found.pending -= 1
            if not found.pending and found.numbers.is_empty:
                del self._states[change.address]

    def load(self, topic: str, partition: int, values: Mapping[bytes, bytes]) -> None:
        """The ranges of one partition, from the last value of each key in the compacted topic."""
        self.drop(topic, partition)
        for key, value in values.items():
            try:
                numbers, facts = decode_numbers(value)
            except ValueError:
                continue
            if facts.get("partition") == partition:
                self._states[KeyAddress(topic, partition, key)] = _State(numbers, committed=numbers)

    def drop(self, topic: str, partition: int) -> None:
        """Another member reads this partition."""
        for address in [each for each in self._states if each[:2] == (topic, partition)]:
            del self._states[address]


def key_name(group: str, topic: str, key: bytes) -> bytes:
    """The key of a record in the compacted topic, which groups share."""
    return key_prefix(group, topic) + key


def key_prefix(group: str, topic: str) -> bytes:
    """What the names of one group's keys of a topic begin with."""
    return group.encode() + b"\0" + topic.encode() + b"\0"


def _fold(before: WaitingNumbers, change: Change) -> WaitingNumbers:
    tail = max(before.tail, change.sequence + 1)
    if change.is_release:
        return WaitingNumbers(max(before.head, change.sequence + 1), tail)
    # Numbers before this one that no commit has are handled already, or not written yet: then they are read again.
    return WaitingNumbers(change.sequence if before.is_empty else before.head, tail)
