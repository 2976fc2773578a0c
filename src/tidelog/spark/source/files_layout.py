"""The contents of a log directory: partitions, their segments and start offsets. Called by `files_plan`.

Directories of Apache Kafka and of Tidelog look alike. They are only read, and a broker may be at work in them: segments
on their way in or out (`.deleted`, `.cleaned`, `.swap`) and partitions on theirs (`-delete`, `-future`, `-stray`) are
passed over.
"""

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from typing import Final, NamedTuple

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError
from tidelog.storage.checkpoints import LOG_START_OFFSET_FILE, OffsetCheckpointFile
from tidelog.storage.directories.log_directory import (
    DirectoryNameError,
    PartitionDirectory,
    PartitionState,
    parse_directory_name,
)
from tidelog.storage.names import LOG_SUFFIX, offset_of, segment_path

_LOCAL_SCHEME: Final = "file:"


class Segment(NamedTuple):
    """One file of batches. What is appended after it was looked at is not read."""

    directory: str
    base_offset: int
    size_bytes: int
    is_last: bool
    """Whether it is the segment that is being written, whose end may be torn."""

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX)

    def beside(self, suffix: str) -> str:
        """The path of the segment's index with this suffix."""
        return segment_path(self.directory, self.base_offset, suffix)


class PartitionFiles(NamedTuple):
    """The files of one topic-partition."""

    topic: str
    partition: int
    directory: str
    start_offset: int
    """The first offset that is to be seen: retention and DeleteRecords may have passed the beginning of a file."""
    segments: tuple[Segment, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def find_partitions(path: str) -> list[PartitionFiles]:
    """The topic-partitions under `path`: log directories, partitions' directories, patterns, separated by commas.

    Raises OptionError where there are none, or where one is found twice.
    """
    found: dict[tuple[str, int], PartitionFiles] = {}
    for directory in _directories(path):
        for files in _partitions_under(directory):
            key = files.topic, files.partition
            if key in found and found[key].directory != files.directory:
                raise OptionError(
                    f"{files.name} is found twice, in {found[key].directory} and in {files.directory}: "
                    "option 'path' must name one copy of a partition"
                )
            found[key] = files
    if not found:
        raise OptionError(f"option 'path' is {path!r}: it has no partition directory")
    return [found[key] for key in sorted(found)]


def _directories(path: str) -> Iterator[str]:
    for piece in filter(None, (each.strip() for each in path.split(","))):
        local = _without_scheme(piece)
        matches = sorted(glob(local)) if has_magic(local) else [local]
        directories = [match for match in matches if os.path.isdir(match)]
        if not directories:
            raise OptionError(f"option 'path' names {piece!r}: there is no such directory")
        yield from directories


def _without_scheme(piece: str) -> str:
    if piece.startswith(_LOCAL_SCHEME):
        rest = piece.removeprefix(_LOCAL_SCHEME)
        return rest[2:] if rest.startswith("//") else rest
    if "://" in piece:
        raise OptionError(f"option 'path' names {piece!r}: segments are read from local or mounted directories")
    return piece


def _partitions_under(directory: str) -> Iterator[PartitionFiles]:
    directory = os.path.abspath(directory)
    parent, name = os.path.split(directory)
    own = _live_partition(name)
    if own is not None and _segment_offsets(directory):
        yield _files_of(own, directory, _start_offsets(parent))
        return
    starts = _start_offsets(directory)
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    for each in names:
        partition = _live_partition(each)
        if partition is not None:
            yield _files_of(partition, os.path.join(directory, each), starts)


def _live_partition(name: str) -> PartitionDirectory | None:
    try:
        partition = parse_directory_name(name)
    except DirectoryNameError:
        return None
    return partition if partition.state is PartitionState.LIVE else None


def _start_offsets(directory: str) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(directory, LOG_START_OFFSET_FILE).read()


def _files_of(partition: PartitionDirectory, directory: str, starts: dict[tuple[str, int], int]) -> PartitionFiles:
    bases = _segment_offsets(directory)
    segments = tuple(
        Segment(directory, base, os.path.getsize(segment_path(directory, base, LOG_SUFFIX)), base == bases[-1])
        for base in bases
    )
    first = bases[0] if bases else 0
    start = max(first, starts.get(partition.topic_partition, 0))
    return PartitionFiles(partition.topic, partition.partition, directory, start, segments)


def _segment_offsets(directory: str) -> list[int]:
    """The base offsets of the segments; files with a further suffix are on their way in or out."""
    return sorted(_offsets_in(os.listdir(directory)))


def _offsets_in(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        offset = offset_of(name)
        if offset is not None and name.endswith(LOG_SUFFIX) and name.count(".") == 1:
            yield offset
