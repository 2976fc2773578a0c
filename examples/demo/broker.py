"""`tidelog demo broker`: a broker, a topic, records in and out, checked, measured, and cleaned up again."""

import sys
import time
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cli.progress import progress
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.testing.broker import Broker

EXAMPLE: Final = "tidelog demo broker --records 100000"

TOPIC: Final = "tide-gauge"
_PARTITIONS: Final = 3
_STATIONS: Final = ("brest", "cuxhaven", "halifax", "honolulu", "lisbon", "qingdao", "sydney", "vigo")
_STEP: Final = 1000
_POLL_S: Final = 1.0

_SUMMARY: Final = """
What happened
  A broker was ready after {ready}.
  {records} records were produced {produced}, each acknowledged by the broker.
  {records} records were consumed {consumed}, each checked: once, and in order by key.
  (The speed is that of a client in plain Python; `tidelog perf` measures the broker.)

What to try next
  tidelog serve                                   a broker on 127.0.0.1:9092, data in ./tidelog-data
  tidelog topic create orders --partitions 3      in another terminal
  echo 'alice:3 apples' | tidelog produce orders --key-separator :
  tidelog consume orders --from-beginning --until-end --print-key
  tidelog perf produce load                       how fast the broker takes records
  tidelog log dump tidelog-data/orders-0/*.log    what it wrote
Any Kafka client works, too: point it at 127.0.0.1:9092."""


class _Run(NamedTuple):
    records: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds


def broker(
    records: Annotated[int, typer.Option(help="How many records to send and read back.", min=1)] = 100_000,
) -> None:
    """Run a broker: start it, create a topic, produce, consume, check, clean up. Takes a few seconds."""
    started = time.monotonic()
    with Broker(process=True) as running:
        ready_ms = (time.monotonic() - started) * 1000
        _say(f"broker ready at {running.bootstrap_servers} after {ready_ms:.0f} ms, data in {running.data_dir}")
        running.create_topic(TOPIC, _PARTITIONS)
        _say(f"topic {TOPIC} created with {_PARTITIONS} partitions")
        produced = _produce(running.bootstrap_servers, records)
        consumed = _consume(running.bootstrap_servers, records)
    _say("broker shut down, data removed")
    _summarize(produced, consumed, ready_ms)


def _record(number: int) -> tuple[bytes, bytes]:
    """Key and value of a record; both follow from its number, so that they can be checked."""
    station = _STATIONS[number % len(_STATIONS)]
    return station.encode(), b'{"reading": %d, "level_cm": %d}' % (number, number * 7919 % 600 - 100)


def _produce(servers: str, records: int) -> _Run:
    started = time.monotonic()
    with progress("producing", records) as watcher, Producer(bootstrap_servers=servers) as producer:
        for first in range(0, records, _STEP):
            last = min(first + _STEP, records)
            for number in range(first, last):
                key, value = _record(number)
                producer.send(TOPIC, value, key)
            watcher.advance(last - first)
        producer.flush()
        acknowledged = producer.metrics().records_stored
    if acknowledged != records:
        raise CommandError(f"{records} records were sent, {acknowledged} acknowledged")
    return _Run(records, time.monotonic() - started)


def _consume(servers: str, records: int) -> _Run:
    """Read everything back: each record must come once, and those of one key in the order they were sent."""
    started = time.monotonic()
    expected = {
        station.encode(): iter(range(index, records, len(_STATIONS))) for index, station in enumerate(_STATIONS)
    }
    partitions = [TopicPartition(TOPIC, each) for each in range(_PARTITIONS)]
    count = 0
    with (
        progress("consuming", records) as watcher,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign(partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            polled = consumer.poll(_POLL_S)
            for record in polled:
                key = record.key or b""
                number = next(expected[key], -1)
                if (key, record.value) != _record(number):
                    raise CommandError(f"{record} is not the record {number} that was sent")
            count += len(polled)
            watcher.advance(len(polled))
    if count != records:
        raise CommandError(f"{records} records were acknowledged, {count} came back")
    return _Run(count, time.monotonic() - started)


def _summarize(produced: _Run, consumed: _Run, ready_ms: float) -> None:
    print_line(
        _SUMMARY.format(
            ready=f"{ready_ms:,.0f} ms",
            records=f"{produced.records:,}",
            produced=f"in {produced.seconds:.2f} s, {produced.rate:,.0f} records/s",
            consumed=f"in {consumed.seconds:.2f} s, {consumed.rate:,.0f} records/s",
        )
    )


def _say(text: str) -> None:
    sys.stderr.write(f"tidelog: {text}\n")
