"""A broker's life as the controllers of a KRaft cluster see it: registered, fenced, serving, about to stop.

    register    the controllers know the broker, under a new epoch; it is fenced
    catch up    heartbeats ask for nothing more, until the broker has replayed its own registration
    unfence     heartbeats ask to be let in; the controllers do so when the broker has caught up
    stop        heartbeats ask to be let go; the controllers move its leaderships first

A broker that misses its heartbeats is fenced, and comes back with the next one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, cast

from tidelog.broker.topology.controller_client import ControllerUnavailable
from tidelog.broker.topology.quorum_link import QuorumUnreachableError
from tidelog.metadata.quorum.projection import supported_levels
from tidelog.metadata.quorum.state import SECURITY_PROTOCOLS
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from tidelog.broker.topology.quorum_link import QuorumLink
    from tidelog.config import BrokerConfig
    from tidelog.metadata.tree import Endpoint

logger = logging.getLogger(__name__)

_PURPOSE: Final = "heartbeat"
_REGISTRATION_PAUSE_S: Final = 0.2
_EAGER_PAUSE_S: Final = 0.05
"""Between two heartbeats of a broker that waits to be let in or let go."""


class Lifecycle:
    """The registration and the heartbeats of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        link: QuorumLink,
        cluster_id: str,
        directory_ids: Sequence[bytes],
        previous_epoch: int,
    ) -> None:
        """`previous_epoch` is the epoch that it had until it was stopped in order; -1 after a crash."""
        self._config = config
        self._link = link
        self._cluster_id = cluster_id
        self._directory_ids = directory_ids
        self._previous_epoch = previous_epoch
        self._incarnation_id = os.urandom(16)
        self._is_ready = False
        self._wants_shutdown = False
        self._failed_directories: set[bytes] = set()
        self._wake = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.epoch = -1
        """The epoch of the registration: the offset of its record in the metadata log."""
        self.is_fenced = True

    # --- registration ---

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Become one of the cluster's brokers. Raises `QuorumUnreachableError` if the controllers do not let it."""
        config = self._config
        timeout_ms = config.initial_broker_registration_timeout_ms
        refusal = "no controller answered"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    answer = await self._link.controller.send(self._registration(endpoints), purpose=_PURPOSE)
                    response = cast(BrokerRegistrationResponse, answer)
                    if not response.error_code:
                        self.epoch = response.broker_epoch
                        break
                    code = ErrorCode(response.error_code)
                    if code.name != refusal:
                        logger.warning("the controllers do not register broker %d yet: %s", config.node_id, code.name)
                    refusal = code.name
                    await asyncio.sleep(_REGISTRATION_PAUSE_S)
        except TimeoutError:
            raise QuorumUnreachableError(
                f"the controllers have not registered broker {config.node_id} within {timeout_ms} ms "
                f"(initial.broker.registration.timeout.ms): {_explained(refusal, config.node_id)}"
            ) from None
        logger.info("broker %d is registered with the epoch %d", config.node_id, self.epoch)
        self._task = asyncio.get_running_loop().create_task(self._beat())

    def _registration(self, endpoints: Sequence[Endpoint]) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=each.listener,
                    host=each.host,
                    port=each.port,
                    security_protocol=SECURITY_PROTOCOLS.index(each.security_protocol),
                )
                for each in endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in supported_levels().items()
            ],
            rack=self._config.broker_rack,
            log_dirs=sorted(self._directory_ids),
            previous_broker_epoch=self._previous_epoch,
        )

    # --- heartbeats ---

    def ready(self) -> None:
        """The broker knows the metadata and can serve: ask to be let in."""
        self._is_ready = True
        self._wake.set()

    def report_failed(self, directory_ids: Collection[bytes]) -> None:
        """Log directories have failed: the controllers move what was led from there."""
        self._failed_directories.update(directory_ids)
        self._wake.set()

    async def stop_serving(self) -> bool:
        """Ask to be let go, and wait until the controllers have moved the leaderships; whether they have in time."""
        if self._task is None or self._task.done():
            return False
        self._wants_shutdown = True
        self._wake.set()
        try:
            async with asyncio.timeout(self._config.broker_session_timeout_ms / 1000):
                await self._may_stop.wait()
        except TimeoutError:
            logger.warning("broker %d stops without handing over all its leaderships", self._config.node_id)
            return False
        return True

    async def _beat(self) -> None:
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        while True:
            self._wake.clear()
            is_waiting = await self._send()
            pause_s = min(_EAGER_PAUSE_S, interval_s) if is_waiting else interval_s
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _send(self) -> bool:
        """Send a heartbeat; whether the next should follow soon."""
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._link.offset,
            want_fence=not self._is_ready,
            want_shut_down=self._wants_shutdown,
            offline_log_dirs=sorted(self._failed_directories),
        )
        try:
            answer = await self._link.controller.send(
                request, timeout_ms=self._config.broker_session_timeout_ms, purpose=_PURPOSE
            )
        except ControllerUnavailable:
            logger.warning("no controller answers the heartbeats of broker %d", self._config.node_id)
            return True
        response = cast(BrokerHeartbeatResponse, answer)
        if response.error_code:
            name = ErrorCode(response.error_code).name
            logger.warning("the controller refuses a heartbeat of broker %d: %s", self._config.node_id, name)
            return False
        if response.is_fenced is not self.is_fenced:
            self.is_fenced = response.is_fenced
            logger.info("broker %d is %s", self._config.node_id, "fenced" if self.is_fenced else "no longer fenced")
        if response.should_shut_down and self._wants_shutdown:
            self._may_stop.set()
        return (self._is_ready and self.is_fenced) or (self._wants_shutdown and not self._may_stop.is_set())

    async def close(self) -> None:
        """Send no more heartbeats."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _explained(refusal: str, node_id: int) -> str:
    """What an operator can do about it."""
    return {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION.name: f"a broker with node.id={node_id} is alive",
        ErrorCode.INCONSISTENT_CLUSTER_ID.name: "the controllers belong to another cluster",
        ErrorCode.UNSUPPORTED_VERSION.name: "the cluster has finalised a feature that this broker does not support",
    }.get(refusal, refusal)
