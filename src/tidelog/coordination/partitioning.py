"""Which partition of an internal topic keeps a group or a transactional id."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_INT_MIN: Final = -(2**31)


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: 31·h + c over UTF-16 code units, in 32 bits with sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    return value - 2**32 if value & 0x8000_0000 else value


@lru_cache(maxsize=4096)
def partition_for(key: str, partition_count: int) -> int:
    """Kafka's `Utils.abs(hashCode) % partitions`; the one value without a positive counterpart counts as 0."""
    value = java_string_hash(key)
    return (0 if value == _INT_MIN else abs(value)) % partition_count
