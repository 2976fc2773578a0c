"""Paths and subtrees as a whole: what a store does a node at a time."""

from collections.abc import Iterable

from tidelog.metadata.errors import NodeExistsError
from tidelog.metadata.store import Create, Operation, Set, Store, join_path, split_path


def ensure_paths(store: Store, wanted: Iterable[str]) -> None:
    """Make the nodes at these paths, and those above them, unless they are there. Their data stays empty."""
    missing: dict[str, None] = {}
    for path in wanted:
        lineage = []
        ancestor = path
        while ancestor != "/" and ancestor not in missing and store.exists(ancestor) is None:
            lineage.append(ancestor)
            ancestor, _ = split_path(ancestor)
        missing.update(dict.fromkeys(reversed(lineage)))
    try:
        store.multi([Create(path) for path in missing])
    except NodeExistsError:
        # Another broker is starting too. Create the nodes one at a time, and skip those that exist.
        for path in missing:
            create_if_missing(store, path)


def create_if_missing(store: Store, path: str, data: bytes = b"") -> bool:
    """Make a node. False when it is there already, with whatever data."""
    try:
        store.create(path, data)
    except NodeExistsError:
        return False
    return True


def subtree(store: Store, path: str) -> list[str]:
    """A node and everything below it, children before their parents: the order in which they can be deleted.

    Read a level at a time, so that the depth of the tree and not its size is what a remote store costs.
    """
    found: list[str] = []
    level = [path]
    while level:
        names = store.children_many(level)
        present = [(node, below) for node, below in zip(level, names, strict=True) if below is not None]
        found += [node for node, _ in present]
        level = [join_path(node, name) for node, below in present for name in below]
    found.reverse()
    return found


def create_or_set(store: Store, path: str, data: bytes) -> Operation:
    """The operation that leaves `data` in the node at `path`, as the tree is now."""
    stat = store.exists(path)
    return Create(path, data) if stat is None else Set(path, data, stat.version)
