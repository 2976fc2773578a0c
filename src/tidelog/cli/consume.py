"""`tidelog consume`: records of chosen partitions, from chosen places on, or with `--group` as a member of a group."""

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli._places import PLACES, Offsets, Place, Span, find_span
from tidelog.cli._signals import ending_in_order
from tidelog.cli._templates import parse_template
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.group_records import Formatter, write_formatted
from tidelog.cli.output import bytes_for_json, print_json_lines
from tidelog.cli.progress import progress
from tidelog.client.aio.consumer.errors import OffsetOutOfRange
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, TimestampType
from tidelog.client.consumer import Consumer
from tidelog.client.schemas.decoding import AnyDeserializer, Decoded, DecodingError, plain_json
from tidelog.client.schemas.registry import SchemaRegistry
from tidelog.client.types import TopicPartition
from tidelog.config.names import nearest_name

EXAMPLE: Final = "tidelog consume orders --from 2h --print-key"

_POLL_S: Final = 0.25
_FIRST_ANSWER_S: Final = 10.0
_TIMESTAMP_TYPES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "consume", consume, EXAMPLE)


class RecordDecoder:
    """Keys and values that were written with a schema of a registry. Others stay as they are.

    The first value that looks as if it had a schema and cannot be read is named on stderr.
    """

    def __init__(self, url: str) -> None:
        self._deserializer = AnyDeserializer(SchemaRegistry(url))
        self._has_warned = False

    def decode(self, topic: str, data: bytes | None) -> Decoded | None:
        """The value of one key or value; None if it has no schema of the registry."""
        if data is None or data[:1] != b"\0":
            return None
        try:
            return self._deserializer.decode(topic, bytes(data))
        except DecodingError as error:
            if not self._has_warned:
                self._has_warned = True
                sys.stderr.write(f"tidelog: not read with the schema registry, shown as it is: {error}\n")
            return None

    def as_text(self, record: ConsumerRecord) -> ConsumerRecord:
        """The record with JSON for what has a schema."""
        return record._replace(
            key=self._as_text(record.topic, record.key), value=self._as_text(record.topic, record.value)
        )

    def _as_text(self, topic: str, data: bytes | None) -> bytes | None:
        decoded = self.decode(topic, data)
        return data if decoded is None else json.dumps(decoded.value, ensure_ascii=False, default=plain_json).encode()


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
        str | None,
        typer.Option(
            help="Where to start: an offset, `earliest`, `latest`, or -N for N before the end.", show_default="latest"
        ),
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="The same as --offset earliest.")] = False,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Start at a time: 2h ago, or ISO 8601; `tidelog help times`.", metavar="TIME"),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Stop before the first record of a time.", metavar="TIME")] = None,
    tail: Annotated[
        int | None, typer.Option(help="The last N records of all partitions, in order of time.", min=1, metavar="N")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="After --tail, wait for new records.")] = False,
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
    template: Annotated[
        str | None,
        typer.Option("--template", "-f", help="Print records so, in kcat's notation: `tidelog help templates`."),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            help="Show keys and values with schemas of this registry as JSON.",
            envvar="TIDELOG_SCHEMA_REGISTRY",
            show_default="the profile's",
            metavar="URL",
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Read as a member of this group, and commit the offsets.")] = None,
    formatter: Annotated[
        Formatter | None, typer.Option(help="For __consumer_offsets: show committed offsets, or groups.")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Print the records of a topic, one per line."""
    shown = Shown(print_timestamp, print_partition, print_offset, print_headers, print_key, key_separator.encode())
    place = Place(offset, from_beginning, from_, tail, follow, until, until_end)
    place.check()
    if template is not None and (output is Format.JSON or formatter is not None):
        raise CommandError("--template cannot be used with --format json or --formatter")
    write = _writer(_formatted(shown, template, formatter, output), schema_registry or connection.registry_url)
    settings = connection.settings(ConsumerSettings) | {
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
    }
    if group is not None:
        if partition or place.needs_partitions:
            raise CommandError(f"--partition and {', '.join(PLACES)} cannot be used with --group")
        settings |= {"group.id": group, "auto.offset.reset": "earliest" if from_beginning else "latest"}
        with ending_in_order(), closing(read_as_member(settings, topic, max_messages, timeout)) as chunks:
            for records in chunks:
                write(records)
        return
    with connection.admin() as admin:
        span = find_span(admin, partitions_or_all(admin, topic, partition), place, read_committed)
    with Consumer(settings, auto_offset_reset="none", enable_auto_commit=False) as consumer:
        consumer.assign(list(span.starts))
        try:
            read = read_tail(consumer, span, place) if tail else read_span(consumer, span, timeout, max_messages)
            for records in read:
                write(records)
        except OffsetOutOfRange as error:
            where, at = next(iter(error.offsets.items()))
            raise CommandError(f"{where} has no offset {at}; `tidelog offsets {topic}` shows its offsets") from error


Line = Callable[[ConsumerRecord], bytes]


def _formatted(
    shown: Shown, template: str | None, formatter: Formatter | None, output: Format
) -> Callable[[list[ConsumerRecord], RecordDecoder | None], None]:
    """Writes the records of one poll to stdout, in one write."""
    if formatter is not None:
        return lambda records, _decoder: write_formatted(records, formatter, output)
    line: Line = (lambda record: as_line(record, shown)) if template is None else parse_template(template)

    def write(records: list[ConsumerRecord], decoder: RecordDecoder | None) -> None:
        if output is Format.JSON:
            print_json_lines(as_json(record, decoder) for record in records)
        else:
            texts = records if decoder is None else map(decoder.as_text, records)
            sys.stdout.buffer.write(b"".join([line(record) for record in texts]))
        sys.stdout.flush()

    return write


def _writer(
    write: Callable[[list[ConsumerRecord], RecordDecoder | None], None], registry_url: str | None
) -> Callable[[list[ConsumerRecord]], None]:
    decoder = None if registry_url is None else RecordDecoder(registry_url)
    return lambda records: write(records, decoder)


def read_span(
    consumer: Consumer, span: Span, timeout_s: float | None, most: int | None
) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of each poll of a span; where they go to a file, a terminal shows how far it is."""
    for where, start in span.starts.items():
        consumer.seek(where, start)
    chunks = read_in_chunks(consumer, span.starts, span.ends, timeout_s, most)
    if span.ends is None or sys.stdout.isatty():
        yield from chunks
        return
    total = sum(max(0, end - span.starts[each]) for each, end in span.ends.items())
    with progress(f"consuming {next(iter(span.starts)).topic}", total, unit="offsets", in_logs=False) as bar:
        for records in chunks:
            yield records
            bar.advance(len(records))


def read_tail(consumer: Consumer, span: Span, place: Place) -> Iterator[list[ConsumerRecord]]:
    """Yield the last records by time, all at once, and then those that come if they are followed.

    Offsets without a record, which compaction and transactions leave, are made up for: a partition that had too few
    is read again from further back.
    """
    assert place.tail is not None, "only a tail is read so"
    assert span.ends is not None, "a tail has an end"
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    wanted, back = set(span.ends), place.tail
    while wanted:
        starts = {each: max(span.firsts[each], span.ends[each] - back) for each in wanted}
        found |= _read_all(consumer, starts, {each: span.ends[each] for each in wanted})
        wanted = {each for each in wanted if len(found[each]) < place.tail and starts[each] > span.firsts[each]}
        back *= 8
    yield newest(found, place.tail)
    if place.follow:
        consumer.resume(*span.ends)
        for each, end in span.ends.items():
            consumer.seek(each, end)
        yield from read_in_chunks(consumer, span.ends, None, None, None)


def _read_all(consumer: Consumer, starts: Offsets, ends: Offsets) -> dict[TopicPartition, list[ConsumerRecord]]:
    """The records of spans of some of the partitions."""
    found: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in starts}
    consumer.pause(*consumer.assignment)
    consumer.resume(*starts)
    for where, start in starts.items():
        consumer.seek(where, start)
    for records in read_in_chunks(consumer, starts, ends, None, None):
        for record in records:
            found[record.topic_partition].append(record)
    return found


def newest(found: Mapping[TopicPartition, Sequence[ConsumerRecord]], count: int) -> list[ConsumerRecord]:
    """The last `count` records of several partitions by time. Those of one partition keep their order."""
    left = {each: list(records) for each, records in found.items() if records}
    newest_first = [(-records[-1].timestamp, each) for each, records in left.items()]
    heapify(newest_first)
    taken: list[ConsumerRecord] = []
    while newest_first and len(taken) < count:
        _, each = newest_first[0]
        taken.append(left[each].pop())
        if left[each]:
            heapreplace(newest_first, (-left[each][-1].timestamp, each))
        else:
            heappop(newest_first)
    return taken[::-1]


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
        known = consumer.list_topics()
        if topic not in known:
            nearest = nearest_name(topic, sorted(known))
            advice = f" (did you mean {nearest!r}?)" if nearest else ""
            sys.stderr.write(f"tidelog: topic {topic!r} does not exist yet; waiting for it{advice}\n")
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


def as_json(record: ConsumerRecord, decoder: "RecordDecoder | None" = None) -> dict[str, Any]:
    """A record as one JSON object; bytes that are not UTF-8 are base64 in a field with its own name."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type],
        **_part_as_json("key", record.topic, record.key, decoder),
        **_part_as_json("value", record.topic, record.value, decoder),
        "headers": [{"name": name, **bytes_for_json("value", value)} for name, value in record.headers],
    }


def _part_as_json(name: str, topic: str, data: bytes | None, decoder: "RecordDecoder | None") -> dict[str, Any]:
    decoded = None if decoder is None else decoder.decode(topic, data)
    if decoded is None:
        return bytes_for_json(name, data)
    # Dates, decimals and bytes become text here, so that the document is JSON whatever the schema has.
    value = json.loads(json.dumps(decoded.value, default=plain_json))
    return {name: value, f"{name}_schema_id": decoded.schema_id}
