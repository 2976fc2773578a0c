"""`tidelog produce`: lines, JSON lines or CSV of stdin become records.

A batch is sent when it is full or when stdin pauses, so that both `tidelog produce orders < file` and
`tail -f … | tidelog produce orders` work well. A line that is no record ends the command, once the lines before it are
stored, or is left out: `--bad-lines`.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._names import UnknownName
from tidelog.cli._options import Format, OutputFormat, TopicName, parse_assignments
from tidelog.cli._record_input import BadLines, Input, NewRecord, RecordReader, make_reader
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.progress import Progress, progress
from tidelog.client.aio.producer.delivery import BlockingDelivery
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.errors import DeadlinePassed
from tidelog.client.producer import Producer
from tidelog.health.findings import counted
from tidelog.records.compression import Codec

EXAMPLE: Final = "echo 'alice:3 apples' | tidelog produce orders --key-separator :"

_READ_BYTES: Final = 256 * 1024
_LINGER_S: Final = 0.005
_LINGER_MS: Final = 5
_TOPIC_WAIT_S: Final = 5.0


class Compression(StrEnum):
    """Codecs by name."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def codec(self) -> Codec:
        """The codec of this name."""
        return Codec[self.name]


class Acks(StrEnum):
    """Replicas that must store a record before it is acknowledged: none, the leader, all in-sync replicas."""

    ZERO = "0"
    ONE = "1"
    ALL = "all"

    @property
    def number(self) -> int:
        """As the wire has it."""
        return -1 if self is Acks.ALL else int(self.value)


AcksOption = Annotated[Acks, typer.Option("--acks", help="Replicas that must store a record before the ack.")]
CompressionOption = Annotated[Compression, typer.Option("--compression", help="Codec of the batches.")]


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "produce", produce, EXAMPLE)


