"""How many batches the bytes of one partition hold: for Produce requests whose bytes are not simply one batch.

Called by `produce`. The checks and their order are those with which Kafka looks at a request before it looks at a log:
what follows the last whole batch and is itself not whole is passed over, nonsense in a header is corruption.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.wire.errors import ApiError, ErrorCode

_unpack_length: Final = Struct(">i").unpack_from
_LENGTH_POSITION: Final = 8
_LENGTH_PREFIX_BYTES: Final = 12
_MAGIC_POSITION: Final = 16
_MAGIC_MAX: Final = 2
_LENGTH_MIN: Final = 14
"""Of a message of magic 0, the smallest thing that ever had this head."""


def first_size(records: memoryview) -> int | None:
    """The bytes of the first whole batch or message, or None when there is none; raises ApiError."""
    if len(records) < _LENGTH_PREFIX_BYTES:
        return None
    (length,) = _unpack_length(records, _LENGTH_POSITION)
    if length < _LENGTH_MIN:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch claims a length of {length}, less than any message has")
    if len(records) <= _MAGIC_POSITION:
        return None
    magic = records[_MAGIC_POSITION]
    if magic > _MAGIC_MAX:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch has magic {magic}, which is none of 0, 1 and 2")
    size = _LENGTH_PREFIX_BYTES + int(length)
    return size if size <= len(records) else None


def check_one_batch(records: memoryview, version: int) -> None:
    """Raise ApiError unless there is exactly one whole batch, of magic 2."""
    size = first_size(records)
    if size is None or records[_MAGIC_POSITION] != _MAGIC_MAX or first_size(records[size:]) is not None:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must hold exactly one record batch with magic version 2 "
            "a partition",
        )
