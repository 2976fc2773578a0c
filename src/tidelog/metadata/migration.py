"""The tree of a stopped broker, moved from its data directory to a ZooKeeper: all of it, or nothing in effect.

A node of our own, `/tidelog/migration`, says how far it is. In the new tree it says "copying" until everything is there
and was read back; a broker does not start on such a tree, and migrating again goes on where it was interrupted. In the
old tree it then says "moved", and a broker does not start on that either: there is one tree at any time. The id of the
cluster comes last, in the same transaction that ends the copying, so that a broker of Apache Kafka, which does not know
our node, finds a tree without an id and not the directory's cluster.
"""

from typing import Any, Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata._json import Document, encode_json
from tidelog.metadata.cluster_id import get_cluster_id
from tidelog.metadata.errors import NoNodeError, StoreError
from tidelog.metadata.store import Create, Delete, Operation, Set, Store, split_path
from tidelog.metadata.walk import ensure_paths, subtree

MIGRATION: Final = "/tidelog/migration"
_COPYING, _DONE, _MOVED = "copying", "done", "moved"
_NOTICES: Final = (paths.CONFIG_CHANGES, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS)
"""Their children notify running brokers of changes. A starting broker needs none of them, and a new tree numbers new
children from 0, which would sort them before the old ones."""


class MigrationError(StoreError):
    """The tree cannot be moved, or cannot be used because it is being moved; the message says what to do."""


class Migrated(NamedTuple):
    """The nodes that were moved. `was_done`: an earlier call had already moved them."""

    cluster_id: str
    topics: int
    nodes: int
    was_done: bool = False


def migrate_tree(source: Store, target: Store, address: str) -> Migrated:
    """Move the tree of a stopped broker to an empty one at `address`, or go on with that.

    No broker may use either tree meanwhile.
    """
    cluster_id = get_cluster_id(source)
    if cluster_id is None:
        raise MigrationError("there is nothing to move: the metadata has no cluster id, so no broker has used it")
    moved = _read(source)
    if moved.get("state") == _MOVED and moved["address"] != address:
        raise MigrationError(f"the metadata was moved before, to {moved['address']}")
    nodes = _nodes_to_move(source)
    topics = len(source.children(paths.TOPICS)) if paths.TOPICS in nodes else 0
    was_done = _begin(target, cluster_id, address)
    if not was_done:
        _copy(source, target, nodes)
        _verify(target, nodes, address)
        ensure_paths(target, [split_path(paths.CLUSTER_ID)[0]])
        target.multi([Create(paths.CLUSTER_ID, nodes[paths.CLUSTER_ID]), Set(MIGRATION, _state(_DONE, cluster_id))])
    _write(source, _state(_MOVED, cluster_id, address))
    return Migrated(cluster_id, topics, len(nodes), was_done)


def check_not_migrating(store: Store) -> None:
    """Raise `MigrationError` if this tree is not to be used: it is being filled, or was moved elsewhere."""
    migration = _read(store)
    if migration.get("state") == _COPYING:
        raise MigrationError(
            "the metadata in this ZooKeeper is incomplete: `tidelog cluster migrate` was interrupted; run it again"
        )
    if migration.get("state") == _MOVED:
        raise MigrationError(
            f"the metadata of this broker was moved to a ZooKeeper: set zookeeper.connect={migration['address']}"
        )


def _begin(target: Store, cluster_id: str, address: str) -> bool:
    """Claim the new tree for this migration. True if that has been finished before."""
    state = _read(target)
    if not state:
        occupied = [name for name in target.children("/") if name != "zookeeper"]
        if occupied:
            raise MigrationError(
                f"the ZooKeeper at {address} is not empty, it has /{occupied[0]}: name a new chroot,  "
                "as in host:port/kafka"
            )
        _write(target, _state(_COPYING, cluster_id))
        return False
    if state["cluster_id"] != cluster_id:
        raise MigrationError(f"the ZooKeeper at {address} has the metadata of another cluster, {state['cluster_id']}")
    if state["state"] == _COPYING and target.exists(paths.CLUSTER_ID) is not None:
        raise MigrationError(
            f"a broker was started on the ZooKeeper at {address} before it was complete: remove what is there "
            "and migrate again"
        )
    return bool(state["state"] == _DONE)


