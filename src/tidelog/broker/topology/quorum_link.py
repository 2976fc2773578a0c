"""The way from a broker to the controllers of its KRaft cluster: who leads, what the metadata log says, requests.

One task follows the log (`QuorumLink.follow`): it asks what its observer wants to know, replays what is committed, and
hands on what has changed, one change after the other. Requests to the active controller go to the leader of the log,
whom the observer knows, on a connection of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tidelog.broker.topology.channels import BrokerChannels, BrokerUnreachable
from tidelog.broker.topology.controller_client import ControllerClient
from tidelog.metadata.errors import StoreError
from tidelog.metadata.quorum.observer import FETCH_WAIT_MS, FIRST_BOOTSTRAP, Address, Observer, Replayer
from tidelog.metadata.quorum.state import Touched
from tidelog.metadata.tree import Endpoint

if TYPE_CHECKING:
    import random

    from tidelog.client.aio.connection import Connector
    from tidelog.config import BrokerConfig
    from tidelog.metadata.quorum.state import MetadataState

logger = logging.getLogger(__name__)

_METADATA: Final = "metadata"
_PAUSE_MAX_S: Final = 0.5


class QuorumUnreachableError(StoreError):
    """No controller says what the cluster is like."""


class QuorumLink:
    """Follows the metadata log, and finds the active controller."""

    def __init__(
        self,
        config: BrokerConfig,
        observer: Observer,
        replayer: Replayer,
        connector_for: Callable[[Endpoint], Connector],
        random_source: random.Random,
    ) -> None:
        self._observer = observer
        self._replayer = replayer
        self._listener = config.controller_listener_name
        self._protocol = config.security_protocols.get(self._listener, "PLAINTEXT")
        self._fetch_timeout_ms = max(config.controller_quorum_fetch_timeout_ms, 2 * FETCH_WAIT_MS)
        self._pause_s = config.controller_quorum_retry_backoff_ms / 1000
        self._failures = 0
        self.channels = BrokerChannels(
            self._endpoint_of,
            connector_for,
            client_id=f"broker-{config.node_id}",
            request_timeout_ms=config.request_timeout_ms,
            setup_timeout_ms=config.controller_quorum_request_timeout_ms,
        )
        self.controller = ControllerClient(config.node_id, lambda: observer.leader_id, self.channels, random_source)

    @property
    def state(self) -> MetadataState:
        """The cluster as the log says, up to `offset`."""
        return self._replayer.state

    @property
    def offset(self) -> int:
        """The last offset that was replayed; -1 before the first."""
        return self._replayer.next_offset - 1

    @property
    def leader_id(self) -> int:
        """The active controller; -1 while it is not known."""
        return self._observer.leader_id

    def _endpoint_of(self, node_id: int) -> Endpoint | None:
        address = self._observer.address_of(node_id)
        return None if address is None else Endpoint(self._listener, address.host, address.port, self._protocol)

    async def catch_up(self, timeout_ms: int, offset: int = -1) -> Touched:
        """Follow the log until everything that was committed at first, and what is up to `offset`, was replayed.

        Raises `QuorumUnreachableError` after `timeout_ms`, and what `step` raises.
        """
        found = Touched()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    is_answered = await self._ask()
                    found = self._replay(found)
                    caught_up = self._observer.high_watermark >= 0 and self._observer.is_current
                    if is_answered and caught_up and self.offset >= offset:
                        return found
        except TimeoutError:
            servers = ", ".join(
                f"{each.host}:{each.port}" for each in map(self._observer.address_of, self._bootstrap_ids()) if each
            )
            raise QuorumUnreachableError(
                f"the controllers at {servers} have not said what the cluster is like within {timeout_ms} ms: check "
                "controller.quorum.bootstrap.servers, and that a majority of the controllers runs"
            ) from None

    def _bootstrap_ids(self) -> range:
        return range(FIRST_BOOTSTRAP, FIRST_BOOTSTRAP - self._observer.bootstrap_count, -1)

    def _replay(self, before: Touched) -> Touched:
        touched = self._replayer.advance(self._observer)
        self._observer.learn(self._controllers())
        return touched.joined(before)

    def _controllers(self) -> dict[int, Address]:
        """Where controllers listen, by their registrations."""
        return {
            controller_id: Address(endpoint.host, endpoint.port)
            for controller_id, endpoints in self.state.controllers.items()
            for endpoint in endpoints
            if endpoint.listener == self._listener
        }

    async def follow(self, apply: Callable[[Touched], Awaitable[None]]) -> None:
        """Follow the log for ever; `apply` gets each change, and the next is read when it returns."""
        while True:
            await self._ask()
            touched = self._replay(Touched())
            if touched:
                await apply(touched)

    async def _ask(self) -> bool:
        """Ask the observer's next question; whether it was answered. Pauses where it was not."""
        question = self._observer.next_question()
        is_answered = False
        try:
            answer = await self.channels.send(
                question.node_id, question.request, purpose=_METADATA, timeout_ms=self._fetch_timeout_ms
            )
        except BrokerUnreachable as error:
            logger.debug("the quorum does not answer: %s", error)
            self._observer.on_failure()
        else:
            is_answered = self._observer.on_answer(answer)
        self._failures = 0 if is_answered else self._failures + 1
        if self._failures:
            await asyncio.sleep(min(self._pause_s * 2 ** min(self._failures, 10), _PAUSE_MAX_S))
        return is_answered

    async def close(self) -> None:
        """Send nothing more."""
        await self.channels.close()
