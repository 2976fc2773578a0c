"""What can go wrong with the metadata tree.

    StoreError
    ├── NodeError                      the call cannot be carried out on this node; the tree is unchanged
    │   ├── NodeExistsError
    │   ├── NoNodeError
    │   ├── BadVersionError            somebody else changed the node first
    │   ├── NotEmptyError
    │   ├── NoChildrenForEphemeralsError
    │   ├── BadPathError
    │   └── MalformedNodeError         the node holds something other than what belongs there
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
    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, f"the node has version {found}, expected {expected}")
        self.expected = expected
        self.found = found


class NotEmptyError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node has children")


class NoChildrenForEphemeralsError(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "an ephemeral node cannot have children")


class BadPathError(NodeError):
    """Not a path, or the root where the root cannot be meant."""


class MalformedNodeError(NodeError):
    """The node at `path` holds something other than what belongs there."""


class SessionExpiredError(StoreError):
    """The session is over, by expiry or because the store was closed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or written to; the message says why and what to do."""


class StoreLockedError(StoreUnavailableError):
    """Another process has the store open."""


class StoreCorruptError(StoreUnavailableError):
    """The store's file is damaged."""
