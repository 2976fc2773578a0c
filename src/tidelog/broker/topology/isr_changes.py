"""Sends the ISR proposals of this broker's leaders to the controller, one request at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from tidelog.replication.alter_partition import AlterOutcome, AlterPartitionQueue
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionResponse

if TYPE_CHECKING:
    from tidelog.broker.topology.controller_client import ControllerClient
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_set import IsrProposal

logger = logging.getLogger(__name__)

_PURPOSE: Final = "alter partition"
_PAUSE_S: Final = 0.05
"""Between two attempts, if the controller refused the first."""


class IsrChanges:
    """The proposals under way to the controller, and its answers."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: ControllerClient,
        on_outcome: Callable[[AlterOutcome], None],
        *epoch_of: Callable[[int], int],
    ) -> None:
        """`epoch_of`, where it is given, is the epoch of a broker's registration."""
        self._queue = AlterPartitionQueue(broker_id, broker_epoch, *epoch_of)
        self._controller = controller
        self._on_outcome = on_outcome
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller for a change; its answer goes to `on_outcome`."""
        self._queue.submit(partition, proposal)
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while (request := self._queue.next_request()) is not None:
                response = cast(AlterPartitionResponse, await self._controller.send(request, purpose=_PURPOSE))
                outcomes = self._queue.on_response(response)
                if response.error_code != ErrorCode.NONE:
                    logger.warning("the controller refused AlterPartition: %s", ErrorCode(response.error_code).name)
                if not outcomes or any(outcome.error for outcome in outcomes):
                    await asyncio.sleep(_PAUSE_S)
                for outcome in outcomes:
                    self._on_outcome(outcome)
        finally:
            self._queue.on_failure()
            self._task = None

    async def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
