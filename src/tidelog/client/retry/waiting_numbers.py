"""The numbers of the records of one key that wait: a range, from the head to before the tail. Pure.

The rules by which the order of a key is kept, for retrying consumers (`order`) and for any other reader that tries
records again:

- The head may be handled. Any other record of the key waits behind it.
- A record that waits keeps its number. One without a number, or with one that is not in the range, gets the next.
- When the head is handled or dead, the next number is the head. A key without waiting records is forgotten.

Ranges are values of a compacted topic, as JSON objects, to which a reader may add facts of its own.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class WaitingNumbers(NamedTuple):
    """The range; it is empty if both ends are the same."""

    head: int = 0
    tail: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no record of the key waits."""
        return self.head >= self.tail

    def has(self, sequence: int | None) -> bool:
        """Whether a record with this number waits."""
        return sequence is not None and self.head <= sequence < self.tail

    def is_turn(self, sequence: int | None) -> bool:
        """Whether a record may be handled. A number that is not known counts as a new record."""
        return self.is_empty or (self.has(sequence) and sequence == self.head)

    def wait(self, sequence: int | None) -> "tuple[int, WaitingNumbers]":
        """The number of a record that waits from now on, and the range with it."""
        if sequence is not None and self.has(sequence):
            return sequence, self
        return self.tail, WaitingNumbers(self.head, self.tail + 1)

    def release(self, sequence: int) -> "WaitingNumbers":
        """The range after the record with this number, and those before it, wait no longer."""
        return WaitingNumbers(sequence + 1, self.tail)

    def encode(self, **facts: object) -> bytes:
        """As the value of a record."""
        return json.dumps({"head": self.head, "tail": self.tail, **facts}).encode()


def decode_numbers(value: bytes) -> tuple[WaitingNumbers, dict[str, Any]]:
    """The range in the value of a record, and the whole object. Raises ValueError for any other bytes."""
    found = json.loads(value)
    if not isinstance(found, dict) or not all(type(found.get(name)) is int for name in ("head", "tail")):
        raise ValueError(f"{value!r} is not a range of waiting numbers")
    return WaitingNumbers(found["head"], found["tail"]), found


def latest_values(records: Iterable[tuple[bytes | None, bytes | None]], prefix: bytes) -> Mapping[bytes, bytes]:
    """The last value of each key of a compacted topic, oldest record first, without the prefix that its keys have."""
    found: dict[bytes, bytes] = {}
    for name, value in records:
        if name is None or not name.startswith(prefix):
            continue
        key = name.removeprefix(prefix)
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
