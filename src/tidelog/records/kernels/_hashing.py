"""The two hashes that compaction needs compiled: SipHash-2-4 with 128 bits for keys, CRC-32C for batches.

Keys are compared by their hash alone, as in Kafka. A producer chooses its keys, so the hash has a secret that changes
with every cleaning: two keys cannot be made to collide on purpose, and by chance it takes 2^64 keys.
"""

import numpy as np
from numpy.typing import NDArray

from tidelog.records.kernels._compile import Bytes, Int, kernel

_POLYNOMIAL = 0x82F63B78


def _crc_tables() -> NDArray[np.uint32]:
    """Eight tables, so that a step of the loop takes eight bytes (slicing by 8)."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, 8):
        for byte in range(256):
            previous = int(tables[number - 1, byte])
            tables[number, byte] = (previous >> 8) ^ int(tables[0, previous & 0xFF])
    return tables


_TABLES = _crc_tables()


@kernel
def crc32c(data: Bytes, start: Int, end: Int) -> Int:
    """The CRC-32C of data[start:end]."""
    crc = np.uint32(0xFFFFFFFF)
    position = start
    while position + 8 <= end:
        at = np.uint64(position)
        low = crc ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + np.uint64(1)]) << np.uint32(8))
            | (np.uint32(data[at + np.uint64(2)]) << np.uint32(16))
            | (np.uint32(data[at + np.uint64(3)]) << np.uint32(24))
        )
        crc = (
            _TABLES[7, low & np.uint32(0xFF)]
            ^ _TABLES[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ _TABLES[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, data[at + np.uint64(4)]]
            ^ _TABLES[2, data[at + np.uint64(5)]]
            ^ _TABLES[1, data[at + np.uint64(6)]]
            ^ _TABLES[0, data[at + np.uint64(7)]]
        )
        position += 8
    while position < end:
        crc = (crc >> np.uint32(8)) ^ _TABLES[0, (crc ^ np.uint32(data[np.uint64(position)])) & np.uint32(0xFF)]
        position += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@kernel
def _rotate(value: np.uint64, bits: Int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v1 = _rotate(v1, 13)
    v1 ^= v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16)
    v3 ^= v2
    v0 += v3
    v3 = _rotate(v3, 21)
    v3 ^= v0
    v2 += v1
    v1 = _rotate(v1, 17)
    v1 ^= v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@kernel
def _word(data: Bytes, position: Int, count: Int) -> np.uint64:
    """`count` bytes, least significant first."""
    value = np.uint64(0)
    for index in range(count):
        value |= np.uint64(data[np.uint64(position + index)]) << np.uint64(8 * index)
    return value


@kernel
def siphash(
    data: Bytes, start: Int, end: Int, secret_low: np.uint64, secret_high: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """The two halves of the hash of data[start:end]."""
    v0 = secret_low ^ np.uint64(0x736F6D6570736575)
    v1 = secret_high ^ np.uint64(0x646F72616E646F83)
    v2 = secret_low ^ np.uint64(0x6C7967656E657261)
    v3 = secret_high ^ np.uint64(0x7465646279746573)
    position = start
    while position + 8 <= end:
        word = _word(data, position, 8)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        position += 8
    word = _word(data, position, end - position) | (np.uint64((end - start) & 0xFF) << np.uint64(56))
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3
