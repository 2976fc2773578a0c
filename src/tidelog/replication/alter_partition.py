"""Changes of in-sync replicas on their way to the controller: gathered, sent together, one request at a time.

A partition has at most one proposal open. Proposals that come while a request is under way go with the next one; a
proposal stays here until the controller has answered it. Topics are named by id, and partitions without one by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import AlteredPartition, IsrProposal, LeaderRecoveryState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)
from tidelog.wire.partitions import NO_EPOCH


class AlterOutcome(NamedTuple):
    """What the controller answered to one proposal: the partition as it is now, or an error."""

    partition: Partition
    proposal: IsrProposal
    altered: AlteredPartition | None
    error: ErrorCode


def _unknown_epoch(_broker_id: int) -> int:
    return NO_EPOCH


class AlterPartitionQueue:
    """The proposals of one broker."""

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], epoch_of: Callable[[int], int] = _unknown_epoch
    ) -> None:
        """`epoch_of` gives the epoch of a broker's registration, which the controller compares (KIP-903); -1 for none.
        With ZooKeeper these are not compared, and Kafka's brokers send -1, too."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._epoch_of = epoch_of
        self._open: dict[tuple[bytes, str, int], tuple[Partition, IsrProposal]] = {}
        self._in_flight: dict[tuple[bytes, str, int], tuple[Partition, IsrProposal]] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Queue a proposal. It replaces an older one of the partition, which a new leader epoch made invalid."""
        self._open[partition.topic_id, *partition.key] = partition, proposal

    def next_request(self) -> AlterPartitionRequest | None:
        """All open proposals as one request; None while another is under way, or there is nothing to send."""
        if self._in_flight is not None or not self._open:
            return None
        self._in_flight = dict(self._open)
        topics: dict[tuple[bytes, str], TopicData] = {}
        for (topic_id, name, index), (_, proposal) in self._in_flight.items():
            topic = topics.get((topic_id, name))
            if topic is None:
                topic = topics[topic_id, name] = TopicData(topic_name=name, topic_id=topic_id)
            topic.partitions.append(_partition_data(index, proposal, self._epoch_of))
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def on_response(self, response: AlterPartitionResponse) -> list[AlterOutcome]:
        """The outcomes of the request under way. A proposal without an outcome is sent again."""
        sent, self._in_flight = self._in_flight or {}, None
        if response.error_code != ErrorCode.NONE:
            return []
        by_id = {(topic_id, index): key for key in sent for topic_id, _, index in (key,)}
        by_name = {(name, index): key for key in sent for _, name, index in (key,)}
        outcomes = []
        for topic in response.topics:
            for answer in topic.partitions:
                key = by_name.get((topic.topic_name, answer.partition_index)) if topic.topic_name else None
                key = key or by_id.get((topic.topic_id, answer.partition_index))
                entry = sent.pop(key, None) if key is not None else None
                if key is None or entry is None:
                    continue
                if self._open.get(key) is entry:
                    del self._open[key]
                outcomes.append(_outcome(*entry, answer))
        return outcomes

    def on_failure(self) -> None:
        """The request under way got no answer: its proposals are sent again."""
        self._in_flight = None


def _partition_data(index: int, proposal: IsrProposal, epoch_of: Callable[[int], int]) -> PartitionData:
    return PartitionData(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr=list(proposal.isr),
        new_isr_with_epochs=[
            BrokerState(broker_id=replica, broker_epoch=epoch_of(replica)) for replica in proposal.isr
        ],
        leader_recovery_state=proposal.recovery_state,
        partition_epoch=proposal.partition_epoch,
    )


def _outcome(partition: Partition, proposal: IsrProposal, answer: PartitionDataResponse) -> AlterOutcome:
    error = ErrorCode(answer.error_code)
    if error:
        return AlterOutcome(partition, proposal, None, error)
    altered = AlteredPartition(
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.isr),
        answer.partition_epoch,
        LeaderRecoveryState(answer.leader_recovery_state),
    )
    return AlterOutcome(partition, proposal, altered, ErrorCode.NONE)
