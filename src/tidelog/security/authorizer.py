"""Decides what a principal may do: the rules of Kafka's AclAuthorizer.

A super user may do everything. A resource that no entry names is open only with `allow.everyone.if.no.acl.found`.
Otherwise an entry that denies goes before every entry that allows, and what no entry allows is denied. READ, WRITE,
DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.

Decisions are remembered until an entry changes, so a repeated question costs one look into a dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from tidelog.security.acls import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

_IMPLYING: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset(
        (
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.ALL,
        )
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL)
    ),
}
_DECISIONS_MAX: Final = 20_000
"""Decisions remembered. A client that asks about ever more names makes the authorizer start over."""
_REMEMBERED_LENGTH_MAX: Final = 249
"""Of the name in a decision that is remembered: as long as a topic's may be. On the wire it may have 32,767 bytes."""

Decision = tuple[str, str, AclOperation, AclResourceType, str]


class AclAuthorizer:
    """The entries of one cluster, and decisions by them."""

    def __init__(self, super_users: Collection[str] = (), *, allows_unlisted: bool = False) -> None:
        """`super_users` are principals; `allows_unlisted` opens resources that no entry names."""
        self._super_users = frozenset(super_users)
        self._allows_unlisted = allows_unlisted
        self._entries: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}
        self._prefix_lengths: dict[AclResourceType, Counter[int]] = {}
        """How many prefixes of each length there are, so that a change costs the same however many there are."""
        self.version = 0
        """Grows with each change of entries."""
        self._decisions: dict[Decision, bool] = {}
        self._decisions_by_type: dict[tuple[str, str, AclOperation, AclResourceType], bool] = {}

    def replace(self, resource: ResourcePattern, entries: Iterable[AccessControlEntry]) -> None:
        """These are the entries of a resource from now on; none remove it."""
        entries = tuple(entries)
        if resource.pattern is PatternType.PREFIXED and bool(entries) != (resource in self._entries):
            lengths = self._prefix_lengths.setdefault(resource.type, Counter())
            lengths[len(resource.name)] += 1 if entries else -1
            if not lengths[len(resource.name)]:
                del lengths[len(resource.name)]
        if entries:
            self._entries[resource] = entries
        else:
            self._entries.pop(resource, None)
        self._decisions.clear()
        self._decisions_by_type.clear()
        self.version += 1

    def resources(self) -> list[ResourcePattern]:
        return list(self._entries)

    def find(self, wanted: AclBindingFilter) -> Iterator[AclBinding]:
        """The bindings that a filter matches, in a stable order. Entries may change between two of them."""
        for resource in sorted(filter(wanted.matches_resource, self._entries)):
            for entry in self._entries.get(resource, ()):
                if wanted.matches_entry(entry):
                    yield AclBinding(resource, entry)

    def is_allowed(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(*key)
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            if len(name) <= _REMEMBERED_LENGTH_MAX:
                self._decisions[key] = decision
        return decision

    def is_allowed_on_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether there is, or could be, a resource of a type on which the principal may do something."""
        key = (principal, host, operation, resource_type)
        decision = self._decisions_by_type.get(key)
        if decision is None:
            if len(self._decisions_by_type) >= _DECISIONS_MAX:
                self._decisions_by_type.clear()
            decision = self._decisions_by_type[key] = self._decide_on_any(*key)
        return decision

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        lists = self._entries_for(resource_type, name)
        if not lists:
            return self._allows_unlisted
        applying = [entry for entry in chain.from_iterable(lists) if entry.applies(principal, host)]
        denied = (operation, AclOperation.ALL)
        if any(entry.permission is AclPermissionType.DENY and entry.operation in denied for entry in applying):
            return False
        allowed = _IMPLYING.get(operation, denied)
        return any(entry.permission is AclPermissionType.ALLOW and entry.operation in allowed for entry in applying)

    def _entries_for(self, resource_type: AclResourceType, name: str) -> list[tuple[AccessControlEntry, ...]]:
        """Of every pattern that applies to a resource."""
        candidates = [
            ResourcePattern(resource_type, name),
            ResourcePattern(resource_type, WILDCARD),
            *(
                ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
                for length in self._prefix_lengths.get(resource_type, ())
                if length <= len(name)
            ),
        ]
        return [entries for each in candidates if (entries := self._entries.get(each))]

    def _decide_on_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        if principal in self._super_users:
            return True
        denied = set(self._patterns(principal, host, operation, resource_type, AclPermissionType.DENY))
        if (WILDCARD, PatternType.LITERAL) in denied:
            return False
        if self._allows_unlisted:
            return True
        return any(
            allowed == (WILDCARD, PatternType.LITERAL) or not _is_dominated(allowed, denied)
            for allowed in self._patterns(principal, host, operation, resource_type, AclPermissionType.ALLOW)
        )

    def _patterns(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        permission: AclPermissionType,
    ) -> Iterator[tuple[str, PatternType]]:
        """The patterns of a type with an entry for a principal, host and operation."""
        for resource, entries in self._entries.items():
            if resource.type is resource_type and any(
                entry.permission is permission
                and entry.operation in (operation, AclOperation.ALL)
                and entry.applies(principal, host)
                for entry in entries
            ):
                yield resource.name, resource.pattern


def _is_dominated(allowed: tuple[str, PatternType], denied: Collection[tuple[str, PatternType]]) -> bool:
    """Whether a denied pattern covers everything that an allowed one does."""
    name, pattern = allowed
    if pattern is PatternType.LITERAL and allowed in denied:
        return True
    return any((name[:length], PatternType.PREFIXED) in denied for length in range(len(name) + 1))
