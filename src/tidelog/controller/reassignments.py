"""Partitions that move to other brokers, step by step, each of which the next controller can go on from.

    U   the topic's node gets the replicas of both sides, with those to add and those to remove
    A   while a target replica is not in sync: a new leader epoch, all replicas learn of it, the new ones start
    B   when all target replicas are in sync:
        1  the added replicas are online
        2  the assignment is the target, in memory
        3  a leader among the target is elected if there is none, else the leader epoch rises
        4  the removed replicas leave the ISR and stop, then are deleted
        5  the topic's node has the target alone, and the request in the tree is gone
        6  every broker gets the new metadata

The topic's node is written last because it is the only place where the removed replicas are known.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from tidelog.controller.elections import ElectionCause
from tidelog.controller.environment import Environment
from tidelog.controller.events import Targets
from tidelog.controller.partition_states import PartitionStateMachine
from tidelog.controller.partitions import Leadership, PartitionReplica
from tidelog.controller.replica_states import ReplicaStateMachine
from tidelog.controller.states import ReplicaStatus, StateChangeFailedError
from tidelog.controller.topic_deletion import TopicDeletionManager
from tidelog.metadata.errors import NodeError
from tidelog.metadata.tree import NO_LEADER, ReplicaAssignment, TopicAssignment
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)

Results = dict[TopicPartition, ApiError | None]


class Reassignments:
    """Moves partitions. Which are on the move is in the context, and in their topics' nodes."""

    def __init__(
        self,
        environment: Environment,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletions: TopicDeletionManager,
    ) -> None:
        self._environment = environment
        self._context = environment.context
        self._partitions = partitions
        self._replicas = replicas
        self._deletions = deletions

    # --- what begins a reassignment, or goes on with one ---

    async def request(self, targets: Targets) -> Results:
        """AlterPartitionReassignments: the outcome for each partition. Supplants what the tree asks for."""
        results: Results = {}
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            try:
                if target is not None:
                    self._check_target(partition, target)
                accepted[partition] = self._planned(partition, target)
            except ApiError as error:
                results[partition] = error
        await self._environment.remove_requested_moves(lambda partition, _: partition in accepted)
        results |= await self._begin(accepted)
        return results

    async def request_from_tree(self) -> set[TopicPartition]:
        """What `/admin/reassign_partitions` asks for: the partitions that are on the move by it."""
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        results: Results = {}
        for partition, target in (await self._environment.tree.reassignments()).items():
            try:
                accepted[partition] = self._planned(partition, target)
            except ApiError as error:
                results[partition] = error
        results |= await self._begin(accepted)
        failed = {partition: error for partition, error in results.items() if error is not None}
        if failed:
            for partition, reason in failed.items():
                logger.warning("the reassignment of %s that the tree asks for fails: %s", partition, reason)
            await self._environment.remove_requested_moves(lambda partition, _: partition in failed)
        return results.keys() - failed.keys()

    async def resume(self, is_concerned: Callable[[TopicPartition, ReplicaAssignment], bool]) -> None:
        """Go on with those on the move: after a broker came back, or by a new controller."""
        for partition in sorted(self._context.reassigning):
            assignment = self._context.assignment(partition)
            if is_concerned(partition, assignment):
                await self._move(partition, assignment)

    async def complete_if_in_sync(self, partitions: Iterable[TopicPartition]) -> None:
        """The ISR of these changed: a reassignment may be complete."""
        for partition in partitions:
            if partition in self._context.reassigning:
                assignment = self._context.assignment(partition)
                if await self._is_in_sync(partition, assignment):
                    logger.info("the target replicas %s of %s are in sync", assignment.target, partition)
                    await self._move(partition, assignment)

    def under_way(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """Those of `partitions`, or of all, that are on the move."""
        asked = sorted(self._context.reassigning) if partitions is None else partitions
        assignments = {partition: self._context.assignment(partition) for partition in asked}
        return {partition: each for partition, each in assignments.items() if each.is_being_reassigned}

    def _check_target(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        if not target:
            raise _invalid("Empty replica list specified in partition reassignment.")
        if len(set(target)) != len(target):
            raise _invalid(f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
        if min(target) < 0:
            raise _invalid(f"Invalid broker id in replica list: {list(target)}")
        adding = self._context.assignment(partition).reassign_to(target).adding
        alive = self._context.live_broker_ids()
        if not set(adding).issubset(alive):
            raise _invalid(
                "Replica assignment has brokers that are not alive. "
                f"Replica list: {list(adding)}, live broker list: {alive}"
            )

    def _planned(self, partition: TopicPartition, target: tuple[int, ...] | None) -> ReplicaAssignment:
        """The assignment that leads to `target`; without one, back to where the partition came from."""
        assignment = self._context.assignment(partition)
        if target is not None:
            return assignment.reassign_to(target)
        if not assignment.is_being_reassigned:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return assignment.reassign_to(assignment.origin)

    async def _begin(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Results:
        results: Results = {}
        context = self._context
        for partition, assignment in assignments.items():
            is_deleted = partition.topic in context.topics_to_delete
            if is_deleted or not context.assignment(partition).replicas:
                results[partition] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
                continue
            try:
                await self._move(partition, assignment)
                results[partition] = None
            except (StateChangeFailedError, NodeError) as error:
                logger.exception("the reassignment of %s fails", partition)
                results[partition] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return results

    # --- the steps ---

    async def _move(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Take the partition as far towards its target as the ISR allows."""
        self._deletions.mark_ineligible((partition.topic,), "partitions are being reassigned")
        await self._update_assignment(partition, assignment)
        if not await self._is_in_sync(partition, assignment):
            await self._announce(partition, assignment)
            for broker_id in assignment.adding:
                await self._start_replica(PartitionReplica(partition, broker_id))
            return
        await self._complete(partition, assignment)

    async def _update_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Note where the partition goes, in the tree first; stop what a reassignment supplanted by this one added."""
        current = self._context.assignment(partition)
        if current != assignment:
            await self._write_assignment(partition, assignment)
            self._context.set_assignment(partition, assignment)
            unneeded = [broker_id for broker_id in current.replicas if broker_id not in assignment.replicas]
            await self._delete_replicas(partition, unneeded)
        self._context.reassigning.add(partition)

    async def _start_replica(self, replica: PartitionReplica) -> None:
        """Unless it was started before: then its broker has just learned the new leader epoch."""
        if self._context.replica_state(replica) is ReplicaStatus.NON_EXISTENT:
            await self._replicas.change((replica,), ReplicaStatus.NEW)

    async def _complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._context
        added = [PartitionReplica(partition, broker_id) for broker_id in assignment.adding]
        known = [each for each in added if context.replica_state(each) is not ReplicaStatus.NON_EXISTENT]
        await self._replicas.change(known, ReplicaStatus.ONLINE)
        target = ReplicaAssignment(assignment.target)
        context.set_assignment(partition, target)
        await self._move_leader(partition, target)
        await self._delete_replicas(partition, assignment.removing)
        await self._write_assignment(partition, target)
        await self._environment.remove_requested_moves(
            lambda each, replicas: each == partition and replicas == target.replicas
        )
        context.reassigning.discard(partition)
        batch = self._environment.new_batch()
        batch.add_metadata(context.live_brokers, (partition,))
        await batch.send()
        logger.info("partition %s has moved to brokers %s", partition, target.replicas)
        if not any(each.topic == partition.topic for each in context.reassigning):
            await self._deletions.resume_for((partition.topic,))

    async def _is_in_sync(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Whether every target replica is in the ISR that the tree has."""
        if not assignment.is_being_reassigned:
            return True
        leadership = (await self._environment.tree.leaderships((partition,))).get(partition)
        return leadership is not None and set(assignment.target).issubset(leadership.isr)

    async def _move_leader(self, partition: TopicPartition, target: ReplicaAssignment) -> None:
        leadership = self._context.leaderships.get(partition)
        leader = NO_LEADER if leadership is None else leadership.leader
        if leader in target.replicas and self._context.is_online(leader, partition):
            await self._announce(partition, target)
        else:
            await self._partitions.go_online((partition,), ElectionCause.REASSIGNMENT)

    async def _announce(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Raise the leader epoch and let every replica learn it together with the new assignment."""
        leadership = await self._raise_leader_epoch(partition)
        batch = self._environment.new_batch()
        # `is_new` lets a broker choose a log directory although another of its directories is offline.
        for brokers, is_new in ((assignment.origin, False), (assignment.adding, True)):
            batch.add_leader_and_isr(brokers, partition, leadership, assignment, is_new=is_new)
        await batch.send()

    async def _raise_leader_epoch(self, partition: TopicPartition) -> Leadership:
        tree, context = self._environment.tree, self._context
        while True:
            leadership = (await tree.leaderships((partition,))).get(partition)
            if leadership is None:
                raise StateChangeFailedError(f"{partition} has no state in the tree: it never had a leader")
            if leadership.controller_epoch > context.epoch:
                raise StateChangeFailedError(
                    f"the state of {partition} was written by the controller of epoch {leadership.controller_epoch}"
                )
            raised = leadership.next()._replace(controller_epoch=context.epoch)
            updates = await tree.update_states({partition: raised})
            if partition in updates.failed:
                raise updates.failed[partition]
            if partition in updates.done:
                context.leaderships[partition] = updates.done[partition]
                return updates.done[partition]

    async def _delete_replicas(self, partition: TopicPartition, broker_ids: Iterable[int]) -> None:
        """Stop and delete replicas that the partition leaves. A broker that is down deletes them when it is back."""
        replicas = [PartitionReplica(partition, broker_id) for broker_id in broker_ids]
        known = [each for each in replicas if self._context.replica_state(each) is not ReplicaStatus.NON_EXISTENT]
        for status in (
            ReplicaStatus.OFFLINE,
            ReplicaStatus.DELETION_STARTED,
            ReplicaStatus.DELETION_SUCCESSFUL,
            ReplicaStatus.NON_EXISTENT,
        ):
            await self._replicas.change(known, status)

    # --- the tree ---

    async def _write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        topic = self._context.topic_assignment(partition.topic)
        partitions = list(topic.partitions)
        partitions[partition.partition] = assignment
        await self._environment.tree.set_topic_assignment(
            partition.topic, TopicAssignment(topic.topic_id, tuple(partitions))
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
