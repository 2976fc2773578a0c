"""`tidelog import`: rows of a Parquet file into a topic.

Files of `tidelog export` are imported with keys, values, timestamps and headers, and with --keep-partitions into the
same partitions. For other files, give the columns. Rows are sent by row group, so memory does not grow with the file.
"""

import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli._signals import ending_in_order
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.produce import Compression
from tidelog.cli.progress import Progress, progress
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.arrow_parts import load

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

EXAMPLE: Final = "tidelog import orders.parquet orders --keep-partitions"

_ROWS_AT_ONCE: Final = 64 * 1024
_UNDER_WAY_MAX: Final = 4
"""Pieces of a file that may wait for acknowledgement."""


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "import", import_, EXAMPLE)


def import_(
    connection: Connection,
    file: Annotated[Path, typer.Argument(help="The Parquet file to read.", metavar="FILE", show_default=False)],
    topic: TopicName,
    key: Annotated[
        str | None, typer.Option(help="Column of keys; `none` for no keys.", show_default="key, if there")
    ] = None,
    value: Annotated[str, typer.Option(help="Column of values.")] = "value",
    timestamp: Annotated[
        str | None,
        typer.Option(help="Column of times; `none` for the time of the import.", show_default="timestamp, if there"),
    ] = None,
    headers: Annotated[
        str | None, typer.Option(help="Column of headers; `none` for none.", show_default="headers, if there")
    ] = None,
    partition: Annotated[int | None, typer.Option(help="The partition of all rows.", min=0, show_default=False)] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Take partitions from the column `partition`.")
    ] = False,
    compression: Annotated[Compression, typer.Option(help="Codec of the batches.")] = Compression.NONE,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Send the rows of a Parquet file to a topic, in order."""
    load("writing")
    if partition is not None and keep_partitions:
        raise CommandError("--partition and --keep-partitions cannot be used together")
    settings = connection.settings(ProducerSettings) | {"compression.type": compression.value}
    with _open(file) as source:
        names = source.schema_arrow.names
        meaning = {
            "key": _column(names, "key", key),
            "value": _named(names, "value", value),
            "timestamp": _column(names, "timestamp", timestamp),
            "headers": _column(names, "headers", headers),
            "partition": _named(names, "partition", "partition") if keep_partitions else partition,
        }
        with ending_in_order(), progress(f"import {file.name}", source.metadata.num_rows) as bar:
            count, offsets = _send(settings, source, topic, meaning, bar)
    if output is Format.JSON:
        ranges = {str(part): {"first": first, "last": last} for part, (first, last) in sorted(offsets.items())}
        print_json({"file": str(file), "topic": topic, "records": count, "partitions": ranges})
    else:
        sys.stderr.write(f"{count:,} rows of {file} acknowledged by {topic}\n")


def _open(file: Path) -> "ParquetFile":
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    if not file.is_file():
        raise CommandError(f"{file} is not a file")
    try:
        return ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise CommandError(f"{file}: {error}") from error


def _column(names: list[str], default: str, given: str | None) -> str | None:
    """The given column, else the one with the default name if it exists."""
    if given == "none":
        return None
    if given is None:
        return default if default in names else None
    return _named(names, default, given)


def _named(names: list[str], what: str, name: str) -> str:
    if name not in names:
        raise CommandError(f"no column {name!r} for the {what}; the file has {', '.join(names)}")
    return name


def _send(
    settings: dict[str, Any], source: "ParquetFile", topic: str, meaning: dict[str, Any], bar: Progress
) -> tuple[int, dict[int, tuple[int, int]]]:
    """Send every row. Returns the row count, and the first and last offset by partition."""
    from tidelog.client.producer import Producer

    count = 0
    offsets: dict[int, tuple[int, int]] = {}
    under_way: deque[Any] = deque()

    def settle(at_most: int) -> None:
        nonlocal count
        while len(under_way) > at_most:
            sent = under_way.popleft().result()
            count += sent.record_count
            bar.advance(sent.record_count)
            for part, (first, last) in sent.offsets.items():
                offsets[part] = (offsets.get(part, (first, last))[0], last)

    columns = [name for name in dict.fromkeys(meaning.values()) if isinstance(name, str)]
    with Producer(settings) as producer:
        for batch in source.iter_batches(_ROWS_AT_ONCE, columns=columns):
            settle(_UNDER_WAY_MAX - 1)
            try:
                under_way.append(producer.send_arrow(batch, topic=topic, **meaning))
            except ValueError as error:
                raise CommandError(f"{error} (after {count:,} rows)") from error
        settle(0)
    return count, offsets
