"""The form of a group's records in `__consumer_offsets`, for each kind of group of the newer protocols.

A key is the number of its kind, the group and, for records of members, the member. A value is its version, of which
there is one, and a message.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tidelog.coordination import StateRecord
from tidelog.groups.schemas import SchemaError
from tidelog.wire.errors import WireError
from tidelog.wire.schema import Message

_VERSION: Final = b"\0\0"
_HEAD: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")


class RecordKey(NamedTuple):
    """The key of a record; `member_id` is empty for records of the group as a whole."""

    kind: int
    group_id: str
    member_id: str


class RecordForm:
    """The records of one kind of group: the message of each kind of record, and which of them are of members."""

    def __init__(self, values: Mapping[int, type[Message]], of_members: Collection[int]) -> None:
        self._values = values
        self._of_members = frozenset(of_members)

    def read_key(self, key: bytes) -> RecordKey:
        """Decode a key; raises SchemaError if it is malformed."""
        try:
            kind, length = _HEAD.unpack_from(key)
            end = _HEAD.size + length
            group_id = key[_HEAD.size : end].decode()
            member_id = ""
            if kind in self._of_members:
                (length,) = _LENGTH.unpack_from(key, end)
                start, end = end + _LENGTH.size, end + _LENGTH.size + length
                member_id = key[start:end].decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise SchemaError(f"the key cannot be read: {error}") from None
        if end != len(key):
            raise SchemaError(f"a key of {len(key)} bytes claims {end} bytes")
        return RecordKey(kind, group_id, member_id)

    def read_value(self, kind: int, value: bytes) -> Message:
        """Decode a value; raises SchemaError if it is malformed or of an unknown version."""
        if value[:2] != _VERSION:
            raise SchemaError(f"the value has unknown version {value[:2].hex()}")
        try:
            return self._values[kind].decode(value, 0, 2)
        except WireError as error:
            raise SchemaError(str(error)) from None

    def record(self, kind: int, group_id: str, member_id: str, value: Message | None) -> StateRecord:
        """A record to append. A null value is a tombstone: it removes the key."""
        name = group_id.encode()
        key = _HEAD.pack(kind, len(name)) + name
        if kind in self._of_members:
            member = member_id.encode()
            key += _LENGTH.pack(len(member)) + member
        return key, None if value is None else _VERSION + value.encode(0)
