import pytest

from tidelog.metadata.adoption import KEEP_EVERYTHING, AdoptionState, is_unsettled, read_adoption, write_adoption
from tidelog.metadata.errors import MalformedNodeError
from tidelog.testing.memory_store import MemoryStore


def test_a_tree_without_the_node_has_adopted_nothing() -> None:
    assert read_adoption(MemoryStore()) == AdoptionState()


def test_what_is_written_is_read() -> None:
    store = MemoryStore()
    state = AdoptionState(("clicks", "orders"), are_producer_ids_checked=True, wants_orphans=True)
    write_adoption(store, state)
    assert read_adoption(store) == state
    write_adoption(store, AdoptionState())
    assert read_adoption(store) == AdoptionState()


def test_a_damaged_node_is_named() -> None:
    store = MemoryStore()
    write_adoption(store, AdoptionState())
    store.set("/tidelog/adoption", b"rubbish")
    with pytest.raises(MalformedNodeError, match="/tidelog/adoption"):
        read_adoption(store)


def test_a_topic_is_settled_once_one_of_the_three_settings_changes() -> None:
    assert is_unsettled({**KEEP_EVERYTHING, "segment.bytes": "1000"})
    assert not is_unsettled({**KEEP_EVERYTHING, "retention.ms": "1000"})
    assert not is_unsettled({"retention.ms": "-1"})
