"""File names inside a partition's directory, as Kafka writes them."""

from typing import Final

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
DELAYED_CHECKPOINT: Final = "delayed-records-checkpoint"
"""Tidelog's own; Kafka ignores it."""
DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
FILE_NAME_MAX: Final = 255

REPLACEMENT_FILE: Final = "tidelog-replacement"
"""In a directory that takes the place of another one: it distinguishes the two if a crash leaves both."""


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """The path of one file of a segment, such as `…/00000000000000000121.log`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def offset_of(file_name: str) -> int | None:
    """The offset a file name starts with, or None when it does not begin with 20 digits and a dot."""
    stem, dot, _ = file_name.partition(".")
    return int(stem) if dot and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def partition_directory(topic: str, partition: int) -> str:
    """The directory name of a partition."""
    return f"{topic}-{partition}"


def delete_directory(topic: str, partition: int, unique: str) -> str:
    """The name a partition's directory gets while it waits to be deleted, at most 255 characters long.

    `unique` is a UUID without dashes; the topic name is shortened where the whole would be too long for a file name.
    """
    tail = f"-{partition}.{unique}{DELETE_DIR_SUFFIX}"
    return topic[: FILE_NAME_MAX - len(tail)] + tail


def future_directory(topic: str, partition: int, unique: str) -> str:
    """The name of the directory in which a copy of a partition is made. It may be too long for a file name."""
    return f"{topic}-{partition}.{unique}{FUTURE_DIR_SUFFIX}"
