"""The bytes that consumers of a group exchange through the coordinator, which does not read them.

A member's subscription goes to the leader with JoinGroup, its assignment comes back with SyncGroup. Both open with
their version and, from a newer client, may carry more than we know: they are read as the newest version we do know.
"""

from collections.abc import Iterable
from struct import Struct as Layout
from typing import NamedTuple

from tidelog.client.types import TopicPartition
from tidelog.wire.errors import WireError
from tidelog.wire.schema import Message, Struct, array, blob, int32, string

PROTOCOL_TYPE = "consumer"

_VERSION = Layout(">h")
_NO_API = -1


class _Topic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class _Subscription(Message, api_key=_NO_API, versions=(0, 3)):
    topics: list[str] = array(string)
    user_data: bytes | None = blob(None, null_since=0)
    owned_partitions: list[_Topic] = array(_Topic, since=1)
    generation_id: int = int32(-1, since=2)
    rack_id: str | None = string(None, since=3, null_since=3)


class _Assignment(Message, api_key=_NO_API, versions=(0, 3)):
    assigned_partitions: list[_Topic] = array(_Topic)
    user_data: bytes | None = blob(None, null_since=0)


class Subscription(NamedTuple):
    """A member's subscription, as the leader reads it."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    """The generation in which `owned` was assigned: of two members that claim a partition, the later one is right."""
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not part of these bytes; JoinGroup carries it beside them."""


class Assignment(NamedTuple):
    """What the leader decided for a member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """The bytes for JoinGroup, topics and partitions in order as Kafka writes them."""
    message = _Subscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(subscription.owned),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + message.encode(version)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """The subscription in `data`; raises WireError."""
    message = _Subscription.decode(data, _known_version(data, _Subscription, "subscription"), _VERSION.size)
    return Subscription(
        tuple(message.topics),
        message.user_data,
        _flat(message.owned_partitions),
        message.generation_id,
        message.rack_id,
        group_instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = 3) -> bytes:
    """The bytes for SyncGroup."""
    message = _Assignment(assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data)
    return _VERSION.pack(version) + message.encode(version)


def decode_assignment(data: bytes) -> Assignment:
    """The assignment in `data`; raises WireError."""
    message = _Assignment.decode(data, _known_version(data, _Assignment, "assignment"), _VERSION.size)
    return Assignment(_flat(message.assigned_partitions), message.user_data)


class StickyUserData(Message, api_key=_NO_API, versions=(0, 1)):
    """What the eager sticky assignor puts into `user_data`, without a version before it.

    Version 0 had no generation: its bytes end before it.
    """

    previous_assignment: list[_Topic] = array(_Topic)
    generation: int = int32(-1, since=1)


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """A member's last assignment for the leader's sticky assignor."""
    return StickyUserData(previous_assignment=_by_topic(partitions), generation=generation_id).encode(1)


def decode_sticky_user_data(data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """A member's last assignment and its generation; nothing, and -1, where the bytes say nothing of use."""
    if not data:
        return (), -1
    for version in (1, 0):
        try:
            message = StickyUserData.decode(data, version)
        except WireError:
            continue
        return _flat(message.previous_assignment), message.generation
    return (), -1


def _known_version(data: bytes, message: type[Message], what: str) -> int:
    if len(data) < _VERSION.size:
        raise WireError(f"a consumer's {what} of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"a consumer's {what} claims version {version}")
    return min(int(version), message.versions[1])


def _by_topic(partitions: Iterable[TopicPartition]) -> list[_Topic]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [_Topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def _flat(topics: Iterable[_Topic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in topics for partition in each.partitions)
