"""`tidelog consume`: records of chosen partitions, from chosen offsets on."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._errors import CommandError
from tidelog.cli._options import (
    BootstrapServer,
    CommandConfig,
    Format,
    OutputFormat,
    TopicName,
    connect,
    partitions_or_all,
)
from tidelog.cli._output import bytes_for_json, print_json_lines
from tidelog.cli._verbs import verb
from tidelog.cli.group_records import Formatter, write_formatted
from tidelog.client.cluster import ClusterClient
from tidelog.client.offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.reader import Fetched, RecordReader

EXAMPLE: Final = "tidelog consume orders --from-beginning --max-messages 10"

_POLL_MS: Final = 250


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "consume", consume, EXAMPLE)


class Shown(NamedTuple):
    """Which parts of a record are printed before its value."""

    timestamp: bool
    partition: bool
    offset: bool
    headers: bool
    key: bool
    separator: bytes


def consume(
    topic: TopicName,
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
    offset: Annotated[
        str, typer.Option(help="Where to start: an offset, `earliest`, `latest`, or -N for N before the end.")
    ] = "latest",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="The same as --offset earliest.")] = False,
    max_messages: Annotated[
        int | None, typer.Option(help="Stop after so many records.", min=1, show_default="no end")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop when nothing came for so many seconds.", show_default="never")
    ] = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at the end as it is when starting.")] = False,
    read_committed: Annotated[bool, typer.Option("--read-committed", help="Leave out aborted transactions.")] = False,
    print_key: Annotated[bool, typer.Option("--print-key", help="Show the key.")] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Show the headers.")] = False,
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Show the timestamp.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Show the offset.")] = False,
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Show the partition.")] = False,
    key_separator: Annotated[str, typer.Option(help="Between the parts of a line.", show_default="a tab")] = "\t",
    group: Annotated[str | None, typer.Option(help="Read as a member of this group, and commit what was read.")] = None,
    formatter: Annotated[
        Formatter | None, typer.Option(help="For __consumer_offsets: show committed offsets, or groups.")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Print the records of a topic, a line each."""
    shown = Shown(print_timestamp, print_partition, print_offset, print_headers, print_key, key_separator.encode())
    write = _writer(topic, shown, formatter, output)
    if group is not None:
        if partition or offset != "latest" or until_end:
            raise CommandError("with --group, leave out --partition, --offset and --until-end: the group decides")
        from tidelog.cli._clients import client_settings
        from tidelog.cli._signals import ending_in_order
        from tidelog.cli.group_consume import read_as_member

        settings = {
            "group.id": group,
            "auto.offset.reset": "earliest" if from_beginning else "latest",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
        connection = client_settings(bootstrap_server, command_config)
        with (
            ending_in_order(),
            closing(read_as_member(connection | settings, topic, max_messages, timeout)) as chunks,
        ):
            for records in chunks:
                write(records)
        return
    with connect(bootstrap_server, command_config) as cluster:
        partitions = partitions_or_all(cluster, topic, partition)
        starts = start_offsets(cluster, topic, partitions, "earliest" if from_beginning else offset)
        ends = _latest(cluster, topic, partitions, read_committed) if until_end else None
        reader = RecordReader(cluster, topic, starts, read_committed=read_committed)
        for records in read_in_chunks(reader, ends, timeout, max_messages):
            write(records)


def _writer(topic: str, shown: Shown, formatter: Formatter | None, output: Format) -> Callable[[list[Fetched]], None]:
    """What puts the records of one poll on stdout, in one write."""
    if formatter is not None:
        return lambda records: write_formatted([fetched.record for fetched in records], formatter, output)

    def write(records: list[Fetched]) -> None:
        if output is Format.JSON:
            print_json_lines(as_json(topic, fetched) for fetched in records)
        else:
            sys.stdout.buffer.write(b"".join(as_line(fetched, shown) for fetched in records))
        sys.stdout.flush()

    return write


def start_offsets(cluster: ClusterClient, topic: str, partitions: list[int], where: str) -> dict[int, int]:
    """The offset each partition is read from."""
    if where in {"earliest", "latest"}:
        found = list_offsets(cluster, topic, dict.fromkeys(partitions, EARLIEST if where == "earliest" else LATEST))
        return {part: place.offset for part, place in found.items()}
    if where.isascii() and where.isdigit():
        return dict.fromkeys(partitions, int(where))
    if where.startswith("-") and where[1:].isascii() and where[1:].isdigit():
        first = start_offsets(cluster, topic, partitions, "earliest")
        last = start_offsets(cluster, topic, partitions, "latest")
        return {part: max(first[part], last[part] - int(where[1:])) for part in partitions}
    raise CommandError(f"--offset {where!r} is neither an offset, nor -N, nor `earliest`, nor `latest`")


def _latest(cluster: ClusterClient, topic: str, partitions: list[int], read_committed: bool) -> dict[int, int]:
    found = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    return {part: place.offset for part, place in found.items()}


def read_in_chunks(
    reader: RecordReader, ends: dict[int, int] | None, timeout_s: float | None, most: int | None
) -> Iterator[list[Fetched]]:
    """What each poll brings, until the ends are reached, `most` records came or none did for `timeout_s`."""
    idle_since = time.monotonic()
    wait_ms = _POLL_MS if timeout_s is None else max(1, min(_POLL_MS, int(timeout_s * 1000)))
    count = 0
    while ends is None or any(reader.positions[part] < end for part, end in ends.items()):
        polled = (
            fetched
            for fetched in reader.poll(wait_ms)
            if ends is None or fetched.record.offset < ends[fetched.partition]
        )
        records = list(islice(polled, None if most is None else most - count))
        if records:
            yield records
            idle_since = time.monotonic()
            count += len(records)
        if count == most or (timeout_s is not None and time.monotonic() - idle_since >= timeout_s):
            return


def as_line(fetched: Fetched, shown: Shown) -> bytes:
    """A record as Kafka's console consumer prints it."""
    record = fetched.record
    parts: list[bytes] = []
    if shown.timestamp:
        parts.append(b"%s:%d" % (b"LogAppendTime" if fetched.is_log_append_time else b"CreateTime", record.timestamp))
    if shown.partition:
        parts.append(b"Partition:%d" % fetched.partition)
    if shown.offset:
        parts.append(b"Offset:%d" % record.offset)
    if shown.headers:
        pairs = [name.encode() + b":" + _or_null(value) for name, value in record.headers]
        parts.append(b",".join(pairs) or b"NO_HEADERS")
    if shown.key:
        parts.append(_or_null(record.key))
    parts.append(_or_null(record.value))
    return shown.separator.join(parts) + b"\n"


def _or_null(data: bytes | None) -> bytes:
    return b"null" if data is None else bytes(data)


def as_json(topic: str, fetched: Fetched) -> dict[str, Any]:
    """A record as one JSON object; bytes that are no text come as base64 under their own name."""
    record = fetched.record
    return {
        "topic": topic,
        "partition": fetched.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if fetched.is_log_append_time else "CreateTime",
        **bytes_for_json("key", record.key),
        **bytes_for_json("value", record.value),
        "headers": [{"name": name, **bytes_for_json("value", value)} for name, value in record.headers],
    }
