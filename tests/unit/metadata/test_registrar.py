"""A broker registers when its last life is forgotten, and again in each new session."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tidelog.metadata import paths
from tidelog.metadata.registrar import BrokerRegistrar
from tidelog.metadata.registration import BrokerIdTakenError, prepare_tree, register_broker
from tidelog.metadata.store import Watcher
from tidelog.metadata.tree import BrokerRegistration, Endpoint, PartitionState, decode_broker, encode_partition_state
from tidelog.metadata.walk import ensure_paths
from tidelog.testing.memory_store import MemoryStore, MemoryTree

PATIENT_S = 30


class Runner:
    """Runs at once what a `StoreQueue` runs on its thread."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def run(self, function, *args, **kwargs):
        await asyncio.sleep(0)
        return function(self.store, *args, **kwargs)

    def on_loop(self, watcher: Watcher) -> Watcher:
        return watcher


def registration(port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration(1, (Endpoint("PLAINTEXT", "localhost", port),))


def in_loop(claim: Callable[[MemoryTree, MemoryStore], Awaitable[None]]) -> None:
    async def run() -> None:
        tree = MemoryTree()
        store = tree.connect()
        prepare_tree(store)
        await claim(tree, store)

    asyncio.run(run())


def test_it_waits_for_the_session_of_an_earlier_life_to_expire() -> None:
    async def claim(tree: MemoryTree, store: MemoryStore) -> None:
        killed = tree.connect()
        before = register_broker(killed, registration())
        registering = asyncio.ensure_future(BrokerRegistrar(Runner(store), PATIENT_S).register(registration(9093)))
        for _ in range(10):
            await asyncio.sleep(0)
        # A change of the node is not its end.
        killed.set("/brokers/ids/1", b"{}")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not registering.done()
        killed.close()
        assert await registering > before
        assert decode_broker(1, store.get("/brokers/ids/1")[0]) == registration(9093)

    in_loop(claim)


def test_an_id_that_another_broker_keeps_using_is_refused() -> None:
    async def claim(tree: MemoryTree, store: MemoryStore) -> None:
        register_broker(tree.connect(), registration())
        with pytest.raises(BrokerIdTakenError, match=r"broker\.id 1 is taken"):
            await BrokerRegistrar(Runner(store), 0.01).register(registration())

    in_loop(claim)


def test_a_new_session_registers_with_a_higher_epoch_even_if_the_old_node_is_still_there() -> None:
    async def claim(tree: MemoryTree, store: MemoryStore) -> None:
        registrar = BrokerRegistrar(runner := Runner(store), PATIENT_S)
        first = await registrar.register(registration())
        store.expire()
        second = await registrar.register(registration())
        assert second > first
        runner.store = tree.connect()
        assert await registrar.register(registration()) > second
        assert runner.store.get("/brokers/ids/1")[1].ephemeral_owner == runner.store.session_id

    in_loop(claim)


def test_a_changed_registration_keeps_its_epoch() -> None:
    async def claim(tree: MemoryTree, store: MemoryStore) -> None:
        registrar = BrokerRegistrar(Runner(store), PATIENT_S)
        epoch = await registrar.register(registration())
        assert await registrar.register(registration(9999)) == epoch
        assert decode_broker(1, store.get("/brokers/ids/1")[0]) == registration(9999)

    in_loop(claim)


def test_a_broker_whose_log_is_doubtful_waits_until_it_counts_as_in_sync_no_more() -> None:
    """It would lead again with what its disk has kept. A partition that it alone has is not waited for."""

    async def claim(_tree: MemoryTree, store: MemoryStore) -> None:
        state = paths.partition_state("t", 0)
        ensure_paths(store, [state.removesuffix("/state"), paths.partition("t", 1)])
        store.create(state, encode_partition_state(PartitionState(2, 4, (1, 2), 1)))
        store.create(paths.partition_state("t", 1), encode_partition_state(PartitionState(1, 0, (1,), 1)))
        store.create(paths.broker(2))
        registrar = BrokerRegistrar(Runner(store), PATIENT_S)
        registering = asyncio.ensure_future(registrar.register(registration(), [("t", 0), ("t", 1)]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert store.exists(paths.broker(1)) is None
        store.set(state, encode_partition_state(PartitionState(2, 4, (2,), 1)))
        async with asyncio.timeout(PATIENT_S):
            await registering
        assert store.exists(paths.broker(1)) is not None

    in_loop(claim)
