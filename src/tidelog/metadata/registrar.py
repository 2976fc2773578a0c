"""A broker's registration: it waits for the session of an earlier run to expire, and is renewed in each new session."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tidelog.metadata import paths
from tidelog.metadata.registration import NO_SESSION, register_broker
from tidelog.metadata.store import Store, StoreRunner, Watcher
from tidelog.metadata.tree import BrokerRegistration, decode_partition_state
from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 0.05


class BrokerRegistrar:
    """Registers one broker, in its first session and in those that follow when one has expired."""

    def __init__(self, runner: StoreRunner, wait_s: float) -> None:
        """`wait_s` is how long to wait for the session of an earlier run to expire: its session timeout.

        Kafka fails at once when a broker is started again before its last session has expired.
        """
        self._runner = runner
        self._wait_s = wait_s
        self._session_id = NO_SESSION

    async def register(self, registration: BrokerRegistration, doubtful: Sequence[PartitionKey] = ()) -> int:
        """Register the broker, or change its registration; the broker epoch.

        `doubtful` are partitions whose log may lack records that this broker had acknowledged: those it was in sync
        for when it ended without a shutdown. If the controller has not noticed the end, it would let the broker lead
        again, and followers would truncate their logs to the leader's. So the broker registers only after another
        live replica leads them, where there is one. Kafka does not wait.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._wait_until_free(registration.broker_id)
        except TimeoutError:
            pass  # registering raises BrokerIdTakenError
        try:
            async with asyncio.timeout(self._wait_s):
                await self._wait_until_out_of_sync(registration.broker_id, doubtful)
        except TimeoutError:
            logger.warning(
                "broker %d ended without a shutdown and is still in sync for some partitions, according to the "
                "metadata: it may lead them again, and they may lack records",
                registration.broker_id,
            )
        epoch, self._session_id = await self._runner.run(_register, registration, self._session_id)
        return epoch

    async def _wait_until_free(self, broker_id: int) -> None:
        """Return when the broker's node belongs to this session, the previous one, or none."""
        while True:
            changed = asyncio.Event()
            watcher = self._runner.on_loop(lambda _event, changed=changed: changed.set())  # type: ignore[misc]
            owner = await self._runner.run(_other_owner, paths.broker(broker_id), self._session_id, watcher)
            if owner is None:
                return
            logger.warning(
                "broker %d is still registered by session %#x; waiting up to %d s for that to expire",
                broker_id,
                owner,
                self._wait_s,
            )
            await changed.wait()

    async def _wait_until_out_of_sync(self, broker_id: int, doubtful: Sequence[PartitionKey]) -> None:
        """Return when the controller has taken the broker out of every in-sync set that it shares with a live one."""
        left = await self._runner.run(shared_in_sync, broker_id, doubtful)
        while left:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            left = await self._runner.run(shared_in_sync, broker_id, left)


def shared_in_sync(store: Store, broker_id: int, partitions: Sequence[PartitionKey]) -> list[PartitionKey]:
    """Which of these partitions count a broker as in sync together with another one that is alive."""
    if not partitions:
        return []
    others = {int(name) for name in store.children(paths.BROKER_IDS)} - {broker_id}
    nodes = store.get_many([paths.partition_state(topic, index) for topic, index in partitions])
    shared = []
    for (topic, index), node in zip(partitions, nodes, strict=True):
        if node is not None:
            isr = decode_partition_state(topic, index, node[0]).isr
            if broker_id in isr and not others.isdisjoint(isr):
                shared.append((topic, index))
    return shared


def _register(store: Store, registration: BrokerRegistration, previous_session_id: int) -> tuple[int, int]:
    return register_broker(store, registration, previous_session_id), store.session_id


def _other_owner(store: Store, path: str, previous_session_id: int, watcher: Watcher) -> int | None:
    """The session that owns the node, unless it is ours; the watcher is then notified of a change."""
    stat = store.exists(path)
    if stat is None or stat.ephemeral_owner in (store.session_id, previous_session_id):
        return None
    stat = store.exists(path, watcher)
    return None if stat is None else stat.ephemeral_owner
