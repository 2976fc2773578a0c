"""What the demo sees: how far producer and pipeline are, and what came out.

The output is read by an ordinary consumer of committed records, while the pipeline writes it: what the consumer has
tallied is what any application would have got.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.consumer import Consumer
from tidelog.client.retry.headers import ATTEMPTS, ERROR_MESSAGE
from tidelog.client.types import TopicPartition
from tidelog.examples.demo.plot import Sample
from tidelog.spark.source.progress import partition_offsets

OnRecord = Callable[[ConsumerRecord], object]

_EVERY_S: Final = 0.25
_SHOWN: Final = 5


class DeadLetter(NamedTuple):
    """A row that could not be helped."""

    value: str
    attempts: str
    reason: str


class Tally:
    """What came out: every order must be there once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.repeated = 0
        self.last: list[dict[str, Any]] = []
        self.dead: list[DeadLetter] = []

    def add_order(self, value: bytes) -> None:
        """An order that came out."""
        order = json.loads(value)
        number = int(order["order_id"])
        self.repeated += number in self.seen
        self.seen.add(number)
        self.last = [*self.last[1 - _SHOWN :], order]

    def add_dead(self, value: bytes, headers: Mapping[str, bytes | None]) -> None:
        """An order that did not."""
        attempts, reason = (headers.get(name) or b"?" for name in (ATTEMPTS, ERROR_MESSAGE))
        self.dead.append(DeadLetter(value.decode(errors="replace"), attempts.decode(), reason.decode(errors="replace")))


class OutputReader:
    """Reads the pipeline's output and dead letters as they are committed."""

    def __init__(self, servers: str, output: str, dead_letters: str, others: Mapping[str, OnRecord]) -> None:
        """`others` are topics whose records are handed on."""
        self.tally = Tally()
        self._output = output
        self._others = others
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "isolation.level": "read_committed", "enable.auto.commit": False}
        )
        partitions = [
            TopicPartition(topic, each.partition)
            for topic in (output, dead_letters, *others)
            for each in self._consumer.partitions_for(topic)
        ]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)

    def read(self, timeout_s: float) -> int:
        """Read what is there; how many orders came out."""
        before = len(self.tally.seen)
        for record in self._consumer.poll(timeout_s):
            self._take(record)
        return len(self.tally.seen) - before

    def _take(self, record: ConsumerRecord) -> None:
        if record.topic == self._output:
            self.tally.add_order(record.value or b"")
        elif record.topic in self._others:
            self._others[record.topic](record)
        else:
            self.tally.add_dead(record.value or b"", dict(record.headers))

    def close(self) -> None:
        self._consumer.close()


class Sampler(threading.Thread):
    """Notes four times a second how many records were produced and processed."""

    def __init__(self, produced: Callable[[], int], processed: Callable[[], int]) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self.started = time.monotonic()
        self._produced = produced
        self._processed = processed
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to count the seconds."""
        self.started = time.monotonic()
        super().start()

    def run(self) -> None:
        highest = 0
        while not self._stopped.is_set():
            highest = max(highest, self._processed())
            self.samples.append(Sample(self.elapsed(), self._produced(), highest))
            self._stopped.wait(_EVERY_S)

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()


def records_reached(progress: Mapping[str, Any] | None, topic: str) -> int:
    """How many records of a topic a query has processed, by its last progress report. Offsets start at 0 here."""
    total = 0
    for source in (progress or {}).get("sources") or ():
        offsets = partition_offsets(source.get("endOffset")) or {}
        total += sum(offset for (name, _), offset in offsets.items() if name == topic)
    return total
