"""`tidelog demo sync` and `tidelog demo async`: a producer and a consumer side by side, the one way and the other."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cli.progress import Progress, progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition

SYNC_EXAMPLE: Final = "tidelog demo sync --records 10000"
ASYNC_EXAMPLE: Final = "tidelog demo async --records 10000"

TOPIC: Final = "sync-async-demo"
_TIMEOUT_S: Final = 60.0
_STEP: Final = 100

Send = Callable[[Producer, int, Progress], None]
RecordCount = Annotated[int, typer.Option(help="How many records to send and read.", min=1)]
Servers = Annotated[
    str | None, typer.Option("--bootstrap-server", help="A running cluster to use.", show_default="a new broker")
]


def sync(records: RecordCount = 10_000, bootstrap_server: Servers = None) -> None:
    """Send records one by one, each after the broker's answer to the one before, while a consumer reads them."""
    _demo("each after the answer to the one before", _send_synchronously, records, bootstrap_server)


def async_(records: RecordCount = 10_000, bootstrap_server: Servers = None) -> None:
    """Send records without waiting, answers coming in by the way, while a consumer reads them."""
    _demo("without waiting for answers", _send_asynchronously, records, bootstrap_server)


def _send_synchronously(producer: Producer, records: int, watcher: Progress) -> None:
    for number in range(records):
        producer.send(TOPIC, b"%d" % number, partition=0).result(_TIMEOUT_S)
        if (number + 1) % _STEP == 0:
            watcher.advance(_STEP)
    watcher.advance(records % _STEP)


def _send_asynchronously(producer: Producer, records: int, watcher: Progress) -> None:
    refused: list[Exception] = []

    def on_delivery(_metadata: object, error: Exception | None) -> None:
        if error is not None:
            refused.append(error)

    for number in range(records):
        producer.send(TOPIC, b"%d" % number, partition=0, on_delivery=on_delivery)
        if (number + 1) % _STEP == 0:
            watcher.advance(_STEP)
    watcher.advance(records % _STEP)
    producer.flush(_TIMEOUT_S)
    if refused:
        raise CommandError(f"{len(refused)} of {records} records were refused: {refused[0]}")


def _demo(manner: str, send: Send, records: int, bootstrap_server: str | None) -> None:
    with _cluster(bootstrap_server) as servers:
        with Admin({"bootstrap.servers": servers}) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        reader = _Reader(servers, records)
        reader.start()
        started = time.monotonic()
        with Producer({"bootstrap.servers": servers}) as producer, progress("sending", records) as watcher:
            send(producer, records, watcher)
        sent_s = time.monotonic() - started
        reader.join(_TIMEOUT_S)
        read_s = time.monotonic() - started
    reader.check()
    print_line(f"{records:,} records sent, {manner}: {sent_s:.2f} s, {records / sent_s:,.0f} records/s")
    print_line(f"{records:,} records read meanwhile, each once and in order; the last after {read_s:.2f} s")


class _Reader(threading.Thread):
    """A consumer in a thread of its own, which reads the records and looks whether they are right."""

    def __init__(self, servers: str, records: int) -> None:
        super().__init__(name="demo-consumer", daemon=True)
        self._servers = servers
        self._records = records
        self._read = 0
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            self._consume()
        except Exception as failure:  # noqa: BLE001 - raised again by whoever waits for the thread
            self._failure = failure

    def _consume(self) -> None:
        where = TopicPartition(TOPIC, 0)
        with Consumer({"bootstrap.servers": self._servers, "enable.auto.commit": False}) as consumer:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            while self._read < self._records:
                for record in consumer.poll(0.5):
                    if record.value != b"%d" % self._read:
                        raise CommandError(f"offset {record.offset} holds {record.value!r} instead of {self._read}")
                    self._read += 1

    def check(self) -> None:
        """Raise CommandError unless everything came."""
        if self._failure is not None:
            raise self._failure
        if self._read != self._records:
            raise CommandError(f"{self._records} records were sent, and {self._read} read within {_TIMEOUT_S:.0f} s")


@contextmanager
def _cluster(bootstrap_server: str | None) -> Iterator[str]:
    """The cluster that was named, or a broker made for the moment."""
    if bootstrap_server is not None:
        yield bootstrap_server
        return
    from tidelog.testing.broker import Broker

    with Broker(process=True) as broker:
        sys.stderr.write(f"tidelog: broker ready at {broker.bootstrap_servers}\n")
        yield broker.bootstrap_servers
