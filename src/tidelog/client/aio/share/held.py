"""The records that an application has, and how it has acknowledged them. Pure; the time is an argument.

    arrived  --deliver-->  delivered  --acknowledge-->  delivered, with an acknowledgement  --take-->  gone
       ^                                                                                    `-renew->  renewing
       +------------------------------ the lock is renewed -----------------------------------------------'

Acknowledgements are collected here and leave with the next poll or commit; until then they can be changed. The
application may acknowledge from its own thread while the loop works: single entries are read and written, no more.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from tidelog.client.aio.share.types import ACCEPTED, RELEASED, Ack, AcknowledgeType, Acks, Origin, ShareRecord
from tidelog.client.errors import IllegalState
from tidelog.client.types import TopicPartition


class _Entry:
    """One record."""

    __slots__ = ("ack", "locked_until_ms", "origin", "record")

    def __init__(self, origin: Origin, record: ShareRecord[Any, Any] | None, locked_until_ms: int) -> None:
        self.origin = origin
        self.record = record
        """None for one that could not be deserialized."""
        self.locked_until_ms = locked_until_ms
        self.ack: Ack | None = None


_Key = tuple[str, int, int]
"""Topic, partition, offset."""


class HeldRecords:
    """The locked records of one consumer."""

    __slots__ = ("_arrived", "_delivered", "_renewals", "_renewing")

    def __init__(self) -> None:
        self._arrived: dict[_Key, _Entry] = {}
        self._delivered: dict[_Key, _Entry] = {}
        self._renewing: dict[_Key, _Entry] = {}
        self._renewals: deque[tuple[_Key, int | None]] = deque()
        """Answers to renewals, which come at any time: they are noted here until a call of the application looks."""

    def __len__(self) -> int:
        """The records that the application has to acknowledge, or whose acknowledgement was not taken yet."""
        return len(self._delivered)

    # In.

    def arrive(self, origin: Origin, records: Iterable[ShareRecord[Any, Any]], locked_until_ms: int) -> None:
        """Records were locked; `deliver` hands them out. One that comes again replaces what is left of it."""
        for record in records:
            key = record[:3]
            self._delivered.pop(key, None)
            self._renewing.pop(key, None)
            self._arrived[key] = _Entry(origin, record, locked_until_ms)

    def fail(self, origin: Origin, offset: int, locked_until_ms: int) -> None:
        """A record cannot be deserialized: it is released, unless the application acknowledges it otherwise."""
        entry = _Entry(origin, None, locked_until_ms)
        entry.ack = RELEASED
        self._delivered[*origin.where, offset] = entry

    def arrived(self) -> int:
        """How many records wait to be delivered."""
        return len(self._arrived)

    # Out.

    def deliver(self, now_ms: int, limit: int) -> list[ShareRecord[Any, Any]]:
        """Up to `limit` records for the application. Those whose lock has ended belong to others by now."""
        found: list[ShareRecord[Any, Any]] = []
        self._note_renewals()
        while self._arrived and len(found) < limit:
            key = next(iter(self._arrived))
            entry = self._arrived.pop(key)
            if entry.locked_until_ms > now_ms and entry.record is not None:
                self._delivered[key] = entry
                found.append(entry.record)
        return found

    def put_back(self, records: Iterable[ShareRecord[Any, Any]]) -> None:
        """The application did not get these after all; they are the first to be delivered next time."""
        back: dict[_Key, _Entry] = {}
        for record in records:
            entry = self._delivered.pop(record[:3], None)
            if entry is not None:
                entry.ack = None
                back[record[:3]] = entry
        self._arrived = back | self._arrived

    # Acknowledgements.

    def acknowledge(self, topic: str, partition: int, offset: int, ack: Ack) -> None:
        """Note how a delivered record is acknowledged; the last call counts."""
        entry = self._delivered.get((topic, partition, offset))
        if entry is None:
            raise IllegalState(
                f"offset {offset} of {TopicPartition(topic, partition)} cannot be acknowledged: it was not delivered "
                "by the last poll, or was acknowledged before"
            )
        entry.ack = ack

    def is_delivered(self, record: ShareRecord[Any, Any]) -> bool:
        """Whether the record can still be acknowledged."""
        return record[:3] in self._delivered

    def accept_others(self) -> None:
        """Accept what was delivered and not acknowledged."""
        for entry in self._delivered.values():
            if entry.ack is None:
                entry.ack = ACCEPTED

    def unacknowledged(self) -> int:
        """How many delivered records have no acknowledgement."""
        return sum(entry.ack is None for entry in self._delivered.values())

    def take(self) -> Acks:
        """The acknowledgements, to be sent. What is to be renewed comes back with `renewed`."""
        taken: Acks = {}
        for key, entry in list(self._delivered.items()):
            if entry.ack is None:
                continue
            taken.setdefault(entry.origin, {})[key[2]] = entry.ack
            del self._delivered[key]
            if entry.ack.kind == AcknowledgeType.RENEW:
                entry.ack = None
                self._renewing[key] = entry
        return taken

    def renewed(self, origin: Origin, offset: int, locked_until_ms: int | None) -> None:
        """A lock was renewed until that time; None: it was not, and the record is not ours any more."""
        self._renewals.append(((*origin.where, offset), locked_until_ms))

    def _note_renewals(self) -> None:
        while self._renewals:
            key, locked_until_ms = self._renewals.popleft()
            entry = self._renewing.pop(key, None)
            if entry is not None and locked_until_ms is not None:
                entry.locked_until_ms = locked_until_ms
                self._arrived[key] = entry

    def clear(self) -> None:
        """The sessions have ended, and all locks with them."""
        self._arrived.clear()
        self._delivered.clear()
        self._renewing.clear()
