"""New uuids, for topics and clusters."""

import os
from collections.abc import Callable

from tidelog.wire.primitives import uuid_to_text


def random_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    """A random uuid (version 4) whose text does not start with a dash, which command lines would take for an option.

    Kafka's reserved ids, all zeros but for the last bits, cannot come out: the version bits are set.
    """
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = bytes(raw)
        if not uuid_to_text(uuid).startswith("-"):
            return uuid
