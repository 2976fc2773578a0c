"""The state machine of partitions: a partition enters a state with a leader elected, written and made known.

→ NEW            it has replicas; nothing else happens
NEW → ONLINE     the first replica that is alive leads, and all that are alive are in sync
… → ONLINE       a leader is elected for the cause given
→ OFFLINE        nothing but the mark: the election follows
→ NON_EXISTENT   nothing but the mark: the topic is deleted
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from tidelog.controller.elections import Election, ElectionCause, elect_leader
from tidelog.controller.environment import Environment
from tidelog.controller.partitions import Leadership
from tidelog.controller.request_batch import RequestBatch
from tidelog.controller.states import PREVIOUS_OF_PARTITION, PartitionStatus, StateChangeFailedError
from tidelog.metadata.errors import StoreError
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

ElectionResults: TypeAlias = dict[TopicPartition, Leadership | StateChangeFailedError]
"""The leadership of each partition that went online, or why it did not."""


class PartitionStateMachine:
    """Moves partitions from state to state."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._context = environment.context
        self.unclean_elections = 0
        """Elections of replicas that were not in sync: records may be lost."""

    async def start(self) -> None:
        """A controller was elected: find out the state of every partition and elect leaders where they lack."""
        context = self._context
        for partition in context.partitions():
            leadership = context.leaderships.get(partition)
            if leadership is None:
                status = PartitionStatus.NEW
            elif context.is_online(leadership.leader, partition):
                status = PartitionStatus.ONLINE
            else:
                status = PartitionStatus.OFFLINE
            context.partition_states[partition] = status
            await self._environment.pause()
        await self.bring_online()

    async def bring_online(self, topic: str | None = None) -> ElectionResults:
        """Try to elect leaders for partitions that have none: of one topic, or of all that are not being deleted."""
        waiting = [
            partition
            for partition in self._context.partitions_in((PartitionStatus.NEW, PartitionStatus.OFFLINE))
            if partition.topic not in self._context.topics_to_delete and topic in (None, partition.topic)
        ]
        return await self.go_online(waiting, ElectionCause.OFFLINE)

    async def mark(self, partitions: Iterable[TopicPartition], status: PartitionStatus) -> None:
        """Enter a state that needs neither an election nor a request."""
        for partition in self._valid(partitions, status):
            self._context.partition_states[partition] = status
            await self._environment.pause()

    async def go_online(
        self, partitions: Sequence[TopicPartition], cause: ElectionCause, *, is_unclean_allowed: bool = False
    ) -> ElectionResults:
        """Elect and announce leaders. `is_unclean_allowed` overrides the settings of the topics."""
        if not partitions:
            return {}
        batch = self._environment.new_batch()
        results: ElectionResults = {
            partition: StateChangeFailedError(
                f"{partition} is {self._context.partition_state(partition).value} and cannot go online"
            )
            for partition in partitions
        }
        valid = self._valid(partitions, PartitionStatus.ONLINE)
        new = [partition for partition in valid if self._context.partition_state(partition) is PartitionStatus.NEW]
        led = [partition for partition in valid if self._context.partition_state(partition) is not PartitionStatus.NEW]
        results |= await self._initialize(new, batch)
        results |= await self._elect(led, cause, is_unclean_allowed, batch)
        for partition, result in results.items():
            if isinstance(result, Leadership):
                self._context.partition_states[partition] = PartitionStatus.ONLINE
            else:
                logger.error("partition %s does not go online: %s", partition, result)
        await batch.send()
        return results

    def _valid(self, partitions: Iterable[TopicPartition], status: PartitionStatus) -> list[TopicPartition]:
        valid = []
        for partition in partitions:
            current = self._context.partition_state(partition)
            if current in PREVIOUS_OF_PARTITION[status]:
                valid.append(partition)
            else:
                logger.error("partition %s is %s and cannot become %s", partition, current.value, status.value)
        return valid

    # --- the first leader ---

    async def _initialize(self, partitions: Sequence[TopicPartition], batch: RequestBatch) -> ElectionResults:
        first: dict[TopicPartition, Leadership] = {}
        results: ElectionResults = {}
        for partition in partitions:
            online = self._context.online_replicas(partition)
            if online:
                first[partition] = Leadership(online[0], 0, tuple(online), self._context.epoch)
            else:
                replicas = self._context.assignment(partition).replicas
                results[partition] = StateChangeFailedError(f"none of its replicas {replicas} is alive")
            await self._environment.pause()
        for partition, error in (await self._environment.tree.create_states(first)).items():
            if error is not None:
                results[partition] = StateChangeFailedError(str(error))
                continue
            leadership = results[partition] = first[partition]
            self._context.leaderships[partition] = leadership
            batch.add_leader_and_isr(
                leadership.isr, partition, leadership, self._context.assignment(partition), is_new=True
            )
            await self._environment.pause()
        return results

    # --- another leader ---

    async def _elect(
        self,
        partitions: Sequence[TopicPartition],
        cause: ElectionCause,
        is_unclean_allowed: bool,
        batch: RequestBatch,
    ) -> ElectionResults:
        """Elect until every partition has its outcome: a leader that changes its ISR meanwhile makes us begin again."""
        results: ElectionResults = {}
        remaining = list(partitions)
        while remaining:
            elections = await self._decide(remaining, cause, is_unclean_allowed, results)
            updates = await self._environment.tree.update_states(
                {
                    partition: election.leadership
                    for partition, election in elections.items()
                    if election.leadership is not None
                }
            )
            for partition, leadership in updates.done.items():
                self._context.leaderships[partition] = results[partition] = leadership
                recipients = elections[partition].recipients
                assignment = self._context.assignment(partition)
                batch.add_leader_and_isr(recipients, partition, leadership, assignment, is_new=False)
                await self._environment.pause()
            results |= _failures(updates.failed)
            remaining = updates.stale
        return results

    async def _decide(
        self,
        partitions: Sequence[TopicPartition],
        cause: ElectionCause,
        is_unclean_allowed: bool,
        results: ElectionResults,
    ) -> dict[TopicPartition, Election]:
        """The new leaders, by the present state of the tree; reasons why none is elected go into `results`."""
        context = self._context
        leaderships = await self._environment.tree.leaderships(partitions)
        unclean = set() if is_unclean_allowed else await self._allowing_unclean(leaderships, cause)
        elections = {}
        for partition in partitions:
            leadership = leaderships.get(partition)
            if leadership is None:
                results[partition] = StateChangeFailedError("it has no state in the tree")
            elif leadership.controller_epoch > context.epoch:
                results[partition] = StateChangeFailedError(
                    f"its state was written by the controller of epoch {leadership.controller_epoch}, "
                    f"after that of epoch {context.epoch}"
                )
            else:
                election = elect_leader(
                    cause,
                    context,
                    partition,
                    leadership._replace(controller_epoch=context.epoch),
                    is_unclean_allowed=is_unclean_allowed or partition.topic in unclean,
                )
                if election.leadership is None:
                    results[partition] = StateChangeFailedError(
                        f"no replica may be elected ({cause.value}): replicas "
                        f"{context.assignment(partition).replicas}, in sync {leadership.isr}, "
                        f"online {context.online_replicas(partition)}"
                    )
                else:
                    elections[partition] = election
                    self.unclean_elections += election.leadership.leader not in leadership.isr
            await self._environment.pause()
        return elections

    async def _allowing_unclean(
        self, leaderships: Mapping[TopicPartition, Leadership], cause: ElectionCause
    ) -> Collection[str]:
        """The topics that allow unclean elections, of those that would need one. Read from the tree: they are few."""
        if cause is not ElectionCause.OFFLINE:
            return ()
        topics = {
            partition.topic
            for partition, leadership in leaderships.items()
            if not any(self._context.is_online(replica, partition) for replica in leadership.isr)
        }
        if not topics:
            return ()
        default = "true" if self._environment.settings.unclean_leader_election_enable else "false"
        overrides = await self._environment.tree.topic_overrides(topics)
        return {
            name
            for name, values in overrides.items()
            if values.get(UNCLEAN_ELECTION, default).strip().lower() == "true"
        }


def _failures(errors: Mapping[TopicPartition, StoreError]) -> ElectionResults:
    return {partition: StateChangeFailedError(str(error)) for partition, error in errors.items()}
