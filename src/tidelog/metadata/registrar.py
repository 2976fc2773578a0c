"""A broker's registration over its life: waiting for an earlier life to be forgotten, and again in each new session."""

import asyncio
import logging

from tidelog.metadata import paths
from tidelog.metadata.registration import NO_SESSION, register_broker
from tidelog.metadata.store import Store, StoreRunner, Watcher
from tidelog.metadata.tree import BrokerRegistration

logger = logging.getLogger(__name__)


class BrokerRegistrar:
    """Registers one broker, in its first session and in those that follow when one has expired."""

    def __init__(self, runner: StoreRunner, wait_s: float) -> None:
        """`wait_s` is how long to wait for an earlier life of this broker to be forgotten: its session timeout.

        Kafka fails at once when a broker is started again before its last session has expired.
        """
        self._runner = runner
        self._wait_s = wait_s
        self._session_id = NO_SESSION

    async def register(self, registration: BrokerRegistration) -> int:
        """Register the broker, or change its registration; the broker epoch."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._wait_until_free(registration.broker_id)
        except TimeoutError:
            pass  # registering says who has it
        epoch, self._session_id = await self._runner.run(_register, registration, self._session_id)
        return epoch

    async def _wait_until_free(self, broker_id: int) -> None:
        """Return when no other session than this and the one before has the broker's node."""
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


def _register(store: Store, registration: BrokerRegistration, previous_session_id: int) -> tuple[int, int]:
    return register_broker(store, registration, previous_session_id), store.session_id


def _other_owner(store: Store, path: str, previous_session_id: int, watcher: Watcher) -> int | None:
    """The session that has the node, unless it is ours; then the watcher is notified of a change."""
    stat = store.exists(path)
    if stat is None or stat.ephemeral_owner in (store.session_id, previous_session_id):
        return None
    stat = store.exists(path, watcher)
    return None if stat is None else stat.ephemeral_owner
