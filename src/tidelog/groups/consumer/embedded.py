"""The subscriptions and assignments that classic consumers wrap into JoinGroup and SyncGroup.

In a group of the classic protocol they are opaque to the coordinator. In a consumer group the coordinator assigns to
classic members too, so it reads their subscriptions and writes their assignments. An unknown newer version is read as
the newest known one: each version only adds fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.groups.schemas import SchemaError
from tidelog.wire.errors import WireError
from tidelog.wire.schema import Message, Struct, array, blob, int32, string

_VERSION: Final = struct.Struct(">h")
_VERSION_MAX: Final = 3

Named = Mapping[str, frozenset[int]]
"""Partitions by topic name."""


class _Topic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class _Subscription(Message, api_key=-1, versions=(0, _VERSION_MAX)):
    topics: list[str] = array(string)
    user_data: bytes | None = blob(None, null_since=0)
    owned_partitions: list[_Topic] = array(_Topic, since=1)
    generation_id: int = int32(-1, since=2)
    rack_id: str | None = string(None, since=3, null_since=3)


class _Assignment(Message, api_key=-1, versions=(0, _VERSION_MAX)):
    assigned_partitions: list[_Topic] = array(_Topic)
    user_data: bytes | None = blob(None, null_since=0)


class Subscription(NamedTuple):
    """Subscribed topics and owned partitions of a classic consumer; an eager one owns none while it joins."""

    topics: tuple[str, ...]
    owned: Named
    rack_id: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """Decode a subscription; raises SchemaError if it is malformed."""
    try:
        found = _Subscription.decode(metadata, _version(metadata), _VERSION.size)
    except WireError as error:
        raise SchemaError(f"the subscription cannot be read: {error}") from None
    return Subscription(tuple(sorted(set(found.topics))), _by_name(found.owned_partitions), found.rack_id or None)


def read_assignment(data: bytes) -> Named:
    """Decode an assignment; raises SchemaError if it is malformed. A member that has never synced has no bytes."""
    if not data:
        return {}
    try:
        found = _Assignment.decode(data, _version(data), _VERSION.size)
    except WireError as error:
        raise SchemaError(f"the assignment cannot be read: {error}") from None
    return _by_name(found.assigned_partitions)


def write_assignment(assignment: Named, metadata: bytes) -> bytes:
    """Encode an assignment in the version of the member's subscription."""
    version = _version(metadata) if _is_versioned(metadata) else 0
    topics = [_Topic(topic=name, partitions=sorted(found)) for name, found in sorted(assignment.items())]
    return _VERSION.pack(version) + _Assignment(assigned_partitions=topics).encode(version)


def _is_versioned(data: bytes) -> bool:
    return len(data) >= _VERSION.size and data[0] < 0x80


def _version(data: bytes) -> int:
    if not _is_versioned(data):
        raise SchemaError(f"the consumer protocol bytes have no version: {data[:8].hex()}")
    version: int = _VERSION.unpack_from(data)[0]
    return min(version, _VERSION_MAX)


def _by_name(topics: Iterable[_Topic]) -> Named:
    found: dict[str, frozenset[int]] = {}
    for entry in topics:
        if entry.partitions:
            found[entry.topic] = found.get(entry.topic, frozenset()) | frozenset(entry.partitions)
    return found
