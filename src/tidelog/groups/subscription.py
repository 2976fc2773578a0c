"""Reads the subscribed topics from the metadata of classic members.

Offsets of topics that no member reads may be deleted, or expire. Only the version and the list of topics are read;
every version of the consumer protocol begins with them.
"""

from __future__ import annotations

import struct
from typing import Final

CONSUMER_PROTOCOL: Final = "consumer"
_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None if it is malformed."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        position = _VERSION_AND_COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size + length
            if length < 0 or position > len(metadata):
                return None
            topics.append(metadata[position - length : position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
