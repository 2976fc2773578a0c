"""Requested elections: of preferred leaders and unclean ones, by admin clients, by a node, or by the balance.

A broker that restarts leads nothing; the preferred leaders, first in their assignments, bring its share back.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidelog.controller.elections import ElectionCause
from tidelog.controller.environment import Environment
from tidelog.controller.events import ElectionTrigger, ElectionType, ReplicaLeaderElection
from tidelog.controller.partition_states import PartitionStateMachine
from tidelog.controller.partitions import Leadership
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)

_NO_CANDIDATE: Final = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
_CAUSES: Final = {
    ElectionType.PREFERRED: ElectionCause.PREFERRED,
    ElectionType.UNCLEAN: ElectionCause.OFFLINE,
}


class LeaderElections:
    """Elects leaders of named partitions, or of those out of balance."""

    def __init__(self, environment: Environment, partitions: PartitionStateMachine) -> None:
        self._environment = environment
        self._context = environment.context
        self._partitions = partitions
        self._needs_election: Final[Mapping[ElectionType, Callable[[TopicPartition], bool]]] = {
            ElectionType.PREFERRED: self._lacks_preferred_leader,
            ElectionType.UNCLEAN: self._lacks_leader,
        }

    async def elect(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType, trigger: ElectionTrigger
    ) -> dict[TopicPartition, int | ApiError]:
        """The new leader of each partition, or why there is none."""
        results: dict[TopicPartition, int | ApiError] = {}
        electable = []
        for partition in partitions:
            error = self._refusal(partition, election_type)
            if error is None:
                electable.append(partition)
            else:
                results[partition] = error
            await self._environment.pause()
        elected = await self._partitions.go_online(
            electable,
            _CAUSES[election_type],
            # Data may be lost, so only an admin client may request it.
            is_unclean_allowed=election_type is ElectionType.UNCLEAN and trigger is ElectionTrigger.ADMIN,
        )
        for partition, result in elected.items():
            if isinstance(result, Leadership):
                results[partition] = result.leader
            else:
                results[partition] = ApiError(_NO_CANDIDATE[election_type], str(result))
        return results

    def _refusal(self, partition: TopicPartition, election_type: ElectionType) -> ApiError | None:
        if not self._context.has_partition(partition):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if partition.topic in self._context.topics_to_delete:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        if not self._needs_election[election_type](partition):
            return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        return None

    async def elect_from_tree(self) -> None:
        """What `/admin/preferred_replica_election` asks for; the node goes when it is done."""
        partitions = await self._environment.tree.preferred_elections()
        if partitions is None:
            return
        results = await self.elect(partitions, ElectionType.PREFERRED, ElectionTrigger.TREE)
        for partition, result in results.items():
            if isinstance(result, ApiError) and result.code is not ErrorCode.ELECTION_NOT_NEEDED:
                logger.warning("the preferred leader of %s is not elected: %s", partition, result)
        await self._environment.tree.remove_preferred_elections()
        # The watch that was set on the node went with it.
        self._environment.events.put(ReplicaLeaderElection())

    async def balance(self) -> None:
        """Elect the preferred leaders of each broker that lacks more than the allowed share of its leaderships."""
        context = self._context
        by_preferred: dict[int, list[TopicPartition]] = {}
        for partition in context.partitions():
            if partition.topic not in context.topics_to_delete and context.assignment(partition).replicas:
                by_preferred.setdefault(context.assignment(partition).replicas[0], []).append(partition)
            await self._environment.pause()
        allowed = self._environment.settings.leader_imbalance_per_broker_percentage / 100
        for broker_id, partitions in sorted(by_preferred.items()):
            elsewhere = [partition for partition in partitions if self._lacks_preferred_leader(partition)]
            if len(elsewhere) / len(partitions) > allowed:
                electable = [partition for partition in elsewhere if self._can_preferred_lead(partition)]
                logger.info(
                    "broker %d should lead %d partitions and lacks %d, of which it can take %d",
                    broker_id,
                    len(partitions),
                    len(elsewhere),
                    len(electable),
                )
                await self._partitions.go_online(electable, ElectionCause.PREFERRED)

    def _lacks_preferred_leader(self, partition: TopicPartition) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is not None and leadership.leader != self._context.assignment(partition).replicas[0]

    def _lacks_leader(self, partition: TopicPartition) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is None or leadership.leader not in self._context.live_broker_ids()

    def _can_preferred_lead(self, partition: TopicPartition) -> bool:
        preferred = self._context.assignment(partition).replicas[0]
        return preferred in self._context.leaderships[partition].isr and self._context.is_online(preferred, partition)