def produce(
    connection: Connection,
    topic: TopicName,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that are a record each, in place of stdin.", metavar="[FILE…]", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option(help="Separator after the key in each line.", show_default="no keys")
    ] = None,
    bad_lines: Annotated[
        BadLines, typer.Option("--bad-lines", help="At a line that is no record, stop, or skip it and go on.")
    ] = BadLines.STOP,
    input_: Annotated[
        Input, typer.Option("--input", help="Lines, or records as JSON lines or CSV: `tidelog help records`.")
    ] = Input.LINES,
    key_column: Annotated[
        str | None, typer.Option(help="The column of CSV that is the key.", show_default="key", metavar="NAME")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between the cells of CSV.")] = ",",
    partition: Annotated[
        int | None, typer.Option(help="Partition of all records.", show_default="by key, else sticky")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="A header of every record; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option(help="A key or value that is exactly this becomes null.", show_default="none")
    ] = None,
    compression: CompressionOption = Compression.NONE,
    acks: AcksOption = Acks.ALL,
    transactional_id: Annotated[
        str | None, typer.Option(help="Store all records or none: in one transaction of this id.", show_default=False)
    ] = None,
    batch_bytes: Annotated[int, typer.Option(help="Send a batch at this size.", min=1)] = 64 * 1024,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Produce a record from each line of stdin, from each JSON object or row of CSV, or from each file."""
    reader = make_reader(
        input_,
        bad_lines=bad_lines,
        key_separator=key_separator,
        null_marker=null_marker,
        key_column=key_column,
        delimiter=delimiter,
    )
    headers = tuple((name, value.encode()) for name, value in parse_assignments("--header", header or ()).items())
    if transactional_id is not None and acks is not Acks.ALL:
        raise CommandError(f"--transactional-id needs --acks all, not --acks {acks}")
    if files and input_ is not Input.LINES:
        raise CommandError("files are a record each; give --input for stdin: tidelog produce TOPIC --input … < FILE")
    settings = connection.settings(ProducerSettings) | {
        "acks": acks.value,
        "compression.type": compression.value,
        "batch.size": batch_bytes,
        "linger.ms": _LINGER_MS,
        **({} if transactional_id is None else {"transactional.id": transactional_id}),
    }
    with Producer(settings) as producer:
        count = check_topic(producer, topic, partition)
        reader.partitions = count if partition is None else None
        # No progress bar if records are typed: it would overwrite the input.
        on_terminals = not sys.stdin.isatty()
        done = "sent" if acks is Acks.ZERO else "acknowledged"
        with progress(
            f"producing to {topic}", None, unit=f"records {done}", in_logs=False, on_terminals=on_terminals
        ) as watcher:
            under_way = UnderWay(watcher)
            if transactional_id is not None:
                producer.init_transactions()
                producer.begin()
            for records in read_files(files) if files else read_records(reader, sys.stdin.fileno()):
                if records is None:
                    producer.flush()
                    under_way.add([])
                    continue
                under_way.add(
                    [
                        producer.send(
                            topic,
                            each.value,
                            each.key,
                            partition=each.partition if partition is None else partition,
                            headers=headers + each.headers,
                            timestamp_ms=each.timestamp_ms,
                        )
                        for each in records
                    ]
                )
            producer.flush()
            under_way.check()
            if transactional_id is not None and reader.problem:
                producer.abort()
                raise CommandError(f"{reader.problem}; the transaction was aborted")
            if transactional_id is not None:
                producer.commit()
    stored = f"{counted(under_way.stored, 'record')} {done}"
    if reader.problem:
        raise CommandError(f"{reader.problem}; {stored} before it")
    if output is Format.JSON:
        skipped_lines = {"skipped": reader.skipped} if reader.skipped else {}
        print_json({"topic": topic, "records": under_way.stored, **skipped_lines})
    else:
        skipped = f", {counted(reader.skipped, 'line')} skipped" if reader.skipped else ""
        sys.stderr.write(f"{stored}{skipped}\n")


def read_files(files: Sequence[Path]) -> Iterator[list[NewRecord]]:
    """The whole of each file, as the value of a record."""
    for file in files:
        yield [NewRecord(None, file.read_bytes())]


def read_records(reader: RecordReader, descriptor: int) -> Iterator[list[NewRecord] | None]:
    """Lists of records as they arrive, up to the first line that is none; None whenever the input pauses."""
    for lines in read_lines(descriptor):
        yield None if lines is None else list(reader.records(lines))
        if reader.problem:
            return
    yield list(reader.end())


def check_topic(producer: Producer, topic: str, partition: int | None) -> int:
    """How many partitions a topic has. Raises CommandError if it or `partition` is not there."""
    try:
        count = producer.partitions_for(topic, timeout_s=_TOPIC_WAIT_S)
    except DeadlinePassed as error:
        raise UnknownName(f"{error}; if it does not exist, run `tidelog topic create {topic}`") from error
    if partition is not None and not 0 <= partition < count:
        raise CommandError(f"topic {topic!r} has no partition {partition}; it has 0 to {count - 1}")
    return count


class UnderWay:
    """Sent records without a result, and how many have one. Raises the first error."""

    def __init__(self, watcher: Progress) -> None:
        self.stored = 0
        self._watcher = watcher
        self._waiting: deque[list[BlockingDelivery]] = deque()

    def add(self, deliveries: list[BlockingDelivery]) -> None:
        """Add deliveries, and check earlier ones that are done."""
        if deliveries:
            self._waiting.append(deliveries)
        while self._waiting and self._waiting[0][-1].done():
            self._take(self._waiting.popleft())

    def check(self) -> None:
        """Wait for all."""
        while self._waiting:
            self._take(self._waiting.popleft())

    def _take(self, deliveries: list[BlockingDelivery]) -> None:
        for delivery in deliveries:
            delivery.result()
        self.stored += len(deliveries)
        self._watcher.advance(len(deliveries))


def read_lines(descriptor: int) -> Iterator[list[bytes] | None]:
    """Lists of lines as they arrive; None whenever the input pauses and the batch should be sent."""
    rest = b""
    is_idle = True
    while True:
        if not is_idle and not select.select([descriptor], [], [], _LINGER_S)[0]:
            is_idle = True
            yield None
        chunk = os.read(descriptor, _READ_BYTES)
        if not chunk:
            break
        is_idle = False
        *lines, rest = (rest + chunk).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]
