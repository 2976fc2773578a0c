from tidelog.metadata.cluster_id import generate_broker_id, get_or_create_cluster_id
from tidelog.metadata.uuids import random_uuid
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.wire.primitives import uuid_from_text, uuid_to_text


def test_the_first_broker_makes_the_cluster_id_and_all_others_read_it() -> None:
    tree = MemoryTree()
    cluster_id = get_or_create_cluster_id(tree.connect())
    assert len(cluster_id) == 22
    assert len(uuid_from_text(cluster_id)) == 16
    assert get_or_create_cluster_id(tree.connect()) == cluster_id


def test_a_cluster_id_made_by_kafka_is_taken_over() -> None:
    store = MemoryStore()
    store.create("/cluster")
    store.create("/cluster/id", b'{"version":"1","id":"any-text-of-an-operator"}')
    assert get_or_create_cluster_id(store) == "any-text-of-an-operator"


def test_data_that_belongs_to_a_cluster_gives_a_new_tree_its_id() -> None:
    """A data directory that Kafka wrote is taken over into an empty tree."""
    store = MemoryStore()
    assert get_or_create_cluster_id(store, adopt="WrWqSnYOQ7yAVPl2T2fYYA") == "WrWqSnYOQ7yAVPl2T2fYYA"
    assert get_or_create_cluster_id(store, adopt="another") == "WrWqSnYOQ7yAVPl2T2fYYA", "the tree's own comes first"


def test_of_two_brokers_that_start_at_once_both_take_the_id_of_the_first() -> None:
    tree = MemoryTree()
    fast = tree.connect()

    def random_bytes(count: int) -> bytes:
        if fast.exists("/cluster/id") is None:
            get_or_create_cluster_id(fast)
        return bytes(count)

    assert get_or_create_cluster_id(tree.connect(), random_bytes=random_bytes) == get_or_create_cluster_id(fast)


def test_generated_broker_ids_start_above_the_reserved_ones_and_never_repeat() -> None:
    tree = MemoryTree()
    assert [generate_broker_id(tree.connect(), 1000) for _ in range(3)] == [1001, 1002, 1003]


def test_random_uuids_are_of_version_4_and_never_look_like_an_option() -> None:
    uuids = [random_uuid() for _ in range(500)]
    assert len(set(uuids)) == 500
    assert all(uuid[6] >> 4 == 4 and uuid[8] >> 6 == 2 for uuid in uuids)
    dash_then_zeros = iter([b"\xf8" + bytes(15), bytes(16)])
    assert not uuid_to_text(random_uuid(lambda count: next(dash_then_zeros))).startswith("-")
