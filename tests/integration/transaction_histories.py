"""Histories of transactions over a log, and what must never be in them.

In the manner of Jepsen's workload for Kafka: processes send unique values to keys (partitions), poll keys, and do both
in transactions. Afterwards nothing but the history is looked at. What is searched for:

    inconsistent offset   one offset of a key holds two values
    duplicate             one value is at two offsets
    phantom               a value that was never sent was read
    aborted read          a value of a transaction that was not committed was read
    lost write            a committed value was never read, although later ones of its key were
    nonmonotonic send     a transaction's sends to one key are not in its order
    nonmonotonic poll     a consumer went backwards
    poll skip             a consumer went over a value that others have read
    cycle                 transactions that each have read from the next, or come after it in one process (G1c)
    torn offsets          the offset of a group does not belong to the transactions that were committed

A transaction of unknown outcome whose values were read was committed, so all of it must be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What the process knows when its transaction is over."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Send(NamedTuple):
    key: int
    value: int
    offset: int | None = None
    """None when the answer never came."""


class Poll(NamedTuple):
    key: int
    found: Sequence[tuple[int, int]]
    """Offsets and values."""


@dataclass(slots=True)
class Operation:
    """One transaction of one process, or a send or poll outside of any, which is a transaction of its own."""

    process: str
    outcome: Outcome = Outcome.UNKNOWN
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    """The offsets by key that the transaction would commit for the group of its process."""
    has_moved: bool = False
    """The process has reset its positions before this, as after a rebalance: polls may begin anywhere."""


class Anomaly(NamedTuple):
    kind: str
    what: str


class History:
    """Operations in the order in which they were done."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        self.sender: dict[tuple[int, int], Operation] = {
            (send.key, send.value): operation for operation in self.operations for send in operation.sends
        }
        self.read: dict[int, dict[int, int]] = defaultdict(dict)
        """By key: offsets and values that were read."""
        for _, poll in self._polls():
            self.read[poll.key].update(poll.found)
        seen = {(key, value) for key, found in self.read.items() for value in found.values()}
        self._was_read = {id(self.sender[entry]) for entry in seen if entry in self.sender}
        self.seen = seen

    def _polls(self) -> Iterator[tuple[Operation, Poll]]:
        for operation in self.operations:
            for poll in operation.polls:
                yield operation, poll

    def is_committed(self, operation: Operation) -> bool:
        """Known to be committed, or seen to be."""
        if operation.outcome is Outcome.UNKNOWN:
            return id(operation) in self._was_read
        return operation.outcome is Outcome.COMMITTED


def check(operations: Iterable[Operation], final_offsets: dict[str, dict[int, int]] | None = None) -> list[Anomaly]:
    """Everything that is wrong with a history. `final_offsets`: by process and key, the offsets of its group."""
    history = History(operations)
    found = [
        *_offsets_and_values(history),
        *_reads_of_the_wrong(history),
        *_lost_writes(history),
        *_order_of_sends(history),
        *_order_of_polls(history),
        *_cycles(history),
    ]
    if final_offsets is not None:
        found += _torn_offsets(history, final_offsets)
    return found


def _offsets_and_values(history: History) -> Iterator[Anomaly]:
    values: dict[tuple[int, int], set[int]] = defaultdict(set)
    offsets: dict[tuple[int, int], set[int]] = defaultdict(set)
    places = [
        (send.key, send.offset, send.value)
        for operation in history.operations
        for send in operation.sends
        if send.offset is not None
    ]
    places += [(poll.key, offset, value) for _, poll in history._polls() for offset, value in poll.found]
    for key, offset, value in places:
        values[key, offset].add(value)
        offsets[key, value].add(offset)
    for (key, offset), several in values.items():
        if len(several) > 1:
            yield Anomaly("inconsistent offset", f"offset {offset} of key {key} holds {sorted(several)}")
    for (key, value), many in offsets.items():
        if len(many) > 1:
            yield Anomaly("duplicate", f"value {value} of key {key} is at {sorted(many)}")


