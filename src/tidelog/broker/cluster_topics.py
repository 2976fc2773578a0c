"""Topics of a cluster as clients change them: written to the tree, carried out by the controller, shown by the image.

Only the controller accepts such changes. It plans them against its image and writes the assignment; the watch on the
tree triggers the active controller, on whichever broker it is by then. Topics that brokers themselves need, for
auto-creation or for a coordinator, are requested from the controller with CreateTopics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.broker.controller_client import ControllerUnavailable
from tidelog.broker.metadata_waiters import MetadataWaiters
from tidelog.broker.topic_planning import (
    check_automatic,
    existing_topic,
    mark_for_deletion,
    plan_more_partitions,
    plan_new_topic,
    write_more_partitions,
    write_new_topic,
)
from tidelog.metadata import topics as topic_plans
from tidelog.metadata.image import TopicImage
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.controller_client import ControllerClient
    from tidelog.broker.controller_service import ControllerService
    from tidelog.broker.node import Node

logger = logging.getLogger(__name__)


class ClusterTopics:
    """Creates, extends and deletes topics of the cluster. Every method raises ApiError."""

    def __init__(
        self,
        node: Node,
        controller: ControllerService,
        controller_client: ControllerClient,
        waiters: MetadataWaiters,
    ) -> None:
        self._node = node
        self._controller = controller
        self._controller_client = controller_client
        self._waiters = waiters
        self._asked: dict[str, asyncio.Task[None]] = {}
        """Topics that this broker has asked the controller for, and has no answer yet."""

    async def close(self) -> None:
        """Send no more requests to the controller."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _check_controller(self) -> None:
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")

    # --- changes that clients ask for ---

    async def create(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicImage:
        """Write a new topic, or only return what would be written. `wait_created` waits for its leaders."""
        self._check_controller()
        topic = await plan_new_topic(self._node, name, partition_count, replication_factor, assignments, overrides)
        if not validate_only:
            await write_new_topic(self._node, topic, topic_plans.write_new_assignment)
        return topic.image

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions. `wait_created` waits for their leaders."""
        self._check_controller()
        new = await plan_more_partitions(self._node, name, count, assignments)
        if not validate_only:
            await write_more_partitions(self._node, new, topic_plans.write_grown_assignment)

    async def delete(self, name: str) -> bytes:
        """Have a topic deleted and return the id it had. `wait_deleted` waits until no client sees it any more."""
        self._check_controller()
        topic = existing_topic(self._node, name)
        await mark_for_deletion(self._node, topic)
        return topic.topic_id

    async def wait_created(self, counts: Mapping[str, int], timeout_ms: int, /) -> Collection[str]:
        """Of topics that were written with so many partitions: those that have no leaders within the time given."""
        await self._waiters.wait(lambda: not self._without_leaders(counts), timeout_ms)
        return self._without_leaders(counts)

    def _without_leaders(self, counts: Mapping[str, int]) -> list[str]:
        image = self._node.image
        missing = []
        for name, count in counts.items():
            topic = image.topic(name)
            partitions = () if topic is None else topic.partitions
            if len(partitions) < count or any(partition.leader_id < 0 for partition in partitions):
                missing.append(name)
        return missing

    async def wait_deleted(self, names: Collection[str], timeout_ms: int, /) -> Collection[str]:
        """Of topics that are to be deleted: those that clients still see after the time given."""
        image = self._node.image
        await self._waiters.wait(lambda: all(image.topic(name) is None for name in names), timeout_ms)
        return [name for name in names if image.topic(name) is not None]

    # --- topics that brokers need ---

    async def create_automatically(self, name: str) -> TopicImage:
        """Request a topic that a client named from the controller. The client retries."""
        check_automatic(name)
        found = self._node.image.topic(name)
        if found is not None:
            return found
        config = self._node.config
        self._ask_for(name, config.num_partitions, config.default_replication_factor, {})
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is being created")

    async def create_internal(
        self, name: str, partition_count: int, replication_factor: int, overrides: Mapping[str, str]
    ) -> None:
        """Ask the controller for the topic of a coordinator, which has as many replicas as its setting wants.

        Clients get COORDINATOR_NOT_AVAILABLE until it exists, and retry.
        """
        self._ask_for(name, partition_count, replication_factor, overrides)

    def _ask_for(self, name: str, partition_count: int, factor: int, overrides: Mapping[str, str]) -> None:
        if self._node.image.topic(name) is None and name not in self._asked:
            topic = CreatableTopic(
                name=name,
                num_partitions=partition_count,
                replication_factor=factor,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in overrides.items()],
            )
            self._start(name, self._request(topic))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._asked[name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._asked.pop(name, None))

    async def _request(self, topic: CreatableTopic) -> None:
        timeout_ms = self._node.config.request_timeout_ms
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
        try:
            response = await self._controller_client.send(request, timeout_ms=timeout_ms)
        except ControllerUnavailable as error:
            logger.warning("topic %s is not created: %s", topic.name, error)
            return
        assert isinstance(response, CreateTopicsResponse), f"CreateTopics was answered with {response!r}"
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                code = ErrorCode(result.error_code)
                logger.warning("topic %s is not created: %s: %s", topic.name, code.name, result.error_message)
