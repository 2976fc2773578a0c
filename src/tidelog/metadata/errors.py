"""What can go wrong with the metadata tree.

    StoreError
    ├── NodeError                      the call cannot be carried out on this node; the tree is unchanged
    │   ├── NodeExistsError
    │   ├── NoNodeError
    │   ├── BadVersionError            another session changed the node first
    │   ├── NotEmptyError
    │   ├── NoChildrenForEphemeralsError
    │   ├── BadPathError
    │   └── MalformedNodeError         the node holds something other than what belongs there
    ├── ControllerMovedError           a fenced change was refused: there is a newer controller
    ├── RequestTooLargeError           a `multi` exceeds what the store takes in one request; nothing was changed
    ├── SessionExpiredError            the session is over, and its ephemeral nodes with it; open a new one
    └── StoreUnavailableError          the store cannot be reached or written to
        ├── StoreLockedError           another process has it
        └── StoreCorruptError          its file is damaged

Every store raises these and nothing else; what its library raises is translated where it enters.
"""


class StoreError(Exception):
    """Anything that can go wrong with the metadata tree."""


class NodeError(StoreError):
    """The call cannot be carried out on the node at `path`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class NodeExistsError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node exists already")


class NoNodeError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "no such node")


class BadVersionError(NodeError):
    """`found` is None where the store does not say which version the node has."""

    def __init__(self, path: str, expected: int, found: int | None = None) -> None:
        has = "another version" if found is None else f"version {found}"
        super().__init__(path, f"the node has {has}, expected {expected}")
        self.expected = expected
        self.found = found


class NotEmptyError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node has children")


class NoChildrenForEphemeralsError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "an ephemeral node cannot have children")


class BadPathError(NodeError):
    """Not a valid path, or the root where an operation excludes the root."""


class MalformedNodeError(NodeError):
    """The node at `path` holds something other than what belongs there."""


class ControllerMovedError(StoreError):
    """The controller epoch is not the one that this controller was elected with: another one has taken over."""


class RequestTooLargeError(StoreError):
    """An atomic change does not fit into one request; the message says how large it is and what the limit is."""


class SessionExpiredError(StoreError):
    """The session is over, by expiry or because the store was closed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or written to; the message says why and what to do."""


class StoreClientFailedError(StoreUnavailableError):
    """The client of a remote store does not work, and a new one does not either: only a new process may help."""


class StoreLockedError(StoreUnavailableError):
    """Another process has the store open."""


class StoreCorruptError(StoreUnavailableError):
    """The store's file is damaged."""
