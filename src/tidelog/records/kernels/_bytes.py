"""Numbers in byte arrays, as record batches write them. Compiled; called by the other kernels.

A varint that cannot be read has the position -1: kernels do not raise, they leave unusual input to the plain code.

Positions are signed numbers that are never negative where something is read. They index as unsigned ones: the compiler
then leaves out the code that lets -1 stand for the last element, and can take loops many bytes at a time.
"""

import numpy as np

from tidelog.records.kernels._compile import Bytes, Int, kernel

UNREADABLE = -1
_INT32_MAX = 2**31 - 1


@kernel
def int16_at(data: Bytes, position: Int) -> Int:
    value = (np.int64(data[np.uint64(position)]) << 8) | np.int64(data[np.uint64(position + 1)])
    return value - 0x10000 if value & 0x8000 else value


@kernel
def uint32_at(data: Bytes, position: Int) -> Int:
    return (
        (np.int64(data[np.uint64(position)]) << 24)
        | (np.int64(data[np.uint64(position + 1)]) << 16)
        | (np.int64(data[np.uint64(position + 2)]) << 8)
        | np.int64(data[np.uint64(position + 3)])
    )


@kernel
def int32_at(data: Bytes, position: Int) -> Int:
    value = uint32_at(data, position)
    return value - 0x100000000 if value & 0x80000000 else value


@kernel
def int64_at(data: Bytes, position: Int) -> Int:
    return (int32_at(data, position) << 32) | uint32_at(data, position + 4)


@kernel
def put_int16(data: Bytes, position: Int, value: Int) -> None:
    data[position] = (value >> 8) & 0xFF
    data[position + 1] = value & 0xFF


@kernel
def put_int32(data: Bytes, position: Int, value: Int) -> None:
    for index in range(4):
        data[position + index] = (value >> (24 - 8 * index)) & 0xFF


@kernel
def put_int64(data: Bytes, position: Int, value: Int) -> None:
    for index in range(8):
        data[position + index] = (value >> (56 - 8 * index)) & 0xFF


@kernel
def varint_at(data: Bytes, position: Int, end: Int) -> tuple[Int, Int]:
    """A 32-bit varint and the position after it."""
    value = np.int64(0)
    shift = np.int64(0)
    while True:
        if position >= end or shift > 28:
            return np.int64(0), np.int64(UNREADABLE)
        byte = np.int64(data[np.uint64(position)])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    decoded = (value >> 1) ^ -(value & 1)
    if decoded > _INT32_MAX or decoded < -_INT32_MAX - 1:
        return np.int64(0), np.int64(UNREADABLE)
    return decoded, np.int64(position)


@kernel
def varlong_at(data: Bytes, position: Int, end: Int) -> tuple[Int, Int]:
    """A 64-bit varint and the position after it."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        if position >= end or shift > np.uint64(63):
            return np.int64(0), np.int64(UNREADABLE)
        byte = np.uint64(data[np.uint64(position)])
        position += 1
        bits = byte & np.uint64(0x7F)
        if shift == np.uint64(63) and bits > np.uint64(1):
            return np.int64(0), np.int64(UNREADABLE)
        value |= bits << shift
        if byte < np.uint64(0x80):
            break
        shift += np.uint64(7)
    decoded = np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
    return decoded, np.int64(position)


@kernel
def copy(source: Bytes, start: Int, end: Int, target: Bytes, position: Int) -> None:
    """Copy source[start:end] to `position`. Assigning slices would be slower, also to compile."""
    first, to = np.uint64(start), np.uint64(position)
    for index in range(np.uint64(end - start)):
        target[to + index] = source[first + index]


@kernel
def put_varint(data: Bytes, position: Int, value: Int) -> Int:
    """Write a varint of up to 64 bits; the position after it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        data[np.uint64(position)] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
        position += 1
        rest >>= np.uint64(7)
    data[np.uint64(position)] = np.uint8(rest)
    return position + 1


@kernel
def varint_bytes(value: Int) -> Int:
    """How long `value` is as a varint."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size
