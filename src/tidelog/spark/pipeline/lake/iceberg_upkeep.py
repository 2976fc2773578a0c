"""What an Iceberg table no longer needs: snapshots that are too old, and files that nothing of it names.

Which these are is decided by pure functions. A file that no snapshot names may be one that a task has written a moment
ago and that a commit is about to name: only files that are older than any batch takes are removed, and they are listed
before the table is looked at. Snapshots that a branch or a tag names stay, and the last of each branch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.spark.pipeline.lake import storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FOLDERS: Final = ("data", "metadata")


class KnownSnapshot(NamedTuple):
    """A snapshot of a table."""

    snapshot_id: int
    parent_id: int | None
    made_ms: int


def expired(
    snapshots: Iterable[KnownSnapshot], heads: Iterable[int], *, before_ms: int, keep_last: int = 1
) -> list[int]:
    """Snapshots that were made before a time, except for the last ones of each branch and tag."""
    by_id = {each.snapshot_id: each for each in snapshots}
    kept = set()
    for head in heads:
        at: int | None = head
        for _ in range(keep_last):
            if at is None or at not in by_id:
                break
            kept.add(at)
            at = by_id[at].parent_id
    return [each.snapshot_id for each in by_id.values() if each.made_ms < before_ms and each.snapshot_id not in kept]


def orphans(found: Mapping[str, int], named: Iterable[str], *, before_ms: int) -> list[str]:
    """Of files and the times they were changed, those that are older than a time and that nothing names."""
    known = {place(path) for path in named}
    return [path for path, changed_ms in found.items() if changed_ms < before_ms and place(path) not in known]


def place(path: str) -> str:
    """A path without its scheme: `s3a://b/k` is `s3://b/k`, and `file:///t` is `/t`."""
    parts = urlsplit(path)
    return f"{parts.netloc}{parts.path}".strip("/") if parts.scheme else path.strip("/")


def known_snapshots(table: "Table") -> list[KnownSnapshot]:
    """The snapshots of a table."""
    return [
        KnownSnapshot(each.snapshot_id, each.parent_snapshot_id, each.timestamp_ms) for each in table.metadata.snapshots
    ]


def heads(table: "Table") -> list[int]:
    """The snapshots that branches and tags name."""
    named = [each.snapshot_id for each in table.metadata.refs.values()]
    current = table.metadata.current_snapshot_id
    return named if current is None else [*named, current]


def named_files(table: "Table") -> Iterator[str]:
    """Every file that the table needs: of all snapshots, and of the versions of its metadata that it remembers."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (each.metadata_file for each in metadata.metadata_log)
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)
    seen = set()
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (
                entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            )


def remove_orphans(load: "Callable[[], Table]", settings: storage.Settings, before_ms: int) -> int:
    """Delete files of a table that are older than a time and that nothing names; how many there were."""
    files, root = storage.files_of(load().location(), settings)
    found = dict(_files_below(files, root))
    # Looked at after the listing: what was named meanwhile is there.
    gone = orphans(found, named_files(load()), before_ms=before_ms)
    for path in gone:
        files.delete_file(path)
    return len(gone)


def _files_below(files: Any, root: str) -> Iterator[tuple[str, int]]:
    from pyarrow.fs import FileSelector, FileType

    for folder in _FOLDERS:
        for each in files.get_file_info(FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)):
            if each.type == FileType.File and each.mtime is not None:
                yield each.path, int(each.mtime.timestamp() * 1000)
