import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tidelog.metadata.errors import MalformedNodeError, StoreUnavailableError
from tidelog.metadata.producer_ids import ProducerIdAllocator, stay_above, take_block
from tidelog.metadata.tree import ProducerIdBlock
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.wire.errors import ApiError


def first_of_block(store: MemoryStore, broker_id: int = 0) -> int:
    return take_block(store, broker_id).first


def test_blocks_hold_a_thousand_ids_from_zero() -> None:
    store = MemoryStore()
    assert take_block(store, 3) == ProducerIdBlock(3, 0, 999)
    assert store.get("/latest_producer_id_block")[0] == (
        b'{"version":1,"broker":3,"block_start":"0","block_end":"999"}'
    )
    assert take_block(store, 3) == ProducerIdBlock(3, 1000, 1999)


def test_a_block_that_another_broker_takes_first_is_left_to_it() -> None:
    tree = MemoryTree()
    other = tree.connect()

    class Racing(MemoryStore):
        def get(self, path, watch=None):  # type: ignore[no-untyped-def]
            found = super().get(path, watch)
            if not found[0]:
                assert first_of_block(other, 9) == 0
            return found

    assert first_of_block(Racing(tree)) == 1000


def test_ids_end_rather_than_wrap() -> None:
    store = MemoryStore()
    store.create(
        "/latest_producer_id_block", b'{"version":1,"broker":0,"block_start":"0","block_end":"9223372036854775000"}'
    )
    with pytest.raises(ApiError, match="no producer ids are left"):
        take_block(store, 0)


def test_a_damaged_block_is_not_overwritten() -> None:
    store = MemoryStore()
    store.create("/latest_producer_id_block", b"rubbish")
    with pytest.raises(MalformedNodeError, match="/latest_producer_id_block"):
        take_block(store, 0)
    assert store.get("/latest_producer_id_block")[0] == b"rubbish"


def test_ids_stay_above_those_that_logs_know() -> None:
    store = MemoryStore()
    assert stay_above(store, 0, 2500)
    assert not stay_above(store, 0, 2500)
    first = first_of_block(store)
    assert first > 2500 + 2**31
    assert first % 1000 == 0
    assert not stay_above(store, 0, first)


def test_ids_that_the_tree_has_allocated_change_nothing() -> None:
    store = MemoryStore()
    assert first_of_block(store) == 0
    assert not stay_above(store, 0, 999)
    assert first_of_block(store) == 1000


def test_an_id_that_a_client_made_up_does_not_use_up_all_ids() -> None:
    store = MemoryStore()
    assert stay_above(store, 0, 2**63 - 1)
    assert first_of_block(store) < 2**62 + 2**33


# --- allocation ---


def taking_from(store: MemoryStore, broker_id: int = 0) -> Callable[[], Awaitable[ProducerIdBlock]]:
    async def take() -> ProducerIdBlock:
        await asyncio.sleep(0)  # as a store does that takes its time
        return take_block(store, broker_id)

    return take


async def next_id(allocator: ProducerIdAllocator) -> int:
    await allocator.ready()
    return allocator.next_id()


def test_a_block_is_taken_only_when_an_id_is_asked_for() -> None:
    store = MemoryStore()
    ProducerIdAllocator(taking_from(store))
    assert store.exists("/latest_producer_id_block") is None


def test_ids_come_one_by_one_and_the_next_block_is_taken_ahead() -> None:
    async def claim() -> None:
        store = MemoryStore()
        allocator = ProducerIdAllocator(taking_from(store))
        assert [await next_id(allocator) for _ in range(950)] == list(range(950))
        for _ in range(5):
            await asyncio.sleep(0)
        assert b'"block_end":"1999"' in store.get("/latest_producer_id_block")[0]
        # Nothing has to be waited for where one block ends and the next begins.
        assert [allocator.next_id() for _ in range(100)] == list(range(950, 1050))

    asyncio.run(claim())


def test_a_block_that_was_taken_ahead_serves_producers_while_the_tree_is_away() -> None:
    async def claim() -> None:
        store = MemoryStore()
        is_away = False

        async def take() -> ProducerIdBlock:
            if is_away:
                raise StoreUnavailableError("away")
            return take_block(store, 0)

        allocator = ProducerIdAllocator(take)
        allocator.prefetch()
        await asyncio.sleep(0)
        is_away = True
        assert [await next_id(allocator) for _ in range(1000)] == list(range(1000))
        with pytest.raises(StoreUnavailableError):
            await next_id(allocator)

    asyncio.run(claim())


def test_brokers_never_give_out_the_same_id_however_many_ask_at_once() -> None:
    async def claim() -> None:
        tree = MemoryTree()
        allocators = [ProducerIdAllocator(taking_from(tree.connect(), broker_id)) for broker_id in range(3)]
        ids = await asyncio.gather(*(next_id(each) for _ in range(1500) for each in allocators))
        assert len(set(ids)) == len(ids)

    asyncio.run(claim())


def test_a_block_that_cannot_be_taken_is_tried_for_again() -> None:
    async def claim() -> None:
        store = MemoryStore()
        failures = [StoreUnavailableError("full")] * 2

        async def take() -> ProducerIdBlock:
            if failures:
                raise failures.pop()
            return take_block(store, 0)

        allocator = ProducerIdAllocator(take)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                await next_id(allocator)
        assert await next_id(allocator) == 0

    asyncio.run(claim())
