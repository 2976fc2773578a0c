"""The deletion of topics: from the request in the tree to the last of their nodes.

    1. Brokers learn that the topic has no leader any more (-2) and stop serving it.
    2. Replicas on brokers that are alive stop, then are deleted, and their brokers answer.
    3. A replica on a broker that is down makes the topic ineligible: deletion goes on when the broker is back.
    4. When every replica is deleted, the topic's nodes go, the request for its deletion last.

A topic whose partitions are being reassigned waits until that is done, or until one of its brokers is back.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from tidelog.controller.environment import Environment
from tidelog.controller.partition_states import PartitionStateMachine
from tidelog.controller.partitions import PartitionReplica
from tidelog.controller.replica_states import ReplicaStateMachine
from tidelog.controller.states import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)

_DELETION_BEGUN: Final = frozenset({ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_STARTED})


class TopicDeletionManager:
    """Deletes topics. The context has the topics to delete, and those that are ineligible."""

    def __init__(
        self, environment: Environment, partitions: PartitionStateMachine, replicas: ReplicaStateMachine
    ) -> None:
        self._environment = environment
        self._context = environment.context
        self._partitions = partitions
        self._replicas = replicas

    async def start(self, requested: Collection[str], ineligible: Collection[str]) -> None:
        """A controller was elected. With `delete.topic.enable` off, requests are dropped."""
        if self._environment.settings.delete_topic_enable:
            self._context.topics_to_delete.update(requested)
            self._context.topics_ineligible_for_deletion.update(set(ineligible).intersection(requested))
        else:
            await self._environment.tree.remove_topic_deletions(requested)

    async def enqueue(self, topics: Iterable[str]) -> None:
        """Topics are to be deleted."""
        self._context.topics_to_delete.update(topics)
        await self.resume()

    async def resume_for(self, topics: Iterable[str]) -> None:
        """What stood in the way of these topics' deletion may be gone: a broker is back, a reassignment is done."""
        waiting = self._context.topics_to_delete.intersection(topics)
        if waiting:
            self._context.topics_ineligible_for_deletion -= waiting
            await self.resume()

    def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Topics that are to be deleted wait from now on; others are not concerned."""
        halted = sorted(self._context.topics_to_delete.intersection(topics))
        if halted:
            self._context.topics_ineligible_for_deletion.update(halted)
            logger.info("the deletion of topics %s waits: %s", ", ".join(halted), reason)

    async def fail_replicas(self, replicas: Iterable[PartitionReplica]) -> None:
        """Replicas could not be deleted: their broker refused, or went down."""
        context = self._context
        failed = [
            replica
            for replica in replicas
            if replica.topic in context.topics_to_delete
            and context.replica_state(replica) is not ReplicaStatus.DELETION_SUCCESSFUL
        ]
        if failed:
            begun = [replica for replica in failed if context.replica_state(replica) in _DELETION_BEGUN]
            await self._replicas.change(begun, ReplicaStatus.DELETION_INELIGIBLE)
            self.mark_ineligible({replica.topic for replica in failed}, "replicas could not be deleted")
            await self.resume()

    async def complete_replicas(self, replicas: Iterable[PartitionReplica]) -> None:
        """Replicas were deleted."""
        context = self._context
        deleted = [
            replica
            for replica in replicas
            if replica.topic in context.topics_to_delete
            # The answer may be for a replica that a reassignment removed.
            and context.replica_state(replica) is ReplicaStatus.DELETION_STARTED
        ]
        await self._replicas.change(deleted, ReplicaStatus.DELETION_SUCCESSFUL)
        await self.resume()

    async def resume(self) -> None:
        """Take every topic that is to be deleted one step further, if it can."""
        context = self._context
        retried: list[str] = []
        begun: list[str] = []
        for topic in sorted(context.topics_to_delete):
            states = {context.replica_state(replica) for replica in context.replicas_of(topic)}
            if states <= {ReplicaStatus.DELETION_SUCCESSFUL}:
                await self._complete(topic)
            elif ReplicaStatus.DELETION_STARTED not in states:
                if ReplicaStatus.DELETION_INELIGIBLE in states:
                    retried.append(topic)
                if topic not in context.topics_ineligible_for_deletion:
                    begun.append(topic)
        for topic in retried:
            failed = context.replicas_in(topic, ReplicaStatus.DELETION_INELIGIBLE)
            await self._replicas.change(failed, ReplicaStatus.OFFLINE)
        if begun:
            await self._begin(begun)

    async def _begin(self, topics: list[str]) -> None:
        context = self._context
        unseen = [topic for topic in topics if topic not in context.topics_with_deletion_started]
        partitions = [partition for topic in unseen for partition in context.partitions_of(topic)]
        await self._partitions.mark(partitions, PartitionStatus.OFFLINE)
        await self._partitions.mark(partitions, PartitionStatus.NON_EXISTENT)
        context.topics_with_deletion_started.update(unseen)
        # A broker that is back resumes a deletion although partitions are on the move: they need not arrive.
        context.reassigning.difference_update(partitions)
        batch = self._environment.new_batch()
        for topic in topics:
            batch.add_metadata(context.live_brokers, context.partitions_of(topic))
            await self._environment.pause()
        await batch.send()
        await self._delete_replicas(topics)

    async def _delete_replicas(self, topics: list[str]) -> None:
        context = self._context
        dead: list[PartitionReplica] = []
        alive: list[PartitionReplica] = []
        for topic in topics:
            for replica in context.replicas_of(topic):
                if context.replica_state(replica) is ReplicaStatus.NON_EXISTENT:
                    # A reassignment that failed half-way has not started it; its broker may have got the request.
                    context.replica_states[replica] = ReplicaStatus.OFFLINE
                if not context.is_online(replica.broker_id, replica.partition):
                    dead.append(replica)
                elif context.replica_state(replica) is not ReplicaStatus.DELETION_SUCCESSFUL:
                    alive.append(replica)
            await self._environment.pause()
        # A replica that was deleted before its broker went down stays deleted.
        lost = [each for each in dead if context.replica_state(each) is not ReplicaStatus.DELETION_SUCCESSFUL]
        stopped = [each for each in lost if context.replica_state(each) is not ReplicaStatus.OFFLINE]
        await self._replicas.change(stopped, ReplicaStatus.OFFLINE)
        await self._replicas.change(lost, ReplicaStatus.DELETION_INELIGIBLE)
        for status in (ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_STARTED):
            await self._replicas.change(alive, status)
        self.mark_ineligible({replica.topic for replica in lost}, "some of their replicas are offline")

    async def _complete(self, topic: str) -> None:
        """Every replica is deleted: the topic goes from the tree, then from memory."""
        context = self._context
        await self._replicas.change(
            context.replicas_in(topic, ReplicaStatus.DELETION_SUCCESSFUL), ReplicaStatus.NON_EXISTENT
        )
        await self._environment.remove_requested_moves(lambda partition, _: partition.topic == topic)
        await self._environment.tree.delete_topic(topic)
        context.remove_topic(topic)
        logger.info("topic %s is deleted", topic)
