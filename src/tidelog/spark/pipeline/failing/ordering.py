"""Keeping each key's rows in order while some of them wait to be tried again. Pure.

A key is blocked while a row of it waits. Its waiting rows are numbered; the oldest, the head, waits in a retry topic
for its time, and the others are parked. Only the head may leave, to the output or to the dead letters. When it has, the
next number is the head: it is due, and is read from where it was parked (`parked_index`) with some that follow it.

    batch 1   a1 fails, a2 a3 well      a1 → retry.1 as number 0; a2 a3 → parked as 1 and 2; state a: head 0, tail 3
    batch 2   a4, well                  a4 → parked as 3; state a: head 0, tail 4
    batch 3   a1 again, well            a1 → output; state a: head 1, tail 4, and 1 is parked: it is due
    batch 4   a2 a3 a4, well            all → output; nothing waits, a is forgotten

The rules of the numbers are those of `client.retry.waiting_numbers`. Numbers decide, not positions: however reads of
the topics are cut into batches, a parked row that was read and is not its key's head stays where it lies, and is read
again when it is due. The state of blocked keys is written to a compacted topic in the same transaction as its rows.
`settling` calls `settle` on the driver, once a batch, with the rows of keys in trouble alone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.retry.waiting_numbers import WaitingNumbers, decode_numbers, latest_values

VERDICT: Final = "_verdict"
SEQUENCE: Final = "_sequence"
"""The columns of the decision about a row, and of its number if it waits."""

Place = tuple[str, int, int]
"""Topic, partition and offset a row was read from in this batch."""


class Verdict(Enum):
    """The decision about a row."""

    EMIT = "emit"
    RETRY = "retry"
    PARK = "park"
    STAY = "stay"
    DEAD = "dead"


class Seen(NamedTuple):
    """One evaluated row: its key, where it was read, its number if it has waited, and whether it failed for good."""

    key: bytes
    place: Place
    sequence: int | None
    has_failed: bool
    is_dead: bool = False
    is_parked: bool = False
    """Whether it was read from where it is parked."""


class Settled(NamedTuple):
    """The decision about one row, and its number if it waits."""

    verdict: Verdict
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The waiting rows of one key are numbered from `head` to before `tail`."""

    head: int
    tail: int
    is_head_parked: bool = False

    @property
    def numbers(self) -> WaitingNumbers:
        """The range alone."""
        return WaitingNumbers(self.head, self.tail)

    @property
    def first_parked(self) -> int:
        """The number of the first row that is parked; the head itself may be in a retry topic."""
        return self.head if self.is_head_parked else self.head + 1

    @property
    def parked_rows(self) -> int:
        """How many rows are parked."""
        return self.tail - self.first_parked

    def encode(self) -> bytes:
        """As a record's value."""
        return self.numbers.encode(parked=self.is_head_parked)

    @staticmethod
    def decode(value: bytes) -> "Waiting":
        """From a record's value. Raises ValueError for any other bytes."""
        numbers, facts = decode_numbers(value)
        return Waiting(*numbers, facts.get("parked") is True)


Keys = Mapping[bytes, Waiting]


def settle(rows: Iterable[Seen], keys: Keys) -> tuple[dict[Place, Settled], dict[bytes, Waiting | None]]:
    """The decision about each row, and the keys whose state changes (None: no row of the key waits)."""
    by_key: dict[bytes, list[Seen]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    settled: dict[Place, Settled] = {}
    changes: dict[bytes, Waiting | None] = {}
    for key, of_key in by_key.items():
        before = keys.get(key)
        walk = _KeyWalk(before, settled)
        for row in sorted(of_key, key=_in_order):
            walk.take(row)
        after = walk.state()
        if after != before:
            changes[key] = after
    return settled, changes


def apply_changes(keys: Keys, changes: Mapping[bytes, Waiting | None]) -> dict[bytes, Waiting]:
    """The state of keys after a batch."""
    merged: dict[bytes, Waiting | None] = {**keys, **changes}
    return {key: waiting for key, waiting in merged.items() if waiting is not None}


def skip_heads(keys: Keys, gone: Collection[bytes]) -> dict[bytes, Waiting | None]:
    """The state of keys whose next row does not exist any more: the row after it is next."""
    return {
        key: None if waiting.head + 1 == waiting.tail else Waiting(waiting.head + 1, waiting.tail, is_head_parked=True)
        for key, waiting in keys.items()
        if key in gone
    }


def any_head_parked(keys: Keys) -> bool:
    """Whether the parked topic has a row whose turn it is."""
    return any(waiting.is_head_parked for waiting in keys.values())


def _in_order(row: Seen) -> tuple[bool, int, Place]:
    # Rows that have waited are older than rows read for the first time; numbers order them among themselves.
    return (row.sequence is None, row.sequence or 0, row.place)


class _KeyWalk:
    """The rows of one key, oldest first."""

    def __init__(self, before: Waiting | None, settled: dict[Place, Settled]) -> None:
        self._numbers = WaitingNumbers() if before is None else before.numbers
        self._is_head_parked = before is not None and before.is_head_parked
        self._settled = settled

    def take(self, row: Seen) -> None:
        is_known = self._numbers.has(row.sequence)
        if row.is_parked and not (is_known and self._numbers.is_turn(row.sequence)):
            self._put(row, Verdict.STAY, row.sequence)
        elif self._numbers.is_turn(row.sequence):
            # The head; or read first now and nothing waits, or under a number that is not known, as if read first.
            self._try(row, is_head=is_known)
        else:
            number, self._numbers = self._numbers.wait(row.sequence)
            self._put(row, Verdict.PARK, number)

    def _try(self, row: Seen, *, is_head: bool) -> None:
        if row.has_failed and not row.is_dead:
            number, self._numbers = self._numbers.wait(row.sequence)
            self._put(row, Verdict.RETRY, number)
            self._is_head_parked = False
            return
        self._put(row, Verdict.DEAD if row.has_failed else Verdict.EMIT, None)
        if is_head:
            self._numbers = self._numbers.release(self._numbers.head)
            self._is_head_parked = not self._numbers.is_empty

    def _put(self, row: Seen, verdict: Verdict, sequence: int | None) -> None:
        self._settled[row.place] = Settled(verdict, sequence)

    def state(self) -> Waiting | None:
        return None if self._numbers.is_empty else Waiting(*self._numbers, self._is_head_parked)


def key_of(pipeline: str, key: bytes) -> bytes:
    """The name of a key in the topic of blocked keys, which pipelines that read the same topic share."""
    return pipeline.encode() + b"\0" + key


def load_keys(
    pipeline: str, records: Iterable[tuple[bytes | None, bytes | None]], warn: Callable[[str], object]
) -> dict[bytes, Waiting]:
    """The blocked keys of one pipeline from the records of the compacted topic, oldest first."""
    keys: dict[bytes, Waiting] = {}
    for key, value in latest_values(records, key_of(pipeline, b"")).items():
        try:
            keys[key] = Waiting.decode(value)
        except ValueError as error:
            warn(f"skipped a record of the topic of blocked keys: {error}")
    return keys
