"""What the clients of a cluster saw, simulated or real: every send with its outcome, every read, every transaction.

Clients write into it while they run; `anomalies` says afterwards what a log may never do. Values are unique, so that a
each record is identified by its value. The anomalies have the names of the usual checkers:

    lost write            acknowledged, below what was read later or at the end, and not there
    wrong offset          acknowledged at one offset, found at another
    duplicate             one send of an idempotent producer, found twice
    inconsistent offset   two reads of one offset gave two records
    unknown record        read, and never sent
    aborted read          read with read_committed, of a transaction that was aborted
    processed twice       one record led to two committed records in read-process-write
    not processed         a record led to none, and read-process-write has passed it
    torn transaction      some records of a committed transaction are there, others are not
    non-monotonic poll    offsets of one reader went back without a seek
    non-monotonic send    records that one idempotent producer sent one after the other are in another order
    skipped record        a reader passed a record that is there
    unseen                a record that is there was never delivered to a group that has come to the end
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and the number of a partition."""


class Outcome(Enum):
    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"


class Verdict(Enum):
    """How a transaction ended, as its producer knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """The values that were sent in it, and how it ended."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.verdict = Verdict.OPEN


class Send:
    """One record on its way."""

    __slots__ = ("acks_all", "idempotent", "offset", "outcome", "place", "producer", "source", "transaction", "value")

    def __init__(
        self,
        value: bytes,
        *,
        acks_all: bool,
        idempotent: bool,
        transaction: Transaction | None,
        producer: str | None = None,
    ) -> None:
        """`producer` names the producer instance, whose sends to one partition keep their order."""
        self.value = value
        self.producer = producer
        self.acks_all = acks_all
        self.idempotent = idempotent
        self.transaction = transaction
        self.outcome = Outcome.UNKNOWN
        self.place: Place | None = None
        self.offset = -1
        self.source: tuple[str, int, int] | None = None
        """Topic, partition and offset of the record that it was made from, if it was made in read-process-write."""

    def acknowledged(self, place: Place, offset: int) -> None:
        self.outcome = Outcome.ACKNOWLEDGED
        self.place = place
        self.offset = offset


class Read(NamedTuple):
    offset: int
    value: bytes


class Reader:
    """One assignment of one consumer: offsets in it only grow."""

    def __init__(self, name: str, *, is_committed_only: bool, group: str | None = None) -> None:
        """`group` names the consumers that share the records of their topics and miss none of them."""
        self.name = name
        self.group = group
        self.is_committed_only = is_committed_only
        self.reads: dict[Place, list[Read]] = {}

    def saw(self, place: Place, offset: int, value: bytes) -> None:
        self.reads.setdefault(place, []).append(Read(offset, value))


