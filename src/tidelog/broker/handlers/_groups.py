"""What the handlers of group requests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.replies import settled
from tidelog.broker.handlers._parts import in_parts
from tidelog.metadata.features import GROUP_VERSION, STREAMS_VERSION
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.coordination import Decision, Respond
    from tidelog.groups import GroupShard

GroupOperation = Callable[["GroupShard", "Respond", int], "Decision[Any]"]

Commit = Callable[[Any, "Context"], Any]
"""Handles an OffsetCommit or TxnOffsetCommit: returns its response, or a reply that comes later."""


async def committed_in_parts(request: Any, response: Any, commit: Commit, context: Context) -> Any:
    """Commit more partitions than fit into one step, each part by itself; their results go to `response`."""
    for part in in_parts((topic, topic.partitions) for topic in request.topics):
        piece = copy(request)
        piece.topics = [_with_partitions(topic, some) for topic, some in part]
        found = commit(piece, context)
        for topic in (await settled(found)).topics:
            if response.topics and _are_one(response.topics[-1], topic):
                response.topics[-1].partitions += topic.partitions
            else:
                response.topics.append(topic)
        await context.node.slices.pause()
    return response


def _with_partitions(topic: Any, partitions: Sequence[Any]) -> Any:
    some = copy(topic)
    some.partitions = list(partitions)
    return some


def _are_one(topic: Any, other: Any) -> bool:
    """Whether two parts of a response are about one topic, by name and by id where there are ids."""
    return topic.name == other.name and getattr(topic, "topic_id", None) == getattr(other, "topic_id", None)


def check_group_id(group_id: str) -> None:
    """A group needs a name; only simple offset commits may use the empty one, as in old versions of Kafka."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group id must not be empty")


def check_consumer_protocol(context: Context) -> None:
    """The newer protocol (KIP-848) can be switched off; its requests then count as unknown."""
    if context.node.features.level(GROUP_VERSION) < 1:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{GROUP_VERSION} is at level 0: the cluster has no such groups")
    if "consumer" not in context.node.config.group_coordinator_rebalance_protocols:
        text = "group.coordinator.rebalance.protocols does not name the consumer protocol"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def check_streams_protocol(context: Context) -> None:
    """Streams groups (KIP-1071) can be switched off; their requests then count as unknown."""
    if context.node.features.level(STREAMS_VERSION) < 1:
        text = f"{STREAMS_VERSION} is at level 0: the cluster has no streams groups (tidelog features upgrade)"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
    if "streams" not in context.node.config.group_coordinator_rebalance_protocols:
        text = "group.coordinator.rebalance.protocols does not name the streams protocol"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
