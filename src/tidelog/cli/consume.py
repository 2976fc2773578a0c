"""`tidelog consume`: records of chosen partitions, from chosen offsets on, or with `--group` as a member of a group."""

import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli._signals import ending_in_order
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.group_records import Formatter, write_formatted
from tidelog.cli.output import bytes_for_json, print_json_lines
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.errors import OffsetOutOfRange
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, TimestampType
from tidelog.client.consumer import Consumer
from tidelog.client.types import TopicPartition

EXAMPLE: Final = "tidelog consume orders --from-beginning --max-messages 10"

_POLL_S: Final = 0.25
_FIRST_ANSWER_S: Final = 10.0
_TIMESTAMP_TYPES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


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
    connection: Connection,
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
        float | None, typer.Option(help="Stop after this many seconds without records.", show_default="never")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end offsets as of the start of the command.")
    ] = False,
    read_committed: Annotated[bool, typer.Option("--read-committed", help="Leave out aborted transactions.")] = False,
    print_key: Annotated[bool, typer.Option("--print-key", help="Show the key.")] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Show the headers.")] = False,
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Show the timestamp.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Show the offset.")] = False,
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Show the partition.")] = False,
    key_separator: Annotated[str, typer.Option(help="Separator within a line.", show_default="a tab")] = "\t",
    group: Annotated[str | None, typer.Option(help="Read as a member of this group, and commit the offsets.")] = None,
    formatter: Annotated[
        Formatter | None, typer.Option(help="For __consumer_offsets: show committed offsets, or groups.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Print the records of a topic, one per line."""
    shown = Shown(print_timestamp, print_partition, print_offset, print_headers, print_key, key_separator.encode())
    write = _writer(shown, formatter, output)
    settings = connection.settings(ConsumerSettings) | {
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
    }
    if group is not None:
        if partition or offset != "latest" or until_end:
            raise CommandError("--partition, --offset and --until-end cannot be used with --group")
        settings |= {"group.id": group, "auto.offset.reset": "earliest" if from_beginning else "latest"}
        with ending_in_order(), closing(read_as_member(settings, topic, max_messages, timeout)) as chunks:
            for records in chunks:
                write(records)
        return
    with connection.admin() as admin:
        partitions = partitions_or_all(admin, topic, partition)
        starts = start_offsets(admin, partitions, "earliest" if from_beginning else offset)
        ends = _latest(admin, partitions, read_committed) if until_end else None
        if offset.isdigit() and not from_beginning:
            partitions = _before_the_end(admin, topic, partitions, int(offset))
            starts = {each: starts[each] for each in partitions}
    with Consumer(settings, auto_offset_reset="none", enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        for where, start in starts.items():
            consumer.seek(where, start)
        try:
            for records in read_in_chunks(consumer, starts, ends, timeout, max_messages):
                write(records)
        except OffsetOutOfRange as error:
            where, at = next(iter(error.offsets.items()))
            raise CommandError(f"{where} has no offset {at}; `tidelog offsets {topic}` shows its offsets") from error


def _writer(shown: Shown, formatter: Formatter | None, output: Format) -> Callable[[list[ConsumerRecord]], None]:
    """Writes the records of one poll to stdout, in one write."""
    if formatter is not None:
        return lambda records: write_formatted(records, formatter, output)

    def write(records: list[ConsumerRecord]) -> None:
        if output is Format.JSON:
            print_json_lines(map(as_json, records))
        else:
            sys.stdout.buffer.write(b"".join([as_line(record, shown) for record in records]))
        sys.stdout.flush()

    return write


def start_offsets(admin: Admin, partitions: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    """The offset each partition is read from."""
    if where in {"earliest", "latest"}:
        found = admin.list_offsets(dict.fromkeys(partitions, EARLIEST if where == "earliest" else LATEST))
        return {each: place.offset for each, place in found.items()}
    if where.isascii() and where.isdigit():
        return dict.fromkeys(partitions, int(where))
    if where.startswith("-") and where[1:].isascii() and where[1:].isdigit():
        first = start_offsets(admin, partitions, "earliest")
        last = start_offsets(admin, partitions, "latest")
        return {each: max(first[each], last[each] - int(where[1:])) for each in partitions}
    raise CommandError(f"--offset {where!r} is neither an offset, nor -N, nor `earliest`, nor `latest`")


def _before_the_end(admin: Admin, topic: str, partitions: list[TopicPartition], offset: int) -> list[TopicPartition]:
    """The partitions that have the offset, or will have it next. The others are named, with where they end."""
    ends = _latest(admin, partitions, read_committed=False)
    past = [f"{each} ends at {ends[each]}" for each in partitions if offset > ends[each]]
    if len(past) == len(partitions):
        raise CommandError(f"no offset {offset}: {', '.join(past)}; `tidelog offsets {topic}` shows its offsets")
    if past:
        sys.stderr.write(f"tidelog: no offset {offset}: {', '.join(past)}\n")
    return [each for each in partitions if offset <= ends[each]]


def _latest(admin: Admin, partitions: list[TopicPartition], read_committed: bool) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    return {each: place.offset for each, place in found.items()}


def read_in_chunks(
    consumer: Consumer,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int] | None,
    timeout_s: float | None,
    most: int | None,
) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of each poll, until the ends, `most` records, or `timeout_s` without records."""
    idle_since = started = time.monotonic()
    is_answered = False
    wait_s = _POLL_S if timeout_s is None else max(0.001, min(_POLL_S, timeout_s))
    positions = dict(starts)
    count = 0
    while ends is None or any(position < ends[each] for each, position in positions.items()):
        polled = consumer.poll(wait_s)
        positions.update((each, place.offset) for each, place in polled.next_offsets.items())
        wanted = (record for record in polled if ends is None or record.offset < ends[record.topic_partition])
        records = list(islice(wanted, None if most is None else most - count))
        if not is_answered:
            # Time until the first response of the brokers does not count as idle.
            is_answered = _has_answers(consumer) or time.monotonic() - started >= _FIRST_ANSWER_S
            idle_since = time.monotonic()
        if records:
            yield records
            idle_since = time.monotonic()
            count += len(records)
        if count == most or (timeout_s is not None and time.monotonic() - idle_since >= timeout_s):
            return


def _has_answers(consumer: Consumer) -> bool:
    """Whether a fetch of every partition was answered."""
    return all(each.lag is not None for each in consumer.metrics().partitions.values())


def read_as_member(
    settings: Mapping[str, Any], topic: str, most: int | None, timeout_s: float | None
) -> Generator[list[ConsumerRecord], None, None]:
    """Yield the records of each poll, until `most` records or `timeout_s` without records. Commits at the end.

    If the caller closes it early, the last records are not committed and are read again.
    """
    with Consumer(settings) as consumer:
        if topic not in consumer.list_topics():
            sys.stderr.write(f"tidelog: topic {topic!r} does not exist yet; waiting for it\n")
        consumer.subscribe([topic])
        count = 0
        idle_since = time.monotonic()
        while True:
            records = consumer.poll(_POLL_S)
            if records:
                taken = list(records)[: None if most is None else most - count]
                count += len(taken)
                try:
                    yield taken
                except GeneratorExit:
                    _give_back(consumer, records, 0)
                    raise
                idle_since = time.monotonic()
                if count == most:
                    _give_back(consumer, records, len(taken))
                    return
            elif timeout_s is not None and time.monotonic() - idle_since >= timeout_s:
                return


def _give_back(consumer: Consumer, records: ConsumerRecords, taken: int) -> None:
    """Move the positions back, so that the group reads unused records again."""
    left = list(records)[taken:]
    for record in reversed(left):
        consumer.seek(record.topic_partition, record.offset)


def as_line(record: ConsumerRecord, shown: Shown) -> bytes:
    """A record as Kafka's console consumer prints it."""
    parts: list[bytes] = []
    if shown.timestamp:
        parts.append(b"%s:%d" % (_TIMESTAMP_TYPES[record.timestamp_type].encode(), record.timestamp))
    if shown.partition:
        parts.append(b"Partition:%d" % record.partition)
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


def as_json(record: ConsumerRecord) -> dict[str, Any]:
    """A record as one JSON object; bytes that are not UTF-8 are base64 in a field with its own name."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type],
        **bytes_for_json("key", record.key),
        **bytes_for_json("value", record.value),
        "headers": [{"name": name, **bytes_for_json("value", value)} for name, value in record.headers],
    }
