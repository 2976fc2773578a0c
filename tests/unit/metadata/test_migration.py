"""A tree is moved to another store whole, or is not used."""

from collections.abc import Sequence

import pytest

from tidelog.metadata import paths
from tidelog.metadata.cluster_id import generate_broker_id, get_or_create_cluster_id
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.metadata.migration import MIGRATION, Migrated, MigrationError, check_not_migrating, migrate_tree
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Create, Operation, Result, Store
from tidelog.metadata.walk import subtree
from tidelog.testing.memory_store import MemoryStore, MemoryTree

ADDRESS = "zk:2181/kafka"
OWN_NODES = ("/", "/tidelog", MIGRATION)


@pytest.fixture
def source() -> MemoryStore:
    """The tree of a broker with two topics, generated ids and notices."""
    store = MemoryStore()
    prepare_tree(store)
    get_or_create_cluster_id(store, adopt="cluster-1")
    store.create("/controller_epoch", b"7")
    for number in range(3):
        generate_broker_id(store, 1000)
        store.create("/config/changes/config_change_", b"%d" % number, sequential=True)
    for topic in ("a", "b"):
        store.multi([Create(paths.topic(topic), topic.encode()), Create(paths.partitions(topic))])
        for index in range(3):
            store.create(paths.partition(topic, index))
            store.create(paths.partition_state(topic, index), b"state %d" % index)
    return store


def contents(store: Store) -> dict[str, bytes]:
    return {path: store.get(path)[0] for path in subtree(store, "/") if path not in OWN_NODES}


def expected(source: Store) -> dict[str, bytes]:
    return {path: data for path, data in contents(source).items() if not path.startswith("/config/changes/")}


def test_everything_but_notices_is_moved(source: MemoryStore) -> None:
    target = MemoryStore()
    assert migrate_tree(source, target, ADDRESS) == Migrated("cluster-1", 2, len(expected(source)))
    assert contents(target) == expected(source)


def test_generated_broker_ids_go_on(source: MemoryStore) -> None:
    target = MemoryStore()
    migrate_tree(source, target, ADDRESS)
    assert generate_broker_id(target, 1000) == 1004


def test_the_new_tree_is_used_afterwards_and_the_old_one_is_not(source: MemoryStore) -> None:
    target = MemoryStore()
    check_not_migrating(source)
    migrate_tree(source, target, ADDRESS)
    check_not_migrating(target)
    with pytest.raises(MigrationError, match=r"set zookeeper\.connect=zk:2181/kafka"):
        check_not_migrating(source)


def test_moving_again_changes_nothing(source: MemoryStore) -> None:
    target = MemoryStore()
    migrate_tree(source, target, ADDRESS)
    target.create("/brokers/topics/made-later")
    before = contents(target)
    assert migrate_tree(source, target, ADDRESS).was_done
    assert contents(target) == before
    with pytest.raises(MigrationError, match="was moved before, to zk:2181/kafka"):
        migrate_tree(source, MemoryStore(), "other:2181")


class InterruptedStore(MemoryStore):
    """Loses its connection for good after some changes; `is_done` says whether the last of them was carried out."""

    def __init__(self, tree: MemoryTree, changes_left: int, *, is_done: bool) -> None:
        super().__init__(tree)
        self._changes_left = changes_left
        self._is_done = is_done

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if self._changes_left == 0:
            if self._is_done:
                super().multi(operations)
            raise StoreUnavailableError("interrupted")
        self._changes_left -= 1
        return super().multi(operations)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("side", ["target", "source"])
def test_interrupted_anywhere_it_is_completed_by_the_next_call(source: MemoryStore, side: str, is_done: bool) -> None:
    """And no broker starts on a tree that is not complete."""
    wanted = expected(source)
    changes = 0
    while True:
        old, new = copy_of(source), MemoryTree()
        interrupted = InterruptedStore(new if side == "target" else old, changes, is_done=is_done)
        used = (old.connect(), interrupted) if side == "target" else (interrupted, new.connect())
        try:
            migrate_tree(used[0], used[1], ADDRESS)
        except StoreUnavailableError:
            check_only_a_complete_tree_is_used(new.connect(), wanted)
            assert migrate_tree(old.connect(), new.connect(), ADDRESS).cluster_id == "cluster-1"
            assert contents(new.connect()) == wanted
            changes += 1
            continue
        break
    assert changes > (8 if side == "target" else 0), "it was interrupted in many places"


def check_only_a_complete_tree_is_used(target: Store, wanted: dict[str, bytes]) -> None:
    if contents(target) in ({}, wanted):
        return
    assert target.exists(paths.CLUSTER_ID) is None
    with pytest.raises(MigrationError, match="incomplete"):
        check_not_migrating(target)


def copy_of(source: MemoryStore) -> MemoryTree:
    tree = MemoryTree()
    store = tree.connect()
    for path in reversed(subtree(source, "/")):
        if path != "/":
            store.create(path, source.get(path)[0])
            for _ in range(source.get(path)[1].version):
                store.set(path, source.get(path)[0])
    return tree


def test_what_changed_in_the_old_tree_after_an_interruption_is_moved_too(source: MemoryStore) -> None:
    """The broker may have been started on it once more."""
    tree = MemoryTree()
    with pytest.raises(StoreUnavailableError):
        migrate_tree(source, InterruptedStore(tree, 7, is_done=True), ADDRESS)
    source.set("/brokers/topics/a", b"changed")
    for path in subtree(source, "/brokers/topics/b"):
        source.delete(path)
    source.create("/brokers/topics/c")
    target = tree.connect()
    migrate_tree(source, target, ADDRESS)
    assert contents(target) == expected(source)


def test_a_tree_that_is_in_use_is_left_alone(source: MemoryStore) -> None:
    target = MemoryStore()
    target.create("/brokers")
    with pytest.raises(MigrationError, match=r"is not empty, it has /brokers: name a new chroot"):
        migrate_tree(source, target, ADDRESS)
    assert contents(target) == {"/brokers": b""}
    check_not_migrating(source)


def test_zookeepers_own_nodes_do_not_count(source: MemoryStore) -> None:
    target = MemoryStore()
    target.multi([Create("/zookeeper"), Create("/zookeeper/quota")])
    migrate_tree(source, target, ADDRESS)
    assert contents(target) == {**expected(source), "/zookeeper": b"", "/zookeeper/quota": b""}


def test_the_unfinished_migration_of_another_cluster_is_left_alone(source: MemoryStore) -> None:
    tree = MemoryTree()
    with pytest.raises(StoreUnavailableError):
        migrate_tree(source, InterruptedStore(tree, 7, is_done=True), ADDRESS)
    other = MemoryStore()
    get_or_create_cluster_id(other, adopt="cluster-2")
    with pytest.raises(MigrationError, match="has the metadata of another cluster, cluster-1"):
        migrate_tree(other, tree.connect(), ADDRESS)


def test_a_broker_of_kafka_that_used_the_incomplete_tree_is_noticed(source: MemoryStore) -> None:
    tree = MemoryTree()
    with pytest.raises(StoreUnavailableError):
        migrate_tree(source, InterruptedStore(tree, 7, is_done=True), ADDRESS)
    get_or_create_cluster_id(tree.connect(), adopt="made-by-kafka")
    with pytest.raises(MigrationError, match="a broker was started on the ZooKeeper"):
        migrate_tree(source, tree.connect(), ADDRESS)


def test_a_tree_that_no_broker_used_is_not_moved() -> None:
    with pytest.raises(MigrationError, match="there is nothing to move"):
        migrate_tree(MemoryStore(), MemoryStore(), ADDRESS)