class History:
    """Everything that was sent and read. `final` is what the cluster holds at the end, when all is well again."""

    def __init__(self) -> None:
        self.sends: dict[bytes, Send] = {}
        self.readers: list[Reader] = []
        self.final = Reader("the end", is_committed_only=False)
        self.final_committed = Reader("the end, committed", is_committed_only=True)
        self.deleted_topics: set[str] = set()

    def send(
        self,
        value: bytes,
        *,
        acks_all: bool = True,
        idempotent: bool = True,
        transaction: Transaction | None = None,
        producer: str | None = None,
    ) -> Send:
        sent = self.sends[value] = Send(
            value, acks_all=acks_all, idempotent=idempotent, transaction=transaction, producer=producer
        )
        if transaction is not None:
            transaction.values.append(value)
        return sent

    def reader(self, name: str, *, is_committed_only: bool = False, group: str | None = None) -> Reader:
        reader = Reader(name, is_committed_only=is_committed_only, group=group)
        self.readers.append(reader)
        return reader

    # --- what may never be ---

    def anomalies(self) -> list[str]:
        """One line for each, with the values that show it."""
        found: list[str] = []
        found += self._lost_and_moved()
        found += self._duplicates()
        for reader in [*self.readers, self.final, self.final_committed]:
            found += self._inconsistencies(reader)
            found += _out_of_order(reader)
        found += self._sends_out_of_order()
        found += self._transactions()
        found += self._skipped()
        found += self.unseen()
        found += self._processed_twice()
        return found

    def _final_places(self) -> dict[bytes, list[tuple[Place, int]]]:
        places: dict[bytes, list[tuple[Place, int]]] = {}
        for place, reads in self.final.reads.items():
            for offset, value in reads:
                places.setdefault(value, []).append((place, offset))
        return places

    def _lost_and_moved(self) -> list[str]:
        found = []
        places = self._final_places()
        for sent in self.sends.values():
            if sent.outcome is not Outcome.ACKNOWLEDGED or not sent.acks_all or sent.place is None:
                continue
            if sent.place[0] in self.deleted_topics:
                continue
            where = places.get(sent.value, [])
            if not where:
                found.append(f"lost write: {sent.value!r} was acknowledged at {_at(sent.place, sent.offset)}")
            elif sent.offset >= 0 and (sent.place, sent.offset) not in where:
                found.append(
                    f"wrong offset: {sent.value!r} was acknowledged at {_at(sent.place, sent.offset)}, "
                    f"found at {', '.join(_at(*each) for each in where)}"
                )
        return found

    def _duplicates(self) -> list[str]:
        return [
            f"duplicate: {value!r} is at {', '.join(_at(*each) for each in where)}"
            for value, where in self._final_places().items()
            if len(where) > 1 and value in self.sends and self.sends[value].idempotent
        ]

    def _inconsistencies(self, reader: Reader) -> list[str]:
        found = []
        for place, reads in reader.reads.items():
            if place[0] in self.deleted_topics:
                continue
            final = dict(self.final.reads.get(place, ()))
            for offset, value in reads:
                if value not in self.sends:
                    found.append(f"unknown record: {reader.name} read {value!r} at {_at(place, offset)}")
                if offset in final and final[offset] != value:
                    found.append(
                        f"inconsistent offset: {reader.name} read {value!r} at {_at(place, offset)}, "
                        f"which holds {final[offset]!r} at the end"
                    )
                elif offset not in final and (not final or offset >= min(final)):
                    found.append(f"lost write: {reader.name} read {value!r} at {_at(place, offset)}, which is gone")
        return found

    def _sends_out_of_order(self) -> list[str]:
        found = []
        last: dict[tuple[str, Place], Send] = {}
        for sent in self.sends.values():
            if sent.producer is None or not sent.idempotent or sent.place is None or sent.offset < 0:
                continue
            before = last.get((sent.producer, sent.place))
            if before is not None and sent.offset <= before.offset:
                found.append(
                    f"non-monotonic send: {sent.producer} sent {before.value!r}, which is at "
                    f"{_at(sent.place, before.offset)}, before {sent.value!r}, at {_at(sent.place, sent.offset)}"
                )
            last[sent.producer, sent.place] = sent
        return found

    def _transactions(self) -> list[str]:
        found = []
        committed = {value for reads in self.final_committed.reads.values() for _, value in reads}
        transactions = {id(sent.transaction): sent.transaction for sent in self.sends.values() if sent.transaction}
        for transaction in transactions.values():
            there = [value for value in transaction.values if value in committed]
            if transaction.verdict is Verdict.ABORTED and there:
                found.append(f"aborted read: {there[0]!r} of an aborted transaction is there at the end")
            if there and len(there) < len(transaction.values):
                missing = next(value for value in transaction.values if value not in committed)
                found.append(f"torn transaction: {there[0]!r} is there, {missing!r} is not")
            if transaction.verdict is Verdict.COMMITTED and transaction.values and not there:
                found.append(f"lost write: nothing of the committed transaction of {transaction.values[0]!r} is there")
        for reader in self.readers:
            if reader.is_committed_only:
                found += [
                    f"aborted read: {reader.name} read {value!r} at {_at(place, offset)}"
                    for place, reads in reader.reads.items()
                    for offset, value in reads
                    if (sent := self.sends.get(value)) is not None
                    and sent.transaction is not None
                    and value not in committed
                    and place[0] not in self.deleted_topics
                ]
        return found

    def _processed_twice(self) -> list[str]:
        found = []
        first: dict[tuple[str, int, int], bytes] = {}
        for reads in self.final_committed.reads.values():
            for _, value in reads:
                sent = self.sends.get(value)
                if sent is not None and sent.source is not None and first.setdefault(sent.source, value) != value:
                    topic, partition, offset = sent.source
                    where = _at((topic, partition), offset)
                    found.append(f"processed twice: {where} led to {first[sent.source]!r} and {value!r}")
        return found

    def unprocessed(self, ends: Mapping[Place, int]) -> list[str]:
        """For each partition the first record below its end from which no committed record was made."""
        sources = {
            sent.source
            for reads in self.final_committed.reads.values()
            for _, value in reads
            if (sent := self.sends.get(value)) is not None and sent.source is not None
        }
        found = []
        for place, end in ends.items():
            missing = next(
                (
                    read
                    for read in self.final.reads.get(place, ())
                    if read.offset < end and (*place, read.offset) not in sources
                ),
                None,
            )
            if missing is not None:
                found.append(f"not processed: {missing.value!r} at {_at(place, missing.offset)}, the offset is {end}")
        return found

    def _skipped(self) -> list[str]:
        """A reader that went on has seen everything between its first and its last offset."""
        found = []
        for reader in self.readers:
            final = self.final_committed if reader.is_committed_only else self.final
            for place, reads in reader.reads.items():
                if place[0] in self.deleted_topics or not reads:
                    continue
                seen = {offset for offset, _ in reads}
                first, last = min(seen), max(seen)
                missing = [
                    each
                    for each in final.reads.get(place, ())
                    if first < each.offset < last and each.offset not in seen
                ]
                found += [
                    f"skipped record: {reader.name} passed {each.value!r} at {_at(place, each.offset)}"
                    for each in missing[:1]
                ]
        return found

    def unseen(self) -> list[str]:
        """For each group and partition the first record that none of its members has read."""
        groups: dict[tuple[str, bool, str], dict[int, set[int]]] = {}
        for reader in list(self.readers):
            if reader.group is None:
                continue
            for (topic, partition), reads in list(reader.reads.items()):
                seen = groups.setdefault((reader.group, reader.is_committed_only, topic), {})
                seen.setdefault(partition, set()).update(read.offset for read in list(reads))
        found = []
        for (group, is_committed_only, topic), seen in groups.items():
            final = self.final_committed if is_committed_only else self.final
            for place, reads in final.reads.items():
                if place[0] != topic or topic in self.deleted_topics:
                    continue
                offsets = seen.get(place[1], set())
                missing = next((read for read in reads if read.offset not in offsets), None)
                if missing is not None:
                    where = _at(place, missing.offset)
                    found.append(f"unseen: {missing.value!r} at {where} was never delivered to {group}")
        return found


def _out_of_order(reader: Reader) -> list[str]:
    found = []
    for place, reads in reader.reads.items():
        for before, after in pairwise(reads):
            if after.offset <= before.offset:
                where = f"{_at(place, after.offset)} after {_at(place, before.offset)}"
                found.append(f"non-monotonic poll: {reader.name} read {where}")
    return found


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
