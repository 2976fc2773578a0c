"""What can be wrong with record data, as exceptions.

Parsers of this room raise `CorruptRecordError` for bytes that break the format and nothing else; the checks of an
append raise the others. Each class names the Kafka error code a client is answered with, so that callers need no table
of their own.
"""

from typing import ClassVar


class CorruptRecordError(ValueError):
    """The bytes are not what the format says: bad length, magic, checksum, varint, or compressed data."""

    code: ClassVar[int] = 2  # CORRUPT_MESSAGE


class InvalidRecordError(ValueError):
    """Well-formed records that this log must refuse.

    `record_errors` holds `(batch_index, message)` for each record at fault; it is empty when the batch as a whole is.
    """

    code: ClassVar[int] = 87  # INVALID_RECORD

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class InvalidTimestampError(InvalidRecordError):
    """Timestamps further from the broker's clock than the topic allows."""

    code: ClassVar[int] = 32  # INVALID_TIMESTAMP


class RecordTooLargeError(ValueError):
    """A batch is larger than `max.message.bytes`."""

    code: ClassVar[int] = 10  # MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(ValueError):
    """The record set is larger than one segment may be (`segment.bytes`)."""

    code: ClassVar[int] = 18  # RECORD_LIST_TOO_LARGE


class UnsupportedCompressionError(ValueError):
    """The codec exists but not for this format version: Zstandard needs magic 2 and Produce 7 or Fetch 10."""

    code: ClassVar[int] = 76  # UNSUPPORTED_COMPRESSION_TYPE
