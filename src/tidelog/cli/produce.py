"""`tidelog produce`: lines of stdin become records.

A batch is sent when it is full or when stdin pauses, so that both `tidelog produce orders < file` and
`tail -f … | tidelog produce orders` work well.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import (
    BootstrapServer,
    CommandConfig,
    Format,
    OutputFormat,
    TopicName,
    parse_assignments,
)
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.progress import progress
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.errors import DeadlinePassed
from tidelog.client.producer import BlockingDelivery, Producer
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
    topic: TopicName,
    key_separator: Annotated[
        str | None, typer.Option(help="Separator after the key in each line.", show_default="no keys")
    ] = None,
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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Produce a record from each line of stdin."""
    split = LineSplitter(key_separator, null_marker)
    headers = tuple((name, value.encode()) for name, value in parse_assignments("--header", header or ()).items())
    settings = client_settings(bootstrap_server, command_config, ProducerSettings) | {
        "acks": acks.value,
        "compression.type": compression.value,
        "batch.size": batch_bytes,
        "linger.ms": _LINGER_MS,
    }
    with Producer(settings) as producer:
        check_topic(producer, topic, partition)
        under_way = UnderWay()
        # No progress bar if records are typed: it would overwrite the input.
        on_terminals = not sys.stdin.isatty()
        with progress(f"producing to {topic}", None, in_logs=False, on_terminals=on_terminals) as watcher:
            for lines in read_lines(sys.stdin.fileno()):
                if lines is None:
                    producer.flush()
                    continue
                deliveries = []
                for line in lines:
                    key, value = split(line)
                    deliveries.append(producer.send(topic, value, key, partition=partition, headers=headers))
                under_way.add(deliveries)
                watcher.advance(len(lines))
            producer.flush()
        under_way.check()
        count = under_way.stored
    if output is Format.JSON:
        print_json({"topic": topic, "records": count})
    else:
        noun = "record" if count == 1 else "records"
        sys.stderr.write(f"{count:,} {noun} {'sent' if acks is Acks.ZERO else 'acknowledged'}\n")


def check_topic(producer: Producer, topic: str, partition: int | None) -> None:
    """Raise CommandError if the topic or the partition does not exist and cannot be created."""
    try:
        count = producer.partitions_for(topic, timeout_s=_TOPIC_WAIT_S)
    except DeadlinePassed as error:
        raise CommandError(f"{error}; if it does not exist, run `tidelog topic create {topic}`") from error
    if partition is not None and not 0 <= partition < count:
        raise CommandError(f"topic {topic!r} has no partition {partition}; it has 0 to {count - 1}")


class UnderWay:
    """Sent records without a result. Raises the first error."""

    def __init__(self) -> None:
        self.stored = 0
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


class LineSplitter:
    """A line's key and value."""

    def __init__(self, key_separator: str | None, null_marker: str | None) -> None:
        if key_separator == "":
            raise CommandError("--key-separator must not be empty")
        self._separator = None if key_separator is None else key_separator.encode()
        self._null = None if null_marker is None else null_marker.encode()

    def __call__(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value; a line without the separator cannot be split and is an error, as in Kafka's tool."""
        if self._separator is None:
            return None, self._nullable(line)
        key, found, value = line.partition(self._separator)
        if not found:
            shown = line[:40].decode(errors="replace")
            raise CommandError(f"no key separator {self._separator.decode()!r} in the line {shown!r}")
        return self._nullable(key), self._nullable(value)

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
