"""`tidelog export`: records of a topic into a Parquet file.

Exports the records that exist when the command starts. Records go from fetches to row groups of the file, so memory
does not grow with the topic. The file gets its name only when it is complete.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli._signals import ending_in_order
from tidelog.cli._verbs import verb
from tidelog.cli.consume import start_offsets
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.progress import Progress, progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.arrow_parts import load
from tidelog.client.types import TopicPartition

if TYPE_CHECKING:
    from pyarrow import Table

    from tidelog.client.consumer import Consumer

EXAMPLE: Final = "tidelog export orders orders.parquet --end-offset 2000"

_POLL_S: Final = 1.0
_IDLE_POLLS_MAX: Final = 60
_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_FETCH_BYTES: Final = 16 * 1024 * 1024


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "export", export, EXAMPLE)


def export(
    connection: Connection,
    topic: TopicName,
    file: Annotated[Path, typer.Argument(help="The Parquet file to write.", metavar="FILE", show_default=False)],
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
    offset: Annotated[
        str, typer.Option(help="Where to start: an offset, `earliest`, or -N for N before the end.")
    ] = "earliest",
    end_offset: Annotated[
        int | None, typer.Option(help="Stop before this offset.", min=0, show_default="the end")
    ] = None,
    read_committed: Annotated[bool, typer.Option("--read-committed", help="Leave out aborted transactions.")] = False,
    column: Annotated[
        list[str] | None, typer.Option(help="Only this column; may be repeated.", show_default="all")
    ] = None,
    compression: Annotated[str, typer.Option(help="Codec of the file: zstd, snappy, gzip, lz4 or none.")] = "zstd",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write the records of a topic to a Parquet file, with all their fields."""
    schema = load("schema")
    if column is not None and (unknown := [name for name in column if name not in schema.SCHEMA.names]):
        raise CommandError(f"--column {unknown[0]!r}: records have {', '.join(schema.SCHEMA.names)}")
    if compression not in {"zstd", "snappy", "gzip", "lz4", "none"}:
        raise CommandError(f"--compression {compression!r} must be one of zstd, snappy, gzip, lz4, none")
    if file.exists() and not overwrite:
        raise CommandError(f"{file} already exists; --overwrite replaces it")
    with connection.admin() as admin:
        partitions = partitions_or_all(admin, topic, partition)
        ranges = _ranges(admin, partitions, offset, end_offset, read_committed)
    settings = connection.settings(ConsumerSettings) | {
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "auto.offset.reset": "none",
        "enable.auto.commit": False,
        "fetch.max.bytes": _FETCH_BYTES,
        "max.partition.fetch.bytes": _FETCH_BYTES,
    }
    total = sum(end - start for start, end in ranges.values())
    with ending_in_order(), progress(f"export {topic}", total) as bar:
        count = _write(file, schema.schema_of(column), compression, _read(settings, topic, ranges, column, bar))
    size = file.stat().st_size
    if output is Format.JSON:
        offsets = {str(part): {"start": start, "end": end} for part, (start, end) in ranges.items()}
        print_json({"topic": topic, "file": str(file), "records": count, "bytes": size, "partitions": offsets})
    else:
        sys.stderr.write(f"{count:,} records of {topic} in {file}, {size:,} bytes\n")


def _ranges(
    admin: Admin, partitions: list[TopicPartition], offset: str, end_offset: int | None, committed: bool
) -> dict[int, tuple[int, int]]:
    """The offset range to read of each partition, within its current offsets; without empty ranges."""
    first = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    last = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=committed)
    starts = start_offsets(admin, partitions, offset)
    ranges: dict[int, tuple[int, int]] = {}
    for each in partitions:
        end = last[each].offset if end_offset is None else min(end_offset, last[each].offset)
        start = max(starts[each], first[each].offset)
        if start < end:
            ranges[each.partition] = (start, end)
    return ranges


def _read(
    settings: dict[str, Any],
    topic: str,
    ranges: dict[int, tuple[int, int]],
    columns: list[str] | None,
    bar: Progress,
) -> Iterator["Table"]:
    from tidelog.client.consumer import Consumer

    # Where a range ends before its partition does, these two are needed to cut it off.
    wanted = None if columns is None else list(dict.fromkeys([*columns, "partition", "offset"]))
    left = {TopicPartition(topic, part): end for part, (_, end) in ranges.items()}
    positions = {TopicPartition(topic, part): start for part, (start, _) in ranges.items()}
    with Consumer(settings) as consumer:
        consumer.assign(list(left))
        for where, start in positions.items():
            consumer.seek(where, start)
        idle = 0
        while left:
            table = consumer.poll_arrow(_POLL_S, wanted)
            moved = _advance(consumer, left, positions, bar)
            idle = 0 if moved else idle + 1
            if idle > _IDLE_POLLS_MAX:
                raise CommandError(f"no records of {', '.join(map(str, left))} for {idle * _POLL_S:.0f} s")
            if table.num_rows:
                kept = _before_ends(table, {part: end for part, (_, end) in ranges.items()})
                yield kept if columns is None else kept.select(columns)


def _advance(
    consumer: "Consumer", left: dict[TopicPartition, int], positions: dict[TopicPartition, int], bar: Progress
) -> bool:
    """Update the positions, and stop reading finished partitions. Returns whether a position changed."""
    moved = False
    for where, end in list(left.items()):
        position = min(consumer.position(where), end)
        if position != positions[where]:
            bar.advance(position - positions[where])
            positions[where] = position
            moved = True
        if position >= end:
            del left[where]
            consumer.pause(where)
    return moved


def _before_ends(table: "Table", ends: dict[int, int]) -> "Table":
    import pyarrow.compute as pc

    kept = None
    for part, end in ends.items():
        mask = pc.and_(pc.equal(table["partition"], part), pc.less(table["offset"], end))
        kept = mask if kept is None else pc.or_(kept, mask)
    return table if kept is None or pc.all(kept).as_py() else table.filter(kept)


def _write(file: Path, schema: Any, compression: str, tables: Iterator["Table"]) -> int:
    """Write a row group for about every 64 MiB; how many records there are."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    part = file.with_name(f".{file.name}.part")
    count = 0
    waiting: list[Table] = []
    try:
        with ParquetWriter(part, schema, compression=compression.upper()) as writer:
            for table in tables:
                waiting.append(table)
                count += table.num_rows
                if sum(each.nbytes for each in waiting) >= _ROW_GROUP_BYTES:
                    writer.write_table(pa.concat_tables(waiting))
                    waiting.clear()
            if waiting:
                writer.write_table(pa.concat_tables(waiting))
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
    return count
