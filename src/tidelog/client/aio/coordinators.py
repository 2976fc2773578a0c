"""Finds and caches the coordinators of groups and transactional ids.

`NetworkClient` owns the one instance. Lookups of the same key that run at the same time share one question.
"""

import asyncio
from enum import IntEnum
from typing import Any

from tidelog.client.aio.cluster_calls import ClusterCalls
from tidelog.client.aio.reactions import error_code_of, reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, BrokerUnavailable, DeadlinePassed
from tidelog.client.types import BrokerNode
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_VERSION_MAX = 5  # 6 differs only in share groups


class CoordinatorType(IntEnum):
    """What is coordinated; the values are those of the protocol."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorLookup:
    """Remembered coordinators."""

    def __init__(self, client: ClusterCalls) -> None:
        self._client = client
        self._known: dict[tuple[CoordinatorType, str], BrokerNode] = {}
        self._asking: dict[tuple[CoordinatorType, str], asyncio.Task[BrokerNode]] = {}
        settings = client.settings
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    def node(self, node_id: int) -> BrokerNode | None:
        """The address of a broker that was named as a coordinator before metadata named it."""
        return next((node for node in self._known.values() if node.node_id == node_id), None)

    def forget(self, kind: CoordinatorType, key: str) -> None:
        self._known.pop((kind, key), None)

    async def find(self, kind: CoordinatorType, key: str, timeout_ms: int | None) -> BrokerNode:
        found = self._known.get((kind, key))
        if found is not None:
            return found
        task = self._asking.get((kind, key))
        if task is None:
            limit_ms = self._client.settings.request_timeout_ms if timeout_ms is None else timeout_ms
            task = self._client.spawn(self._ask_until_known(kind, key, limit_ms))
            self._asking[kind, key] = task
            task.add_done_callback(lambda done: self._finished(kind, key, done))
        return await asyncio.shield(task)

    def _finished(self, kind: CoordinatorType, key: str, task: "asyncio.Task[Any]") -> None:
        self._asking.pop((kind, key), None)
        if not task.cancelled():
            task.exception()  # the callers have the result, or have given up

    async def _ask_until_known(self, kind: CoordinatorType, key: str, limit_ms: int) -> BrokerNode:
        deadline_ms = self._client.now_ms() + limit_ms
        failures = 0
        while True:
            try:
                node = await self._ask(kind, key)
            except (ApiError, BrokerUnavailable) as error:
                if not reaction_to(error).is_retriable:
                    raise
                failures += 1
                wait_ms = self._backoff.after(failures)
                if self._client.now_ms() + wait_ms > deadline_ms:
                    raise DeadlinePassed(
                        f"no coordinator of {kind.name.lower()} {key!r} within {limit_ms} ms: {error}"
                    ) from error
                await asyncio.sleep(wait_ms / 1000)
            else:
                self._known[kind, key] = node
                return node

    async def _ask(self, kind: CoordinatorType, key: str) -> BrokerNode:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        reply = await self._client.send_to_any(request, FindCoordinatorResponse, at_most=_VERSION_MAX)
        # Up to version 3 the reply is about the one key; from 4 on it has a list.
        coordinator = reply.coordinators[0] if reply.coordinators else reply
        if coordinator.error_code != ErrorCode.NONE:
            raise ApiError(error_code_of(coordinator.error_code), coordinator.error_message)
        return BrokerNode(coordinator.node_id, coordinator.host, coordinator.port)