def _reads_of_the_wrong(history: History) -> Iterator[Anomaly]:
    for key, value in sorted(history.seen):
        sender = history.sender.get((key, value))
        if sender is None:
            yield Anomaly("phantom", f"value {value} of key {key} was read, and never sent")
        elif sender.outcome is Outcome.ABORTED:
            yield Anomaly("aborted read", f"value {value} of key {key} was read; {sender.process} had aborted it")


def _lost_writes(history: History) -> Iterator[Anomaly]:
    for operation in history.operations:
        if not history.is_committed(operation):
            continue
        for key, value, offset in operation.sends:
            if (key, value) in history.seen:
                continue
            highest = max(history.read[key], default=-1)
            if offset is None or offset <= highest:
                yield Anomaly("lost write", f"value {value} of key {key}, sent by {operation.process}, was never read")


def _order_of_sends(history: History) -> Iterator[Anomaly]:
    for operation in history.operations:
        last: dict[int, int] = {}
        for key, value, offset in operation.sends:
            if offset is None:
                continue
            if offset <= last.get(key, -1):
                yield Anomaly("nonmonotonic send", f"{operation.process} sent {value} to key {key} and got {offset}")
            last[key] = offset


def _order_of_polls(history: History) -> Iterator[Anomaly]:
    known = {key: sorted(found) for key, found in history.read.items()}
    positions: dict[tuple[str, int], int] = {}
    for operation in history.operations:
        if operation.has_moved:
            for place in [place for place in positions if place[0] == operation.process]:
                del positions[place]
        for key, found in operation.polls:
            for offset, value in found:
                last = positions.get((operation.process, key))
                if last is not None and offset <= last:
                    yield Anomaly("nonmonotonic poll", f"{operation.process} read {value} of key {key} after {last}")
                elif last is not None and (skipped := [known_ for known_ in known[key] if last < known_ < offset]):
                    yield Anomaly("poll skip", f"{operation.process} went over {skipped} of key {key} to {offset}")
                positions[operation.process, key] = offset


def _cycles(history: History) -> Iterator[Anomaly]:
    """Groups of committed transactions of which each comes before the others."""
    committed = [operation for operation in history.operations if history.is_committed(operation)]
    number = {id(operation): position for position, operation in enumerate(committed)}
    after: list[set[int]] = [set() for _ in committed]
    last_of: dict[str, int] = {}
    for position, operation in enumerate(committed):
        if operation.process in last_of:
            after[last_of[operation.process]].add(position)
        last_of[operation.process] = position
        for poll in operation.polls:
            for _, value in poll.found:
                sender = history.sender.get((poll.key, value))
                if sender is not None and id(sender) in number and sender is not operation:
                    after[number[id(sender)]].add(position)
    for component in components(after):
        if len(component) > 1:
            yield Anomaly("cycle", " → ".join(committed[position].process for position in sorted(component)))


def components(after: Sequence[set[int]]) -> list[list[int]]:
    """The strongly connected components of a graph, after Tarjan, without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in range(len(after)):
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(after[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    found.append(component)
    return found


def _torn_offsets(history: History, final: dict[str, dict[int, int]]) -> Iterator[Anomaly]:
    """Each offset of a group is that of the last transaction that committed one, and of no other."""
    allowed: dict[tuple[str, int], set[int]] = defaultdict(lambda: {-1})
    for operation in history.operations:
        for key, offset in operation.offsets.items():
            place = operation.process, key
            if history.is_committed(operation):
                allowed[place] = {offset}
            elif operation.outcome is Outcome.UNKNOWN and not operation.sends:
                allowed[place] = allowed[place] | {offset}  # which of them is unknown
    for process, offsets in final.items():
        for key, offset in offsets.items():
            if offset not in allowed[process, key]:
                expected = sorted(allowed[process, key])
                yield Anomaly("torn offsets", f"{process} is at {offset} of key {key}; expected one of {expected}")
