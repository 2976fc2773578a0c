"""Which replica a consumer reads from: the leader, or a follower in its own rack (KIP-392).

A leader that chooses a follower names it in an otherwise empty reply, and the consumer goes there. Only followers in
the ISR whose log covers the offset are candidates, so the consumer can read there as soon as the
follower's high watermark has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class ClientMetadata(NamedTuple):
    """A consumer's rack, and the listener of its connection."""

    rack_id: str
    listener: str
    client_id: str = ""


class ReplicaView(NamedTuple):
    """A replica that a consumer could read from."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    caught_up_before_ms: int
    """How long ago it was caught up; 0 for the leader."""


class RackAwareReplicaSelector:
    """A consumer reads from its own rack: from the leader if that is there, else from the most caught-up replica."""

    def select(self, client: ClientMetadata, leader: ReplicaView, replicas: Sequence[ReplicaView]) -> ReplicaView:
        """The replica to read from. `replicas` includes the leader."""
        if not client.rack_id:
            return leader
        near = [replica for replica in replicas if replica.rack == client.rack_id]
        if not near or leader in near:
            return leader
        return max(near, key=lambda each: (each.log_end_offset, -each.caught_up_before_ms, each.broker_id))


RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def replica_selector(class_name: str | None) -> RackAwareReplicaSelector | None:
    """The selector of `replica.selector.class`; None where every consumer reads from the leader."""
    return RackAwareReplicaSelector() if class_name == RACK_AWARE else None
