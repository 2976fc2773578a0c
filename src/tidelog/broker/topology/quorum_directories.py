"""In which log directories this broker's replicas are: the controllers are told wherever they know another (KIP-858).

They elect a replica's broker no longer when its directory fails, so they must know the right one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

from tidelog.tasks import OwnedTasks
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from tidelog.broker.topology.controller_client import ControllerClient
    from tidelog.metadata.quorum.state import QuorumPartition
    from tidelog.storage.directories.manager import LogManager

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_AT_ONCE_MAX: Final = 2000
"""As many assignments go into one request, as with Kafka's brokers."""


class ReplicaDirectories:
    """Tells the controllers, one request at a time."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: ControllerClient,
        log_manager: LogManager,
        directory_ids: Mapping[str, bytes],
    ) -> None:
        """`directory_ids` has the id of each log directory by its path."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._log_manager = log_manager
        self.directory_ids = directory_ids
        self._waiting: dict[tuple[bytes, int], bytes] = {}
        self._tasks = OwnedTasks()

    def compare(self, partitions: Iterable[tuple[bytes, str, int, QuorumPartition]]) -> None:
        """Compare what the metadata says of these partitions with where their logs are."""
        for topic_id, topic, index, partition in partitions:
            log = self._log_manager.get_log(topic, index)
            directory = None if log is None else self.directory_ids.get(log.parent_directory)
            if directory is not None and partition.directory_of(self._broker_id) != directory:
                self._waiting[topic_id, index] = directory
            else:
                self._waiting.pop((topic_id, index), None)
        if self._waiting and not len(self._tasks):
            self._tasks.spawn(self._tell())

    async def _tell(self) -> None:
        while self._waiting:
            told = dict(list(self._waiting.items())[:_AT_ONCE_MAX])
            response = cast(AssignReplicasToDirsResponse, await self._controller.send(self._request(told)))
            if response.error_code:
                name = ErrorCode(response.error_code).name
                logger.warning("the controllers do not take the directories of %d replicas: %s", len(told), name)
                await asyncio.sleep(_PAUSE_S)
                continue
            for key, directory in told.items():
                # One that is refused belongs to a partition that is about to go; the metadata says so next.
                if self._waiting.get(key) == directory:
                    del self._waiting[key]

    def _request(self, told: Mapping[tuple[bytes, int], bytes]) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory in told.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicData(
                            topic_id=topic_id, partitions=[PartitionData(partition_index=each) for each in indexes]
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory, topics in directories.items()
            ],
        )

    async def close(self) -> None:
        """Tell nothing more."""
        self._tasks.cancel()
        await self._tasks.wait()
