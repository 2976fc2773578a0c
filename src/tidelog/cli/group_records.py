"""Formats the records of `__consumer_offsets`: committed offsets and group metadata.

`tidelog consume __consumer_offsets --formatter offsets` prints them as Kafka's own formatter does:

    [billing,orders,3]::[OffsetMetadata[20,NO_METADATA],CommitTime 1598188355048,ExpirationTime 1598274755048]

A tombstone, which deletes an offset, is `::NULL`. Offsets committed without their own retention have no expiration
time: the broker's settings decide.
"""

import sys
from collections.abc import Iterable
from enum import StrEnum
from struct import Struct, error
from typing import Any, Final, NamedTuple

from tidelog.cli._options import Format
from tidelog.cli.output import print_json_lines, print_line
from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.groups.schemas import (
    GROUP_KEY_VERSION,
    NO_TIMESTAMP,
    OFFSET_KEY_VERSIONS,
    SchemaError,
    read_group_value,
    read_offset_value,
)
from tidelog.wire.primitives import uuid_to_text

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


class Formatter(StrEnum):
    """Which records are shown: committed offsets, or the groups themselves."""

    OFFSETS = "offsets"
    GROUPS = "groups"


class Key(NamedTuple):
    """What a record is about: a group, or a partition that it reads."""

    group: str
    topic: str | None = None
    partition: int = -1


def read_key(data: bytes | None) -> Key | None:
    """The key of a record; None for a record type that this version does not know."""
    try:
        version, position = _INT16.unpack_from(data or b"")[0], _INT16.size
        if version not in (*OFFSET_KEY_VERSIONS, GROUP_KEY_VERSION):
            return None
        group, position = _string(data or b"", position)
        if version == GROUP_KEY_VERSION:
            return Key(group)
        topic, position = _string(data or b"", position)
        return Key(group, topic, _INT32.unpack_from(data or b"", position)[0])
    except (error, UnicodeDecodeError):
        return None


def _string(data: bytes, position: int) -> tuple[str, int]:
    end = position + _INT16.size + _INT16.unpack_from(data, position)[0]
    return data[position + _INT16.size : end].decode(), end


def write_formatted(records: Iterable[ConsumerRecord], formatter: Formatter, output: Format) -> None:
    """Print the records that the formatter shows."""
    if output is Format.JSON:
        print_json_lines(each for record in records if (each := format_json(record, formatter)) is not None)
    else:
        for record in records:
            line = format_line(record, formatter)
            if line is not None:
                print_line(line)
    sys.stdout.flush()


def format_line(record: ConsumerRecord, formatter: Formatter) -> str | None:
    """One line for a record; None if the formatter does not show such records."""
    key = read_key(record.key)
    if key is None or (key.topic is None) == (formatter is Formatter.OFFSETS):
        return None
    if key.topic is not None:
        return f"[{key.group},{key.topic},{key.partition}]::{_offset_text(record.value)}"
    return f"{key.group}::{_group_text(record.value)}"


def format_json(record: ConsumerRecord, formatter: Formatter) -> dict[str, Any] | None:
    """The same as an object."""
    key = read_key(record.key)
    if key is None or (key.topic is None) == (formatter is Formatter.OFFSETS):
        return None
    try:
        if key.topic is not None:
            value = None if record.value is None else _offset_json(record.value)
            return {"group": key.group, "topic": key.topic, "partition": key.partition, "value": value}
        return {"group": key.group, "value": None if record.value is None else _group_json(record.value)}
    except SchemaError as problem:
        return {"group": key.group, "error": str(problem)}


def _offset_json(value: bytes) -> dict[str, Any]:
    committed = read_offset_value(value)
    return {**committed._asdict(), "topic_id": uuid_to_text(committed.topic_id)}


def _offset_text(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    try:
        committed = read_offset_value(value)
    except SchemaError as problem:
        return f"[{problem}]"
    expires = "NONE" if committed.expire_timestamp == NO_TIMESTAMP else committed.expire_timestamp
    return (
        f"[OffsetMetadata[{committed.offset},{committed.metadata or 'NO_METADATA'}],"
        f"CommitTime {committed.commit_timestamp},ExpirationTime {expires}]"
    )


def _group_text(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    try:
        group = read_group_value(value)
    except SchemaError as problem:
        return f"[{problem}]"
    members = " ".join(member.member_id for member in group.members) or "none"
    return (
        f"[GroupMetadata[generation {group.generation},{group.protocol_type},{group.protocol_name or 'no assignor'},"
        f"leader {group.leader_id or 'none'}],Members {members}]"
    )


def _group_json(value: bytes) -> dict[str, Any]:
    group = read_group_value(value)
    return {
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "state_since": group.state_since_ms,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
            }
            for member in group.members
        ],
    }
