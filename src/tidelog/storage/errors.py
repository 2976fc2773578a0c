"""Errors of the files of a log. Errors for clients are `ApiError`s.

StorageError
├── LogDirFailure          the operating system returned an error; the whole log directory goes offline
├── CorruptIndexError      an index does not fit its segment; recovery rebuilds it
├── CorruptSnapshotError   a producer snapshot cannot be read; an older one is used
└── AppendOffsetError      fetched batches do not continue the log

ApiError
└── OutOfDescriptorsError  no file can be opened for now; the disk has not failed, and a retry may succeed
"""

from typing import ClassVar

from tidelog.wire.errors import ApiError, ErrorCode


class StorageError(Exception):
    """The files of a log are damaged or cannot be used. A client whose request fails because of it gets `code`."""

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR

    def for_client(self) -> ApiError:
        """This error as an `ApiError`."""
        return ApiError(self.code, str(self))


class LogDirFailure(StorageError):  # noqa: N818 -- Kafka's word for the event, which is not always an error of ours
    """The operating system failed to write, sync, rename or read in a log directory."""

    def __init__(self, directory: str, cause: BaseException) -> None:
        super().__init__(f"log directory {directory} failed: {cause}")
        self.directory = directory
        self.cause = cause


class OutOfDescriptorsError(ApiError):
    """The process, or the whole system, has no file descriptor left. Clients retry."""

    def __init__(self, path: str) -> None:
        text = f"cannot open {path}: no file descriptor is left; raise the limit (ulimit -n)"
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


class CorruptIndexError(StorageError):
    """An index file contradicts itself or its segment."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot is truncated, of an unknown version, or fails its checksum."""


class AppendOffsetError(StorageError):
    """Batches that a follower fetched do not continue its log: below its end, or not in ascending order."""

    def __init__(self, name: str, first_offset: int, last_offset: int, next_offset: int) -> None:
        super().__init__(
            f"cannot append offsets {first_offset} to {last_offset} to {name}: the next offset is {next_offset}"
        )
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.next_offset = next_offset
