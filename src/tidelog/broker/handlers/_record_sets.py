"""Checks of the bytes of one partition in a Produce request, by the version of the request.

These checks need no log. They are Kafka's, in Kafka's order, before it uses the log: an incomplete batch at the end is
ignored, an invalid header is corruption.
"""

from __future__ import annotations

from typing import Final

from tidelog.records.compression import Codec
from tidelog.records.header import (
    CODEC_MASK,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    read_length,
    unpack_length_magic_attributes,
)
from tidelog.wire.errors import ApiError, ErrorCode

_ONE_BATCH_FROM: Final = 3
_ZSTD_FROM: Final = 7
_HEAD_BYTES: Final = 23
"""From the offset to the attributes."""
_LENGTH_MIN: Final = 14
"""Of a message of magic 0, the smallest format with this header."""
_NO_HEAD: Final = (-1, -1, 0)


def has_records(view: memoryview, start: int, end: int, version: int, is_in_transaction: bool) -> bool:
    """Check `view[start:end]`; raises ApiError. `is_in_transaction`: the request names a transactional id.

    False when there is nothing to append, which is no error: before version 3 there may be no whole message.
    """
    size = end - start
    length, magic, attributes = unpack_length_magic_attributes(view, start) if size >= _HEAD_BYTES else _NO_HEAD
    if version < _ONE_BATCH_FROM:
        if _first_size(view[start:end]) is None:
            return False
    elif magic != MAGIC or length != size - LENGTH_PREFIX_BYTES:
        _check_one_batch(view[start:end], version)
    if magic == MAGIC:
        if attributes & TRANSACTIONAL_BIT and not is_in_transaction:
            raise _no_transactional_id()
        if version < _ZSTD_FROM and attributes & CODEC_MASK == Codec.ZSTD:
            raise _no_zstd(version)
    return True


def _check_one_batch(records: memoryview, version: int) -> None:
    """Raise ApiError unless there is exactly one whole batch, of magic 2."""
    size = _first_size(records)
    if size is None or records[MAGIC_POSITION] != MAGIC or _first_size(records[size:]) is not None:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must hold exactly one record batch with magic version 2 "
            "a partition",
        )


def _first_size(records: memoryview) -> int | None:
    """The bytes of the first whole batch or message, or None when there is none; raises ApiError."""
    if len(records) < LENGTH_PREFIX_BYTES:
        return None
    length = read_length(records)
    if length < _LENGTH_MIN:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch claims a length of {length}, less than any message has")
    if len(records) <= MAGIC_POSITION:
        return None
    magic = records[MAGIC_POSITION]
    if magic > MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch has magic {magic}, which is none of 0, 1 and 2")
    size = LENGTH_PREFIX_BYTES + length
    return size if size <= len(records) else None


def _no_transactional_id() -> ApiError:
    """The error that Kafka gives to a transactional batch in a request without a transactional id."""
    return ApiError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch of a transaction came in a request without a transactional id",
    )


def _no_zstd(version: int) -> ApiError:
    """Zstandard came with version 7: a client that speaks less could not read its own records back (KIP-110)."""
    return ApiError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version 7 or newer, this is version {version}"
    )
