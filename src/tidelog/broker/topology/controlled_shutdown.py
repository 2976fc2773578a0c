"""Before a broker of a cluster stops, the controller moves its leaderships: clients find the new leaders at once.

A partition whose other replicas lag behind cannot be moved yet, so the broker asks again, a few times. It stops in any
case; partitions that it still leads are offline until the controller elects other leaders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.broker.topology.controller_client import ControllerClient, ControllerUnavailable
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

logger = logging.getLogger(__name__)


async def hand_leaderships_over(
    client: ControllerClient,
    broker_id: int,
    broker_epoch: int,
    *,
    has_peers: Callable[[], bool],
    attempts: int,
    pause_ms: int,
    timeout_ms: int,
) -> bool:
    """Whether every leadership that another broker could take was moved. Does not wait where no other is alive."""
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    for attempt in range(1, attempts + 1):
        try:
            response = await client.send(request, timeout_ms=timeout_ms)
        except ControllerUnavailable as error:
            logger.warning("the leaderships of broker %d are not moved: %s", broker_id, error)
        else:
            assert isinstance(response, ControlledShutdownResponse), f"answered with {response!r}"
            if response.error_code == ErrorCode.NONE and not response.remaining_partitions:
                return True
            logger.info(
                "broker %d still leads %d partitions (%s)",
                broker_id,
                len(response.remaining_partitions),
                ErrorCode(response.error_code).name,
            )
        if attempt < attempts and has_peers():
            await asyncio.sleep(pause_ms / 1000)
        elif not has_peers():
            break
    logger.warning("broker %d stops without handing over all its leaderships", broker_id)
    return False
