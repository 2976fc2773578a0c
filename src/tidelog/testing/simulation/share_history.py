"""What the members of a share group saw, and what may not be in it.

No record is locked by two members at once. None is delivered after an accept that was confirmed, before the delay of
its release is over, or more often than the limit allows. In the end each was accepted or has a dead letter. A leader
that was replaced and does not know it yet may hand out anything.

Times are of the simulated world. A lock begins when it is handed out, between the request and its response; what is
asked of it is what is sure to hold in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset."""


class Exchange(NamedTuple):
    """One request of a member and its response."""

    session: object
    """It lives as long as the member's locks."""
    source: Hashable | None
    """The leader's own state of the partition, the same at both times; None for a leader that was replaced."""
    sent_at: float
    received_at: float


@dataclass(eq=False)
class _Lock:
    session: object
    source: Hashable | None
    until: float


@dataclass
class ShareHistory:
    """The members of one group."""

    lock_seconds: float
    delivery_count_limit: int
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _locks: dict[Place, _Lock] = field(default_factory=dict)
    _accept_sent: Counter[Place] = field(default_factory=Counter)
    """Accepts that took effect, or may have."""
    _failed: set[Place] = field(default_factory=set)
    """What was rejected, or delivered for the last time."""
    _confirmed: dict[Place, float] = field(default_factory=dict)
    _not_before: dict[Place, tuple[Hashable, float]] = field(default_factory=dict)
    _suspicions: dict[object, list[str]] = field(default_factory=dict)
    """Of a session that may have ended without its member's knowing: then its locks had ended, too."""

    def delivered(self, place: Place, count: int, exchange: Exchange) -> None:
        """A member has got a record, and with it the lock."""
        self.counts["share deliveries"] += 1
        if not 1 <= count <= self.delivery_count_limit:
            self.violations.append(f"delivered too often: {place} for the {count}th time")
        if count == self.delivery_count_limit:
            self._failed.add(place)
        if count > 1:
            self.counts["share redeliveries"] += 1
        if exchange.source is not None:
            self._check(place, exchange)
        self._not_before.pop(place, None)
        self._locks[place] = _Lock(exchange.session, exchange.source, exchange.sent_at + self.lock_seconds)

    def _check(self, place: Place, exchange: Exchange) -> None:
        confirmed = self._confirmed.get(place)
        if confirmed is not None and exchange.sent_at > confirmed:
            self.violations.append(f"delivered after a confirmed accept: {place}")
        lock = self._locks.get(place)
        if lock is not None and lock.source == exchange.source and exchange.received_at < lock.until:
            text = f"locked twice at once: {place}"
            if lock.session is exchange.session:
                self.violations.append(text)
            else:
                self._suspicions.setdefault(lock.session, []).append(text)
        source, begins = self._not_before.get(place, (None, 0.0))
        if source == exchange.source and exchange.received_at < begins:
            self.violations.append(f"delivered before its delay was over: {place}")

    def acknowledging(self, places: Collection[Place], *, accepts: bool, rejects: bool) -> None:
        """A member sends an acknowledgement: from now on the lock may have ended."""
        for place in places:
            self._locks.pop(place, None)
        if accepts:
            self._accept_sent.update(places)
        if rejects:
            self._failed.update(places)

    def refused(self, places: Collection[Place]) -> None:
        """An accept that was sent has certainly no effect."""
        self._accept_sent.subtract(places)

    def accepted(self, places: Collection[Place], now: float) -> None:
        """The accept was confirmed."""
        for place in places:
            self._confirmed.setdefault(place, now)
        self.counts["share accepts confirmed"] += len(places)

    def released(self, places: Collection[Place], delay_seconds: float, exchange: Exchange) -> None:
        """The release was confirmed, and the records wait."""
        self.counts["share releases confirmed"] += len(places)
        if delay_seconds > 0 and exchange.source is not None:
            for place in places:
                if place not in self._locks:
                    self._not_before[place] = exchange.source, exchange.sent_at + delay_seconds

    def is_alive(self, session: object) -> None:
        """The broker knows the session still: whatever it had locked was its own until now."""
        self.violations += self._suspicions.pop(session, ())

    def is_lost(self, session: object) -> None:
        """The session has ended, at some time since its last response."""
        self._suspicions.pop(session, None)
        self._locks = {place: lock for place, lock in self._locks.items() if lock.session is not session}

    def anomalies(self, written: Mapping[Place, bytes], letters: Collection[Place]) -> Iterator[str]:
        """What is wrong at the end, when the group has come to the end of what was `written`."""
        yield from self.violations
        dead = set(letters)
        for place, value in written.items():
            if self._accept_sent[place] <= 0 and place not in dead:
                yield f"never delivered: {value!r} at {place} was neither accepted nor has a dead letter"
        for place in sorted(dead):
            if place in self._confirmed and place not in self._failed:
                yield f"dead letter of an accepted record: {place}"
