import pytest

from tidelog.metadata.errors import MalformedNodeError
from tidelog.metadata.memory import MemoryStore, MemoryTree
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.wire.errors import ApiError


def test_ids_come_in_blocks_of_a_thousand_from_zero() -> None:
    store = MemoryStore()
    allocator = ProducerIdAllocator(store, broker_id=3)
    assert [allocator.next_id() for _ in range(1000)] == list(range(1000))
    assert store.get("/latest_producer_id_block")[0] == (
        b'{"version":1,"broker":3,"block_start":"0","block_end":"999"}'
    )
    assert allocator.next_id() == 1000


def test_a_block_is_taken_only_when_an_id_is_asked_for() -> None:
    store = MemoryStore()
    ProducerIdAllocator(store, 0)
    assert store.exists("/latest_producer_id_block") is None


def test_after_a_restart_ids_go_on_with_a_new_block() -> None:
    store = MemoryStore()
    assert ProducerIdAllocator(store, 0).next_id() == 0
    assert ProducerIdAllocator(store, 0).next_id() == 1000


def test_brokers_never_give_out_the_same_id() -> None:
    tree = MemoryTree()
    allocators = [ProducerIdAllocator(tree.connect(), broker_id) for broker_id in range(3)]
    ids = [allocator.next_id() for _ in range(1500) for allocator in allocators]
    assert len(set(ids)) == len(ids)


def test_a_block_that_another_broker_takes_first_is_left_to_it() -> None:
    tree = MemoryTree()
    other = ProducerIdAllocator(tree.connect(), 9)

    class Racing(MemoryStore):
        def get(self, path, watch=None):  # type: ignore[no-untyped-def]
            found = super().get(path, watch)
            if not found[0]:
                assert other.next_id() == 0
            return found

    assert ProducerIdAllocator(Racing(tree), 0).next_id() == 1000


def test_ids_end_rather_than_wrap() -> None:
    store = MemoryStore()
    store.create(
        "/latest_producer_id_block", b'{"version":1,"broker":0,"block_start":"0","block_end":"9223372036854775000"}'
    )
    with pytest.raises(ApiError, match="no producer ids are left"):
        ProducerIdAllocator(store, 0).next_id()


def test_a_damaged_block_is_not_overwritten() -> None:
    store = MemoryStore()
    store.create("/latest_producer_id_block", b"rubbish")
    with pytest.raises(MalformedNodeError, match="/latest_producer_id_block"):
        ProducerIdAllocator(store, 0).next_id()
    assert store.get("/latest_producer_id_block")[0] == b"rubbish"


def test_ids_stay_above_those_that_logs_know() -> None:
    store = MemoryStore()
    allocator = ProducerIdAllocator(store, 0)
    assert allocator.stay_above(2500)
    assert not allocator.stay_above(2500)
    first = allocator.next_id()
    assert first > 2500 + 2**31
    assert first % 1000 == 0
    assert not ProducerIdAllocator(store, 0).stay_above(first)


def test_ids_that_the_tree_has_allocated_change_nothing() -> None:
    store = MemoryStore()
    assert ProducerIdAllocator(store, 0).next_id() == 0
    assert not ProducerIdAllocator(store, 0).stay_above(999)
    assert ProducerIdAllocator(store, 0).next_id() == 1000


def test_an_id_that_a_client_made_up_does_not_use_up_all_ids() -> None:
    allocator = ProducerIdAllocator(MemoryStore(), 0)
    assert allocator.stay_above(2**63 - 1)
    assert allocator.next_id() < 2**62 + 2**33
