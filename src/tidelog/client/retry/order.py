"""Order by key while records of a key wait. Pure.

The waiting records of a key are numbered. The one with the lowest number, the head, may be handled; any other record of
the key waits behind it in the same retry topic, and waits again when it comes before its turn. The numbers that wait
are a range, `[head, tail)`, which is written to a compacted topic in the transactions that change it.

Transactions may commit changes in another order than they happened, because each partition is committed up to its first
unfinished record. Each change therefore names its number, and the range of a key is kept until all are committed.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


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
class _Range:
    head: int
    tail: int
    attempts: int = 1
    """How often the head has failed, as far as it is known."""
    committed_head: int = 0
    committed_tail: int = 0
    pending: int = 0
    """Changes that are not committed."""

    def has(self, sequence: int | None) -> bool:
        return sequence is not None and self.head <= sequence < self.tail


class KeyOrder:
    """The keys with waiting records of the partitions that this member reads."""

    def __init__(self) -> None:
        self._ranges: dict[KeyAddress, _Range] = {}

    def is_turn(self, address: KeyAddress, sequence: int | None) -> bool:
        """Whether a record may be handled. A number that is not known counts as a new record."""
        found = self._ranges.get(address)
        if found is None or found.head == found.tail:
            return True
        return found.has(sequence) and sequence == found.head

    def head_attempts(self, address: KeyAddress) -> int:
        """How often the record that the others wait for has failed."""
        found = self._ranges.get(address)
        return 1 if found is None else found.attempts

    def wait(self, address: KeyAddress, sequence: int | None, attempts: int = 0) -> Change:
        """A record waits, as the head after so many failures or behind it: under its number or a new one."""
        found = self._ranges.setdefault(address, _Range(0, 0))
        if not found.has(sequence):
            sequence = found.tail
            found.tail += 1
        assert sequence is not None, "numbered above"
        if sequence == found.head:
            found.attempts = max(attempts, 1)
        found.pending += 1
        return Change(address, sequence, is_release=False)

    def release(self, address: KeyAddress, sequence: int | None) -> Change | None:
        """The record is handled, or a dead letter: the next number is the head."""
        found = self._ranges.get(address)
        if found is None or sequence is None or not found.has(sequence):
            return None
        found.head = sequence + 1
        found.attempts = 1
        found.pending += 1
        return Change(address, sequence, is_release=True)

    def states(self, changes: Iterable[Change]) -> dict[KeyAddress, bytes | None]:
        """The records for the compacted topic that belong into the transaction with these changes."""
        folded: dict[KeyAddress, tuple[int, int]] = {}
        for change in changes:
            found = self._ranges.get(change.address)
            if found is not None:
                before = folded.get(change.address, (found.committed_head, found.committed_tail))
                folded[change.address] = _fold(before, change)
        return {address: _encode(address, *each) for address, each in folded.items()}

    def committed(self, changes: Iterable[Change]) -> None:
        """The transaction with these changes is committed."""
        for change in changes:
            found = self._ranges.get(change.address)
            if found is None:
                continue
            before = (found.committed_head, found.committed_tail)
            found.committed_head, found.committed_tail = _fold(before, change)
            found.pending -= 1
            if not found.pending and found.head == found.tail:
                del self._ranges[change.address]

    def load(self, topic: str, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """The ranges of one partition, from its keys and values in the compacted topic, oldest first."""
        self.drop(topic, partition)
        for key, value in records:
            address = KeyAddress(topic, partition, key)
            found = None if value is None else _decode(value)
            if found is None:
                self._ranges.pop(address, None)
            elif found[2] == partition:
                self._ranges[address] = _Range(*found[:2], committed_head=found[0], committed_tail=found[1])

    def drop(self, topic: str, partition: int) -> None:
        """Another member reads this partition."""
        for address in [each for each in self._ranges if each[:2] == (topic, partition)]:
            del self._ranges[address]


def key_name(group: str, topic: str, key: bytes) -> bytes:
    """The key of a record in the compacted topic, which groups share."""
    return key_prefix(group, topic) + key


def key_prefix(group: str, topic: str) -> bytes:
    """What the names of one group's keys of a topic begin with."""
    return group.encode() + b"\0" + topic.encode() + b"\0"


def _fold(before: tuple[int, int], change: Change) -> tuple[int, int]:
    head, tail = before
    if change.is_release:
        return max(head, change.sequence + 1), max(tail, change.sequence + 1)
    # Numbers before this one that no commit has are handled already, or not written yet: then they are read again.
    return (head if head < tail else change.sequence), max(tail, change.sequence + 1)


def _encode(address: KeyAddress, head: int, tail: int) -> bytes | None:
    return None if head >= tail else json.dumps({"head": head, "tail": tail, "partition": address.partition}).encode()


def _decode(value: bytes) -> tuple[int, int, int] | None:
    try:
        found = json.loads(value)
        return int(found["head"]), int(found["tail"]), int(found["partition"])
    except (ValueError, TypeError, KeyError):
        return None
