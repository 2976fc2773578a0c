"""What the controller's parts share: settings, context, the tree, the queues to brokers and of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.controller.context import ControllerContext
from tidelog.controller.events import EventQueue, LeaderAndIsrAnswered, ReplicaDeletionsAnswered, TreeReassignment
from tidelog.controller.request_batch import ControlPlane, Pause, RequestBatch
from tidelog.controller.tree import ControllerTree
from tidelog.wire.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The broker's settings that the controller follows."""

    inter_broker_listener: str = "PLAINTEXT"
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False


@dataclass(slots=True)
class Environment:
    """Shared by the parts of one controller. `settings` may be replaced at any time."""

    broker_id: int
    settings: ControllerSettings
    context: ControllerContext
    tree: ControllerTree
    control_plane: ControlPlane
    events: EventQueue
    pause: Pause

    async def remove_requested_moves(self, is_removed: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Take partitions out of `/admin/reassign_partitions`, and the node away with the last of them."""
        found = await self.tree.reassignments()
        left = {partition: target for partition, target in found.items() if not is_removed(partition, target)}
        if len(left) < len(found):
            await self.tree.set_reassignments(left)
            if not left:
                # The watch that was set on the node went with it.
                self.events.put(TreeReassignment())

    def new_batch(self) -> RequestBatch:
        return RequestBatch(
            self.broker_id,
            self.settings.inter_broker_listener,
            self.context,
            self.control_plane,
            lambda broker_id, response: self.events.put(LeaderAndIsrAnswered(broker_id, response)),
            lambda deletions: self.events.put(ReplicaDeletionsAnswered(deletions)),
            self.pause,
        )
