"""Requests from this broker to the controller: AlterPartition, AllocateProducerIds, ControlledShutdown, forwarded ones.

The controller is the one that the cluster image names, and moves. A request that reaches no controller is sent again,
to the one that is known by then: after NOT_CONTROLLER, a lost connection or an unknown controller, with growing pauses.
So a request may be carried out twice; what is sent here must allow for that.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from tidelog.broker.topology.channels import BrokerUnreachable
from tidelog.client.backoff import Backoff
from tidelog.metadata.tree import ProducerIdBlock
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.schema import Message, Struct

logger = logging.getLogger(__name__)

PURPOSE: Final = "controller"
NO_CONTROLLER: Final = -1
_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 500


class Sender(Protocol):
    """Sends one request to one broker, as `BrokerChannels` does."""

    async def send(
        self, broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None
    ) -> Message: ...


class ControllerUnavailable(Exception):  # noqa: N818 - what happened
    """No controller answered in time."""


class ControllerClient:
    """Finds the controller for one request after the other."""

    def __init__(
        self,
        broker_id: int,
        controller_id: Callable[[], int],
        channels: Sender,
        random_source: random.Random,
        local: Callable[[Message], Awaitable[Message]] | None = None,
    ) -> None:
        """`controller_id` is the id of the controller now, or -1. `local` serves requests if this broker is it."""
        self._broker_id = broker_id
        self._controller_id = controller_id
        self._channels = channels
        self._local = local
        self._backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, random_source.random)

    async def send(self, request: Message, *, timeout_ms: int | None = None, purpose: str = PURPOSE) -> Message:
        """The controller's response. Raises `ControllerUnavailable` after `timeout_ms`; without it, tries for ever."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await self._send(request, purpose)
        except TimeoutError:
            name = type(request).__name__
            raise ControllerUnavailable(f"no controller answered {name} within {timeout_ms} ms") from None

    async def _send(self, request: Message, purpose: str) -> Message:
        failures = 0
        while True:
            response = await self._try(request, purpose)
            if response is not None:
                return response
            failures += 1
            await asyncio.sleep(self._backoff.after(failures) / 1000)

    async def _try(self, request: Message, purpose: str) -> Message | None:
        """The response of the broker that the image names as controller; None if it does not answer as one."""
        controller_id = self._controller_id()
        if controller_id == NO_CONTROLLER:
            return None
        if controller_id == self._broker_id and self._local is not None:
            response = await self._local(request)
        else:
            try:
                response = await self._channels.send(controller_id, request, purpose=purpose)
            except BrokerUnreachable as error:
                logger.debug("%s was not answered by the controller: %s", type(request).__name__, error)
                return None
        return None if is_from_no_controller(response) else response


def is_from_no_controller(response: Message) -> bool:
    """Whether a broker answered that it is not the controller: for the whole request, or for each of its parts."""
    code = getattr(response, "error_code", None)
    if code is not None and code != ErrorCode.NONE:
        return bool(code == ErrorCode.NOT_CONTROLLER)
    parts = [
        part
        for name in type(response).fields
        if isinstance(value := getattr(response, name), list)
        for part in value
        if isinstance(part, Struct) and hasattr(part, "error_code")
    ]
    return bool(parts) and all(part.error_code == ErrorCode.NOT_CONTROLLER for part in parts)


async def allocate_producer_ids(
    client: ControllerClient, broker_id: int, broker_epoch: Callable[[], int], timeout_ms: int
) -> ProducerIdBlock:
    """A block of producer ids of this broker's own. Raises ApiError, after which the producer tries again."""
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
    try:
        answer = await client.send(request, timeout_ms=timeout_ms)
    except ControllerUnavailable as error:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
    response = cast(AllocateProducerIdsResponse, answer)
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the controller allocates no ids: {code.name}")
    first = response.producer_id_start
    return ProducerIdBlock(broker_id, first, first + response.producer_id_len - 1)
