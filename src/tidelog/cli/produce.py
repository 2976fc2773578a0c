"""`tidelog produce`: lines of stdin become records.

A batch is sent when it is full or when stdin pauses, so that both `tidelog produce orders < file` and
`tail -f … | tidelog produce orders` work well. A line that is no record ends the command, once the lines before it are
stored, or is left out: `--bad-lines`.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import (
    Format,
    OutputFormat,
    TopicName,
    parse_assignments,
)
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


class BadLines(StrEnum):
    """What follows from a line that cannot be split into key and value."""

    STOP = "stop"
    SKIP = "skip"


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
    key_separator: Annotated[
        str | None, typer.Option(help="Separator after the key in each line.", show_default="no keys")
    ] = None,
    bad_lines: Annotated[
        BadLines, typer.Option("--bad-lines", help="At a line without the separator, stop, or skip it and go on.")
    ] = BadLines.STOP,
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
    batch_bytes: Annotated[int, typer.Option(help="Send a batch at this size.", min=1)] = 64 * 1024,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Produce a record from each line of stdin."""
    split = LineSplitter(key_separator, null_marker, bad_lines)
    headers = tuple((name, value.encode()) for name, value in parse_assignments("--header", header or ()).items())
    settings = connection.settings(ProducerSettings) | {
        "acks": acks.value,
        "compression.type": compression.value,
        "batch.size": batch_bytes,
        "linger.ms": _LINGER_MS,
    }
    with Producer(settings) as producer:
        check_topic(producer, topic, partition)
        # No progress bar if records are typed: it would overwrite the input.
        on_terminals = not sys.stdin.isatty()
        done = "sent" if acks is Acks.ZERO else "acknowledged"
        with progress(
            f"producing to {topic}", None, unit=f"records {done}", in_logs=False, on_terminals=on_terminals
        ) as watcher:
            under_way = UnderWay(watcher)
            for lines in read_lines(sys.stdin.fileno()):
                if lines is None:
                    producer.flush()
                    under_way.add([])
                    continue
                under_way.add(
                    [
                        producer.send(topic, value, key, partition=partition, headers=headers)
                        for key, value in split.records(lines)
                    ]
                )
                if split.problem:
                    break
            producer.flush()
            under_way.check()
        count = under_way.stored
    stored = f"{counted(count, 'record')} {done}"
    if split.problem:
        raise CommandError(f"{split.problem}; {stored} before it")
    if output is Format.JSON:
        print_json({"topic": topic, "records": count, **({"skipped": split.skipped} if split.skipped else {})})
    else:
        skipped = f", {counted(split.skipped, 'line')} skipped" if split.skipped else ""
        sys.stderr.write(f"{stored}{skipped}\n")


def check_topic(producer: Producer, topic: str, partition: int | None) -> None:
    """Raise CommandError if the topic or the partition does not exist and cannot be created."""
    try:
        count = producer.partitions_for(topic, timeout_s=_TOPIC_WAIT_S)
    except DeadlinePassed as error:
        raise CommandError(f"{error}; if it does not exist, run `tidelog topic create {topic}`") from error
    if partition is not None and not 0 <= partition < count:
        raise CommandError(f"topic {topic!r} has no partition {partition}; it has 0 to {count - 1}")


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


class LineSplitter:
    """The key and the value of each line, up to the first that has none."""

    def __init__(self, key_separator: str | None, null_marker: str | None, bad_lines: BadLines) -> None:
        if key_separator == "":
            raise CommandError("--key-separator must not be empty")
        self._separator = None if key_separator is None else key_separator.encode()
        self._null = None if null_marker is None else null_marker.encode()
        self._bad_lines = bad_lines
        self._number = 0
        self.problem = ""
        """What is wrong with the line that nothing was read after."""
        self.skipped = 0

    def records(self, lines: list[bytes]) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of the next lines. One without the separator cannot be split, as in Kafka's tool."""
        for line in lines:
            self._number += 1
            if self._separator is None:
                yield None, self._nullable(line)
                continue
            key, found, value = line.partition(self._separator)
            if found:
                yield self._nullable(key), self._nullable(value)
            elif self._bad_lines is BadLines.SKIP:
                self.skipped += 1
            else:
                shown = line[:40].decode(errors="replace")
                self.problem = f"line {self._number}: no key separator {self._separator.decode()!r} in {shown!r}"
                return

    def _nullable(self, text: bytes) -> bytes | None:
        return None if text == self._null else text


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
