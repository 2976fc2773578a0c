"""Checks of ConsumerGroupHeartbeat, and conversion of its lists to assignments and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.group import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember, TopicFilter
from tidelog.groups.consumer.patterns import check_pattern
from tidelog.groups.consumer.reconciliation import is_within
from tidelog.groups.consumer.schemas import Assignment
from tidelog.groups.settings import GroupSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import Assignment as WireAssignment
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

JOINS: Final = 0


class Asker(NamedTuple):
    """The sender of a heartbeat."""

    client_id: str
    client_host: str
    gives_own_id: bool = False
    """From version 1 on members generate their own ids (KIP-1082)."""
    topic_filter: TopicFilter | None = None
    """Which topics a pattern of the member may match; None: all."""


def check_request(request: ConsumerGroupHeartbeatRequest, asker: Asker) -> None:
    """Raise ApiError for a request that is invalid for any member."""
    epoch = request.member_epoch
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    if not asker.gives_own_id:
        # Only since version 1 may a member be subscribed to nothing.
        subscribes = bool(request.subscribed_topic_names or request.subscribed_topic_regex)
    faults = {
        "group id is empty": not request.group_id,
        "instance id is empty": request.instance_id == "",
        "rack id is empty": request.rack_id == "",
        "member id is empty": not request.member_id and (epoch != JOINS or asker.gives_own_id),
        "rebalance timeout is missing": epoch == JOINS and request.rebalance_timeout_ms == -1,
        "owned partitions are not empty": epoch == JOINS and request.topic_partitions != [],
        "subscription is missing": epoch == JOINS and not subscribes,
        "instance id is missing": epoch == LEFT_FOR_NOW and request.instance_id is None,
        "member epoch is out of range": epoch < LEFT_FOR_NOW,
    }
    for fault, is_there in faults.items():
        if is_there:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"invalid heartbeat: its {fault}")
    if request.subscribed_topic_regex:
        check_pattern(request.subscribed_topic_regex)
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"assignor {request.server_assignor} is not one of {known}")


def check_room(group: ConsumerGroup, settings: GroupSettings) -> None:
    """Raise ApiError if the group is full."""
    if len(group.members) >= settings.consumer_max_size:
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} has {len(group.members)} members")


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """A member may be one epoch behind if the response was lost, as long as it owns only partitions it still has."""
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    owned = None if request.topic_partitions is None else from_wire(request.topic_partitions)
    may_be_late = epoch < member.member_epoch and epoch == member.previous_epoch
    if not may_be_late or owned is None or not is_within(owned, member.assigned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"{member.member_id} is in epoch {member.member_epoch}, the heartbeat says {epoch}",
        )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the heartbeat has all fields: the response then has the whole assignment."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def to_wire(assignment: Assignment) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assignment.items())
        ]
    )


def from_wire(listed: Iterable[TopicPartitions]) -> Assignment:
    found: dict[bytes, frozenset[int]] = {}
    for entry in listed:
        if entry.partitions:
            found[entry.topic_id] = found.get(entry.topic_id, frozenset()) | frozenset(entry.partitions)
    return found
