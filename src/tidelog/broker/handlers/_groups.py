"""What the handlers of group requests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def check_group_id(group_id: str) -> None:
    """A group that Kafka coordinates has a name; only offsets may be kept under the empty one, as long ago."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group id must not be empty")


def check_consumer_protocol(context: Context) -> None:
    """The newer protocol (KIP-848) can be switched off; its requests then count as unknown."""
    if "consumer" not in context.node.config.group_coordinator_rebalance_protocols:
        text = "group.coordinator.rebalance.protocols does not name the consumer protocol"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