def _nodes_to_move(source: Store) -> dict[str, bytes]:
    """Paths and data, parents first. Ephemeral nodes are not among them: the broker is stopped."""
    found = [path for path in reversed(subtree(source, "/")) if path not in ("/", MIGRATION)]
    wanted = [path for path in found if split_path(path)[0] not in _NOTICES]
    nodes = zip(wanted, source.get_many(wanted), strict=True)
    return {path: node[0] for path, node in nodes if node is not None and not node[1].ephemeral_owner}


def _copy(source: Store, target: Store, nodes: dict[str, bytes]) -> None:
    """Make the new tree equal to the old one, whatever an interrupted call has left there."""
    present = [path for path in subtree(target, "/") if path not in ("/", MIGRATION) and not _is_zookeepers(path)]
    _submit_by_depth(target, [Delete(path) for path in present if path not in nodes and path != "/tidelog"], -1)
    there = dict(zip(present, target.get_many(present), strict=True))
    missing = [path for path in nodes if there.get(path) is None and path != paths.CLUSTER_ID]
    _submit_by_depth(target, [Create(path, nodes[path]) for path in missing], 1)
    changed = [path for path, node in there.items() if node is not None and nodes.get(path, node[0]) != node[0]]
    _submit_by_depth(target, [Set(path, nodes[path]) for path in changed], 1)
    _raise_sequence(source, target)


def _raise_sequence(source: Store, target: Store) -> None:
    """Ids that are generated for brokers are the versions of this node, and must not be generated again."""
    last = source.exists(paths.BROKER_SEQUENCE)
    if last is not None:
        stat = target.exists(paths.BROKER_SEQUENCE)
        version = 0 if stat is None else stat.version
        data = source.get(paths.BROKER_SEQUENCE)[0]
        while version < last.version:
            version = target.set(paths.BROKER_SEQUENCE, data).version


def _submit_by_depth(target: Store, operations: list[Operation], direction: int) -> None:
    """Carry out operations level by level, from the root (1) or towards it (-1), and raise what one of them raises."""
    levels: dict[int, list[Operation]] = {}
    for operation in operations:
        levels.setdefault(operation.path.count("/"), []).append(operation)
    for depth in sorted(levels, key=lambda depth: depth * direction):
        for outcome in target.submit_all(levels[depth]):
            if isinstance(outcome, StoreError):
                raise outcome


def _verify(target: Store, nodes: dict[str, bytes], address: str) -> None:
    wanted = {path: data for path, data in nodes.items() if path != paths.CLUSTER_ID}
    for path, node in zip(wanted, target.get_many(list(wanted)), strict=True):
        if node is None or node[0] != wanted[path]:
            raise MigrationError(f"{path} in the ZooKeeper at {address} is not what was written: does a broker use it?")
    extra = [
        path
        for path in subtree(target, "/")
        if path not in nodes and path not in ("/", "/tidelog", MIGRATION) and not _is_zookeepers(path)
    ]
    if extra:
        raise MigrationError(f"{extra[0]} in the ZooKeeper at {address} was not written by us: does a broker use it?")


def _is_zookeepers(path: str) -> bool:
    """Nodes of ZooKeeper itself, which are in its root."""
    return path == "/zookeeper" or path.startswith("/zookeeper/")


def _state(state: str, cluster_id: str, address: str = "") -> bytes:
    return encode_json({"version": 1, "state": state, "cluster_id": cluster_id, "address": address})


def _read(store: Store) -> dict[str, Any]:
    try:
        document = Document(MIGRATION, store.get(MIGRATION)[0])
    except NoNodeError:
        return {}
    return {name: document.required(name, str) for name in ("state", "cluster_id", "address")}


def _write(store: Store, data: bytes) -> None:
    parent, _ = split_path(MIGRATION)
    if store.exists(MIGRATION) is not None:
        store.set(MIGRATION, data)
    elif store.exists(parent) is not None:
        store.create(MIGRATION, data)
    else:
        # Together: a tree with the parent alone would no longer count as empty.
        store.multi([Create(parent), Create(MIGRATION, data)])
