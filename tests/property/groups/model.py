"""The simplest group that still defines every answer and its time: the model beside which the core is run.

It knows dynamic members with one protocol, no initial delay and a log that commits at once. It keeps everything in
plain dictionaries, looks at all of them whenever time passes, and is as slow as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SESSION_MS = 10_000
REBALANCE_MS = 30_300
NEW_MEMBER_MS = 300_000

NONE, UNKNOWN, ILLEGAL, REBALANCE, ID_REQUIRED = (
    "NONE",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    ("REBALANCE_IN_PROGRESS"),
    "MEMBER_ID_REQUIRED",
)

Events = list[tuple[object, str]]
"""Who was answered, and what: the ticket of a request and an error name."""


@dataclass
class Person:
    metadata: bytes
    silent_after: int
    joining: object | None = None
    syncing: object | None = None
    is_new: bool = True
    owes_sync: bool = False
    part: bytes = b""


@dataclass
class Model:
    """`now` is in milliseconds; `events` are the answers since they were last taken."""

    now: int = 0
    state: str = "Empty"
    generation: int = 0
    leader: str | None = None
    people: dict[str, Person] = field(default_factory=dict)
    given_out: dict[str, int] = field(default_factory=dict)
    join_until: int | None = None
    sync_until: int | None = None
    offset: int | None = None
    events: Events = field(default_factory=list)

    # --- requests; what is not answered at once is answered by an event ---

    def give_out(self, member: str) -> str:
        self.given_out[member] = self.now + SESSION_MS
        return ID_REQUIRED

    def join(self, ticket: object, member: str, metadata: bytes, is_new: bool) -> str | None:
        if is_new or member in self.given_out:
            self.given_out.pop(member, None)
            self.people[member] = Person(metadata, self.now + NEW_MEMBER_MS, joining=ticket)
            self.leader = self.leader or member
            self._rebalance()
            return None
        person = self.people.get(member)
        if person is None:
            return UNKNOWN
        is_same = person.metadata == metadata
        if is_same and (self.state == "CompletingRebalance" or (self.state == "Stable" and member != self.leader)):
            return NONE
        if person.joining is not None:
            self.events.append((person.joining, REBALANCE))
        person.metadata, person.joining = metadata, ticket
        self._rebalance()
        return None

    def sync(self, ticket: object, member: str, generation: int, parts: dict[str, bytes]) -> str | None:
        person = self.people.get(member)
        if person is None:
            return UNKNOWN
        if generation != self.generation:
            return ILLEGAL
        if self.state == "PreparingRebalance":
            return REBALANCE
        self._owes_no_sync(person)
        if self.state == "Stable":
            person.silent_after = self.now + SESSION_MS
            return NONE
        if person.syncing is not None:
            self.events.append((person.syncing, REBALANCE))
        person.syncing = ticket
        if member == self.leader:
            self.state = "Stable"
            for name, other in self.people.items():
                other.part = parts.get(name, b"")
                self._answer_sync(other, NONE)
        return None

    def heartbeat(self, member: str, generation: int) -> str:
        person = self.people.get(member)
        if person is None:
            return UNKNOWN
        if generation != self.generation:
            return ILLEGAL
        person.silent_after = self.now + SESSION_MS
        return REBALANCE if self.state == "PreparingRebalance" else NONE

    def commit(self, member: str, generation: int, offset: int) -> str:
        if generation < 0 and not member and not self.people:
            self.offset = offset
            return NONE
        person = self.people.get(member)
        if person is None:
            return UNKNOWN
        if generation != self.generation:
            return ILLEGAL
        if self.state == "CompletingRebalance":
            return REBALANCE
        person.silent_after = self.now + SESSION_MS
        self.offset = offset
        return NONE

    def leave(self, member: str) -> str:
        if member in self.given_out:
            del self.given_out[member]
            self._try_complete()
            return NONE
        if member not in self.people:
            return UNKNOWN
        self._remove(member)
        return NONE

    # --- time ---

    def advance(self, by: int) -> None:
        end = self.now + by
        while True:
            moments = [until for until in (self.join_until, self.sync_until) if until is not None]
            moments += [p.silent_after for p in self.people.values() if p.silent_after > self.now]
            moments += self.given_out.values()
            due = min((moment for moment in moments if moment <= end), default=None)
            if due is None:
                break
            self.now = due
            self._at_this_moment()
        self.now = end

    def _at_this_moment(self) -> None:
        for member in [name for name, until in self.given_out.items() if until == self.now]:
            del self.given_out[member]
            self._try_complete()
        for member, person in list(self.people.items()):
            waits = not person.is_new and (person.joining is not None or person.syncing is not None)
            if person.silent_after == self.now and member in self.people and not waits:
                self._remove(member)
        if self.join_until == self.now:
            self._complete()
        if self.sync_until == self.now:
            for member in [name for name, person in self.people.items() if person.owes_sync]:
                self._forget(member)
            self._rebalance()

    # --- rebalances ---

    def _rebalance(self) -> None:
        if self.state != "PreparingRebalance":
            if self.state == "CompletingRebalance":
                for person in self.people.values():
                    self._answer_sync(person, REBALANCE)
            self.sync_until = None
            was_empty = self.state == "Empty"
            self.state = "PreparingRebalance"
            self.join_until = self.now + max((REBALANCE_MS for _ in self.people), default=0)
            if was_empty:
                self._complete()
                return
        self._try_complete()

    def _try_complete(self) -> None:
        is_complete = all(person.joining is not None for person in self.people.values())
        if self.state == "PreparingRebalance" and not self.given_out and is_complete:
            self._complete()

    def _complete(self) -> None:
        for member in [name for name, person in self.people.items() if person.joining is None]:
            self._forget(member)
        self.join_until = None
        self.generation += 1
        if not self.people:
            self.state = "Empty"
            return
        self.state = "CompletingRebalance"
        self.sync_until = self.now + REBALANCE_MS
        for person in self.people.values():
            self.events.append((person.joining, NONE))
            person.joining, person.is_new, person.owes_sync = None, False, True
            person.silent_after = self.now + SESSION_MS

    def _remove(self, member: str) -> None:
        person = self.people[member]
        for ticket in (person.joining, person.syncing):
            if ticket is not None:
                self.events.append((ticket, UNKNOWN))
        self._forget(member)
        self._rebalance()

    def _forget(self, member: str) -> None:
        del self.people[member]
        if self.leader == member:
            self.leader = next(iter(self.people), None)

    def _answer_sync(self, person: Person, error: str) -> None:
        if person.syncing is not None:
            self.events.append((person.syncing, error))
            person.syncing = None
            person.silent_after = self.now + SESSION_MS

    def _owes_no_sync(self, person: Person) -> None:
        person.owes_sync = False
        if not any(other.owes_sync for other in self.people.values()):
            self.sync_until = None
