"""A replica of a partition, and a partition's leadership: the values that the controller's parts exchange."""

from typing import Final, NamedTuple

from tidelog.metadata.tree import LEADER_RECOVERED, LEADER_RECOVERING, PartitionState
from tidelog.wire.partitions import TopicPartition

LEADER_DURING_DELETE: Final = -2
"""The leader in UpdateMetadata while a topic is deleted; brokers then forget the partition."""

EPOCH_DURING_DELETE: Final = -2
"""The leader epoch in StopReplica while a topic is deleted; it overrides every epoch that the broker knows."""


class PartitionReplica(NamedTuple):
    """The replica of a partition on a broker."""

    partition: TopicPartition
    broker_id: int

    @property
    def topic(self) -> str:
        return self.partition.topic


class Leadership(NamedTuple):
    """A partition's leader and ISR, as its state node has them."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    """The epoch of the controller that wrote the node."""
    recovery_state: int = LEADER_RECOVERED
    partition_epoch: int = 0
    """The version of the node."""

    @classmethod
    def of(cls, state: PartitionState, version: int) -> "Leadership":
        return cls(state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovery_state, version)

    def node(self) -> PartitionState:
        """What the state node holds."""
        return PartitionState(self.leader, self.leader_epoch, self.isr, self.controller_epoch, self.recovery_state)

    def next(self, leader: int | None = None, isr: tuple[int, ...] | None = None) -> "Leadership":
        """The following leader epoch: with another leader, another ISR, or as it is."""
        return self._replace(
            leader=self.leader if leader is None else leader,
            leader_epoch=self.leader_epoch + 1,
            isr=self.isr if isr is None else isr,
        )

    def next_unclean(self, leader: int) -> "Leadership":
        """The following leader epoch, led by a replica from outside the ISR, which may lack records."""
        return self.next(leader, (leader,))._replace(recovery_state=LEADER_RECOVERING)
