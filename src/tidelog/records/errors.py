"""The errors of record data.

Parsers of this room raise only `CorruptRecordError`, for malformed bytes; the checks of an append raise the others.
Each class has the Kafka error code for the client, so that callers need no table.
"""

from typing import ClassVar

from tidelog.wire.errors import ErrorCode

RecordErrors = tuple[tuple[int, str], ...]


class CorruptRecordError(ValueError):
    """The bytes are malformed: bad length, magic, checksum, varint, or compressed data."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class ExpansionError(CorruptRecordError):
    """Compressed data expands beyond its limit."""


class InvalidRecordError(ValueError):
    """Records arrived intact, and this log must reject them.

    `record_errors` holds `(batch_index, message)` for each record at fault; it is empty when the batch as a whole is.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, record_errors: RecordErrors = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class InvalidTimestampError(InvalidRecordError):
    """Timestamps further from the broker's clock than the topic allows, or of a type only brokers may write."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TIMESTAMP


class RecordTooLargeError(ValueError):
    """A batch is larger than `max.message.bytes`."""

    code: ClassVar[ErrorCode] = ErrorCode.MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(ValueError):
    """A batch is larger than a whole segment may be (`segment.bytes`)."""

    code: ClassVar[ErrorCode] = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedCompressionError(ValueError):
    """The codec is unknown, or the requested format does not support it: messages before magic 2 have no Zstandard."""

    code: ClassVar[ErrorCode] = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
