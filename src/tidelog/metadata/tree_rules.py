"""ZooKeeper's rules for changes of a tree, for every store that keeps the nodes itself. Does no I/O.

A store says how nodes are found and changed (`Nodes`); which change is allowed, what it returns and which watches it
triggers is decided here. The tree on disk and the tree that the simulator shares between its brokers so follow the same
rules, and not two copies of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from tidelog.metadata.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    EventKind,
    Operation,
    Outcome,
    Result,
    Set,
    Stat,
    WatchEvent,
    join_path,
    split_path,
)
from tidelog.metadata.submission import none_if_missing, submit_each
from tidelog.metadata.watches import events_of_create, events_of_delete


class Nodes(Protocol):
    """The nodes of a tree. A parent's numbers of children follow what is inserted and removed."""

    def find(self, path: str) -> Stat | None:
        """The state of a node; None if there is none."""

    def insert(self, parent: str, name: str, data: bytes, owner: int) -> bool:
        """Add a node under an existing one; False if it is there already."""

    def replace(self, path: str, data: bytes) -> None:
        """Give an existing node other data, and the next version."""

    def remove(self, parent: str, name: str) -> None:
        """Remove an existing node."""


def created_children(stat: Stat) -> int:
    """How many children a node was ever given: the number of its next sequential one."""
    return (stat.cversion + stat.num_children) // 2


class TreeChange:
    """The operations of one transaction. One that is refused raises a NodeError; the caller takes back the others."""

    def __init__(self, nodes: Nodes, session_id: int) -> None:
        self._nodes = nodes
        self._session_id = session_id
        self.events: list[WatchEvent] = []
        """The events for watches, in order."""

    def apply(self, operation: Operation) -> Result:
        """Carry out one operation."""
        if isinstance(operation, Create):
            return self._create(operation)
        if isinstance(operation, Set):
            return self._set(operation)
        if isinstance(operation, Delete):
            self._delete(operation)
        else:
            self._checked(operation)
        return None

    def _create(self, operation: Create) -> str:
        parent, name = split_path(operation.path, sequential=operation.sequential)
        if not parent:
            raise NodeExistsError("/")
        found = self._nodes.find(parent)
        if found is None:
            raise NoNodeError(parent)
        if found.ephemeral_owner:
            raise NoChildrenForEphemeralsError(parent)
        if operation.sequential:
            name += f"{created_children(found):010d}"
        path = join_path(parent, name)
        if not self._nodes.insert(parent, name, operation.data, self._session_id if operation.ephemeral else 0):
            raise NodeExistsError(path)
        self.events += events_of_create(path, parent)
        return path

    def _set(self, operation: Set) -> Stat:
        self._checked(operation)
        self._nodes.replace(operation.path, operation.data)
        self.events.append(WatchEvent(EventKind.CHANGED, operation.path))
        changed = self._nodes.find(operation.path)
        assert changed is not None, f"{operation.path} was changed and must be there"
        return changed

    def _delete(self, operation: Delete) -> None:
        found = self._checked(operation)
        parent, name = split_path(operation.path)
        if not parent:
            raise BadPathError("/", "the root cannot be deleted")
        if found.num_children:
            raise NotEmptyError(operation.path)
        self._nodes.remove(parent, name)
        self.events += events_of_delete(operation.path, parent)

    def _checked(self, operation: Set | Delete | Check) -> Stat:
        split_path(operation.path)
        found = self._nodes.find(operation.path)
        if found is None:
            raise NoNodeError(operation.path)
        if operation.expected_version not in (ANY_VERSION, found.version):
            raise BadVersionError(operation.path, operation.expected_version, found.version)
        return found


class MultiCalls(ABC):
    """Methods of a `Store` that follow from others: changes of one node, and many calls at once."""

    @abstractmethod
    def multi(self, operations: Sequence[Operation]) -> list[Result]: ...

    @abstractmethod
    def children(self, path: str) -> list[str]: ...

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        (created,) = self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str)
        return created

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        (stat,) = self.multi([Set(path, data, expected_version)])
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, expected_version)])

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return [none_if_missing(self.children, path) for path in paths]

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        return submit_each(self.multi, operations, fence)
