"""Chooses the partition of a key as Kafka's Java client does.

Records with a key go by Kafka's variant of murmur2.
"""

from functools import lru_cache
from struct import Struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF

# Keys of up to 256 bytes are read by a layout made beforehand, all words at once.
_WORDS = tuple(Struct(f"<{count}I").unpack_from for count in range(65))


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of `data`, unsigned."""
    length = len(data)
    value = _SEED ^ length
    count = length >> 2
    unpack = _WORDS[count] if count < len(_WORDS) else Struct(f"<{count}I").unpack_from
    for word in unpack(data):
        mixed = word * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ (mixed ^ mixed >> 24) * _MULTIPLIER & _MASK
    whole = count << 2
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ value >> 15


@lru_cache(maxsize=16384)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of `key`. The sign bit is dropped rather than negated, as Kafka does.

    Most topics see the same keys over and over, and looking one up costs a tenth of hashing it.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
