import pytest

from tests.unit.metadata.repeating_store import RepeatingStore
from tidelog.metadata.paths import PERSISTENT_ROOTS
from tidelog.metadata.registration import (
    BrokerIdTakenError,
    Controllership,
    elect_controller,
    prepare_tree,
    register_broker,
)
from tidelog.metadata.tree import BrokerRegistration, Endpoint, decode_broker
from tidelog.testing.memory_store import MemoryTree


def registration(broker_id: int, port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "localhost", port),))


def test_the_roots_are_made_once_and_then_left_alone() -> None:
    store = MemoryTree().connect()
    prepare_tree(store)
    assert all(store.exists(path) for path in PERSISTENT_ROOTS)
    before = store.get("/")[1]
    prepare_tree(store)
    assert store.get("/")[1] == before


def test_a_registration_lives_as_long_as_its_session_and_each_life_has_a_higher_epoch() -> None:
    tree = MemoryTree()
    first = tree.connect()
    prepare_tree(first)
    epoch = register_broker(first, registration(1))
    assert decode_broker(1, first.get("/brokers/ids/1")[0]) == registration(1)
    first.close()
    second = tree.connect()
    assert second.children("/brokers/ids") == []
    assert register_broker(second, registration(1)) > epoch


def test_an_id_that_another_broker_uses_is_refused() -> None:
    tree = MemoryTree()
    store = tree.connect()
    prepare_tree(store)
    register_broker(store, registration(1))
    with pytest.raises(BrokerIdTakenError, match=r"broker\.id 1 is taken"):
        register_broker(tree.connect(), registration(1))


def test_registering_again_in_the_same_session_updates_the_registration() -> None:
    store = MemoryTree().connect()
    prepare_tree(store)
    epoch = register_broker(store, registration(1))
    assert register_broker(store, registration(1, port=9999)) == epoch
    assert decode_broker(1, store.get("/brokers/ids/1")[0]) == registration(1, port=9999)


def test_the_first_broker_becomes_controller_and_the_others_learn_who_is() -> None:
    tree = MemoryTree()
    first, second = tree.connect(), tree.connect()
    assert elect_controller(first, 1, 0) == Controllership(1, 1)
    assert elect_controller(second, 2, 0) == Controllership(1, 1)
    assert elect_controller(first, 1, 0) == Controllership(1, 1)


def test_a_new_controller_has_a_new_epoch() -> None:
    tree = MemoryTree()
    first, second = tree.connect(), tree.connect()
    elect_controller(first, 1, 0)
    first.expire()
    assert elect_controller(second, 2, 0) == Controllership(2, 2)
    assert second.get("/controller_epoch")[0] == b"2"


def test_two_that_run_for_controller_at_once_get_one_between_them() -> None:
    tree = MemoryTree()
    rival = tree.connect()

    class Racing(type(rival)):  # type: ignore[misc]
        def get(self, path, watch=None):  # type: ignore[no-untyped-def]
            found = super().get(path, watch)
            if path == "/controller_epoch" and found[0] == b"0":
                elect_controller(rival, 2, 0)
            return found

    assert elect_controller(Racing(tree), 1, 0) == Controllership(2, 1)


def test_a_node_of_our_own_session_before_is_replaced() -> None:
    """ZooKeeper may be late to remove it, and has been seen to forget it."""
    tree = MemoryTree()
    before, store = tree.connect(), tree.connect()
    prepare_tree(store)
    epoch = register_broker(before, registration(1))
    assert register_broker(store, registration(1), previous_session_id=before.session_id) > epoch
    assert store.get("/brokers/ids/1")[1].ephemeral_owner == store.session_id


def test_a_registration_whose_reply_was_lost_is_found_to_be_ours() -> None:
    tree = MemoryTree()
    store = RepeatingStore(tree)
    prepare_tree(store)
    epoch = register_broker(store, registration(1))
    assert store.get("/brokers/ids/1")[1].czxid == epoch
    assert decode_broker(1, store.get("/brokers/ids/1")[0]) == registration(1)


def test_an_election_whose_reply_was_lost_is_found_to_be_won() -> None:
    assert elect_controller(RepeatingStore(MemoryTree()), 1, 0) == Controllership(1, 1)
