"""How the leader of a partition, or the coordinator of a group, reaches the state of a share partition (KIP-932).

The coordinator of the state may be this broker or another. What it answers while it moves is asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from tidelog.broker.topology.internal_topics import SHARE_STATE
from tidelog.sharing.runs import StateBatch
from tidelog.sharing.schemas import ShareKey
from tidelog.sharing.state import NO_START, ShareState, Summary
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.coordinators.edge import CoordinatorEdge
    from tidelog.broker.topology.topology import Topology
    from tidelog.coordination import Decision
    from tidelog.metadata.image import ClusterImage
    from tidelog.sharing.state import ShareStateShard
    from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

T = TypeVar("T")
_ATTEMPTS_MAX: Final = 6
_BACKOFF_S: Final = 0.1
"""Before the second attempt; it doubles with each."""
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class StateWrite(NamedTuple):
    """What `ShareStates.write` stores."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    done_count: int
    batches: Sequence[StateBatch]


class ShareStates:
    """The states of all share partitions of the cluster. Everything raises ApiError."""

    def __init__(
        self,
        broker_id: int,
        edge: CoordinatorEdge[ShareStateShard],
        image: ClusterImage,
        topology: Topology,
        wake: Callable[[], None],
    ) -> None:
        self.edge = edge
        self._broker_id = broker_id
        self._image = image
        self._topology = topology
        self._wake = wake

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """The state, for the leader of the partition in this epoch."""

        async def ask(broker_id: int) -> ShareState:
            from tidelog.wire.messages import read_share_group_state as messages

            partition = messages.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
            topic = messages.ReadStateData(topic_id=key.topic_id, partitions=[partition])
            request = messages.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            found = _only(await self._topology.ask(broker_id, request))
            batches = tuple(map(StateBatch.of, found.state_batches))
            return ShareState(found.state_epoch, leader_epoch, found.start_offset, -1, batches, 0, 0)

        return await self._reach(key, lambda shard, now_ms: shard.read(key, leader_epoch, now_ms), ask)

    async def write(self, key: ShareKey, write: StateWrite) -> None:
        """Store a change; it is there once this returns. After an error it may be there or not."""

        async def ask(broker_id: int) -> ErrorCode:
            from tidelog.wire.messages import write_share_group_state as messages

            partition = messages.PartitionData(
                partition=key.partition,
                state_epoch=write.state_epoch,
                leader_epoch=write.leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.done_count,
                state_batches=[messages.StateBatch(**batch.fields()) for batch in write.batches],
            )
            topic = messages.WriteStateData(topic_id=key.topic_id, partitions=[partition])
            request = messages.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            _only(await self._topology.ask(broker_id, request))
            return ErrorCode.NONE

        await self._reach(key, lambda shard, now_ms: shard.write(key, *write, now_ms), ask)

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int = NO_START) -> None:
        """Begin a state in a new epoch."""

        async def ask(broker_id: int) -> ErrorCode:
            from tidelog.wire.messages import initialize_share_group_state as messages

            partition = messages.PartitionData(
                partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
            )
            topic = messages.InitializeStateData(topic_id=key.topic_id, partitions=[partition])
            request = messages.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            _only(await self._topology.ask(broker_id, request))
            return ErrorCode.NONE

        await self._reach(key, lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, now_ms), ask)

    async def delete(self, key: ShareKey) -> None:
        """Forget a state."""

        async def ask(broker_id: int) -> ErrorCode:
            from tidelog.wire.messages import delete_share_group_state as messages

            partition = messages.PartitionData(partition=key.partition)
            topic = messages.DeleteStateData(topic_id=key.topic_id, partitions=[partition])
            request = messages.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
            _only(await self._topology.ask(broker_id, request))
            return ErrorCode.NONE

        await self._reach(key, lambda shard, now_ms: shard.delete(key, now_ms), ask)

    async def summary(self, key: ShareKey) -> Summary:
        """The state without its batches."""

        async def ask(broker_id: int) -> Summary:
            from tidelog.wire.messages import read_share_group_state_summary as messages

            partition = messages.PartitionData(partition=key.partition, leader_epoch=-1)
            topic = messages.ReadStateSummaryData(topic_id=key.topic_id, partitions=[partition])
            request = messages.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])
            found = _only(await self._topology.ask(broker_id, request))
            return Summary(
                found.state_epoch, found.leader_epoch, found.start_offset, getattr(found, "delivery_complete_count", -1)
            )

        from tidelog.coordination import Decision

        return await self._reach(key, lambda shard, _now_ms: Decision(shard.summary(key)), ask)

    async def _reach(
        self,
        key: ShareKey,
        operation: Callable[[ShareStateShard, int], Decision[T]],
        ask: Callable[[int], Any],
    ) -> T:
        """Carry out an operation where the state is kept, again if its coordinator is moving."""
        backoff_s = _BACKOFF_S
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                return await self._reach_once(key, operation, ask)
            except ApiError as error:
                if error.code not in _RETRIED or attempt == _ATTEMPTS_MAX:
                    raise
                logger.debug("the state of %s is asked for again: %s", key.coordinator_key, error)
            await asyncio.sleep(backoff_s)
            backoff_s *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _reach_once(
        self, key: ShareKey, operation: Callable[[ShareStateShard, int], Decision[T]], ask: Callable[[int], Any]
    ) -> T:
        if self._image.topic(SHARE_STATE.name) is None:
            await self._topology.topics.create_automatically(SHARE_STATE.name)
        broker_id = self.edge.find(key.coordinator_key)
        if broker_id != self._broker_id:
            answer: T = await ask(broker_id)
            self._wake()
            return answer
        found = await self.edge.ask(key.coordinator_key, lambda shard, _respond, now_ms: operation(shard, now_ms))
        if isinstance(found, ApiError):
            raise found
        return cast("T", found)


def _only(response: Message) -> Any:
    """The result of the one partition that was asked about; raises its error."""
    results: Any = response.results  # type: ignore[attr-defined]
    if not results or not results[0].partitions:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's response names no partition")
    result = results[0].partitions[0]
    if result.error_code:
        raise ApiError(ErrorCode(result.error_code), result.error_message)
    return result
