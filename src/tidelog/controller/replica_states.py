"""The state machine of replicas: a replica enters a state, and the brokers that must know are sent requests.

→ NEW                   its broker learns the leader to follow
NEW → ONLINE            nothing but the mark
… → ONLINE              its broker learns the leader, as after a restart
→ OFFLINE               its broker stops it; it leaves the ISR, and the other replicas learn so
→ DELETION_STARTED      its broker deletes it
→ DELETION_SUCCESSFUL   nothing but the mark
→ DELETION_INELIGIBLE   nothing but the mark
→ NON_EXISTENT          it leaves the assignment, in memory
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from tidelog.controller.environment import Environment
from tidelog.controller.partitions import Leadership, PartitionReplica
from tidelog.controller.request_batch import RequestBatch
from tidelog.controller.states import PREVIOUS_OF_REPLICA, ReplicaStatus
from tidelog.metadata.tree import NO_LEADER
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)


class ReplicaStateMachine:
    """Moves replicas from state to state."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._context = environment.context
        self._enter: Final[
            Mapping[ReplicaStatus, Callable[[int, list[PartitionReplica], RequestBatch], Awaitable[None]]]
        ] = {
            ReplicaStatus.NEW: self._become_new,
            ReplicaStatus.ONLINE: self._go_online,
            ReplicaStatus.OFFLINE: self._go_offline,
            ReplicaStatus.DELETION_STARTED: self._begin_deletion,
            ReplicaStatus.DELETION_SUCCESSFUL: self._mark(ReplicaStatus.DELETION_SUCCESSFUL),
            ReplicaStatus.DELETION_INELIGIBLE: self._mark(ReplicaStatus.DELETION_INELIGIBLE),
            ReplicaStatus.NON_EXISTENT: self._forget,
        }

    async def start(self) -> None:
        """A controller was elected: every broker learns what its replicas are to do."""
        online, offline = self._context.online_and_offline_replicas()
        for replica in online:
            self._context.replica_states[replica] = ReplicaStatus.ONLINE
        for replica in offline:
            # A topic may be about to be deleted: what is on a broker that is down cannot be.
            self._context.replica_states[replica] = ReplicaStatus.DELETION_INELIGIBLE
        batch = self._environment.new_batch()
        batch.add_all_metadata(self._context.live_brokers)
        await self._enter_all(online, ReplicaStatus.ONLINE, batch)
        await batch.send()
        await self.change(offline, ReplicaStatus.OFFLINE)

    async def change(self, replicas: Iterable[PartitionReplica], status: ReplicaStatus) -> None:
        """Move replicas to a state. An invalid transition is logged, and the replica stays as it is."""
        batch = self._environment.new_batch()
        await self._enter_all(replicas, status, batch)
        await batch.send()

    async def _enter_all(
        self, replicas: Iterable[PartitionReplica], status: ReplicaStatus, batch: RequestBatch
    ) -> None:
        by_broker: dict[int, list[PartitionReplica]] = {}
        for replica in replicas:
            current = self._context.replica_state(replica)
            if current in PREVIOUS_OF_REPLICA[status]:
                by_broker.setdefault(replica.broker_id, []).append(replica)
            else:
                logger.error(
                    "the replica of %s on broker %d is %s and cannot become %s",
                    replica.partition,
                    replica.broker_id,
                    current.value,
                    status.value,
                )
        for broker_id, each in sorted(by_broker.items()):
            await self._enter[status](broker_id, each, batch)

    async def _become_new(self, broker_id: int, replicas: list[PartitionReplica], batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            leadership = context.leaderships.get(replica.partition)
            if leadership is not None:
                if leadership.leader == broker_id:
                    logger.error("the replica of %s on broker %d leads and is not new", replica.partition, broker_id)
                    continue
                assignment = context.assignment(replica.partition)
                batch.add_leader_and_isr((broker_id,), replica.partition, leadership, assignment, is_new=True)
            context.replica_states[replica] = ReplicaStatus.NEW
            await self._environment.pause()

    async def _go_online(self, broker_id: int, replicas: list[PartitionReplica], batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            partition = replica.partition
            assignment = context.assignment(partition)
            if context.replica_state(replica) is ReplicaStatus.NEW:
                if broker_id not in assignment.replicas:
                    logger.error("broker %d is not among the replicas of %s and is added", broker_id, partition)
                    context.set_assignment(partition, assignment._replace(replicas=(*assignment.replicas, broker_id)))
            else:
                leadership = context.leaderships.get(partition)
                if leadership is not None:
                    batch.add_leader_and_isr((broker_id,), partition, leadership, assignment, is_new=False)
            context.replica_states[replica] = ReplicaStatus.ONLINE
            await self._environment.pause()

    async def _go_offline(self, broker_id: int, replicas: list[PartitionReplica], batch: RequestBatch) -> None:
        context = self._context
        led = []
        for replica in replicas:
            batch.add_stop_replica(broker_id, replica.partition, delete=False)
            if replica.partition in context.leaderships:
                led.append(replica.partition)
            else:
                batch.add_metadata(context.live_brokers, (replica.partition,))
                context.replica_states[replica] = ReplicaStatus.OFFLINE
            await self._environment.pause()
        for partition, leadership in (await self._remove_from_isr(broker_id, led)).items():
            if partition.topic not in context.topics_to_delete:
                assignment = context.assignment(partition)
                recipients = [each for each in assignment.replicas if each != broker_id]
                batch.add_leader_and_isr(recipients, partition, leadership, assignment, is_new=False)
            context.replica_states[PartitionReplica(partition, broker_id)] = ReplicaStatus.OFFLINE
            await self._environment.pause()

    async def _begin_deletion(self, broker_id: int, replicas: list[PartitionReplica], batch: RequestBatch) -> None:
        for replica in replicas:
            self._context.replica_states[replica] = ReplicaStatus.DELETION_STARTED
            batch.add_stop_replica(broker_id, replica.partition, delete=True)
            await self._environment.pause()

    async def _forget(self, broker_id: int, replicas: list[PartitionReplica], _batch: RequestBatch) -> None:
        context = self._context
        for replica in replicas:
            context.set_assignment(replica.partition, context.assignment(replica.partition).without(broker_id))
            del context.replica_states[replica]
            await self._environment.pause()

    def _mark(self, status: ReplicaStatus) -> Callable[[int, list[PartitionReplica], RequestBatch], Awaitable[None]]:
        async def enter(_broker_id: int, replicas: list[PartitionReplica], _batch: RequestBatch) -> None:
            self._context.replica_states.update(dict.fromkeys(replicas, status))

        return enter

    # --- the ISR ---

    async def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Leadership]:
        """Take a broker out of the ISR of partitions, and out of their lead. The last of an ISR stays in it.

        Returns the leadership of every partition that has one, those included whose ISR was without the broker.
        """
        results: dict[TopicPartition, Leadership] = {}
        remaining = list(partitions)
        while remaining:
            shrunk = await self._shrunk(broker_id, remaining, results)
            updates = await self._environment.tree.update_states(shrunk)
            results |= updates.done
            for partition, error in updates.failed.items():
                logger.error("broker %d stays in the ISR of %s: %s", broker_id, partition, error)
            remaining = updates.stale
        self._context.leaderships.update(results)
        return results

    async def _shrunk(
        self, broker_id: int, partitions: Sequence[TopicPartition], results: dict[TopicPartition, Leadership]
    ) -> dict[TopicPartition, Leadership]:
        context = self._context
        shrunk = {}
        found = await self._environment.tree.leaderships(partitions)
        for partition in partitions:
            leadership = found.get(partition)
            if leadership is None:
                if partition.topic not in context.topics_to_delete:
                    logger.error("partition %s has no state in the tree", partition)
            elif leadership.controller_epoch > context.epoch:
                logger.error("the state of %s is of controller epoch %d", partition, leadership.controller_epoch)
            elif broker_id not in leadership.isr:
                results[partition] = leadership
            else:
                isr = tuple(each for each in leadership.isr if each != broker_id) or leadership.isr
                leader = NO_LEADER if leadership.leader == broker_id else leadership.leader
                shrunk[partition] = leadership.next(leader, isr)._replace(controller_epoch=context.epoch)
            await self._environment.pause()
        return shrunk
