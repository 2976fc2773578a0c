"""A broker under attack and the measures of its health: memory, descriptors, threads, its log, and a bystander.

The bystander is an honest client that produces and fetches all the while. It may be slowed down, but nothing it asks
for may fail.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from tests.integration.raw_client import RawClient, batch_of, fetch_records, produce
from tests.integration.writers import wait_until
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode

CALM_TOPIC = "calm"
GROWTH_BYTES_MAX = 60 << 20
_SAMPLE_S = 0.02
_MIB = 1 << 20


class Vitals(NamedTuple):
    """How a broker's process is doing."""

    resident_bytes: int
    descriptors: int
    threads: int


def vitals(pid: int) -> Vitals:
    process = psutil.Process(pid)
    return Vitals(process.memory_info().rss, process.num_fds(), process.num_threads())


class Bystander(threading.Thread):
    """Produces a record and reads it back, again and again, on one connection."""

    def __init__(self, port: int) -> None:
        super().__init__(name="bystander", daemon=True)
        self._port = port
        self._stopping = threading.Event()
        self.rounds = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with RawClient(self._port) as client:
                while not self._stopping.is_set():
                    value = b"round %d" % self.rounds
                    answer = produce(client, CALM_TOPIC, 0, batch_of([value]))
                    assert answer.error_code == ErrorCode.NONE, answer
                    records = fetch_records(client, CALM_TOPIC, 0, answer.base_offset)
                    assert [record.value for record in records] == [value], records
                    self.rounds += 1
        except BaseException as error:
            self.failure = error

    def check_progress(self) -> None:
        """Wait until it has done a few more rounds."""
        before = self.rounds

        def has_progressed() -> bool:
            if self.failure is not None:
                raise self.failure
            return self.rounds >= before + 3

        wait_until(has_progressed, "the bystander is served")

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)
        assert not self.is_alive(), "the bystander hangs"
        if self.failure is not None:
            raise self.failure


class _Peak(threading.Thread):
    """Watches the resident memory of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="memory", daemon=True)
        self._process = psutil.Process(pid)
        self._stopping = threading.Event()
        self.bytes = 0

    def run(self) -> None:
        while not self._stopping.wait(_SAMPLE_S):
            self.bytes = max(self.bytes, self._process.memory_info().rss)

    def stop(self) -> int:
        self._stopping.set()
        self.join()
        return self.bytes


@contextmanager
def siege(broker: Broker, *, growth_bytes_max: int = GROWTH_BYTES_MAX) -> Iterator[Bystander]:
    """Whatever is done inside, the broker must come out of it as healthy as it was."""
    gc.collect()
    before = vitals(broker.pid)
    log_bytes = len(broker.logs)
    peak = _Peak(broker.pid)
    bystander = Bystander(broker.port)
    peak.start()
    bystander.start()
    try:
        bystander.check_progress()
        yield bystander
        bystander.check_progress()
    finally:
        bystander.stop()
        peak_bytes = peak.stop()
    grown = peak_bytes - before.resident_bytes
    assert grown < growth_bytes_max, f"memory grew by {grown / _MIB:.0f} MiB to {peak_bytes / _MIB:.0f} MiB"
    # The bystander's log may have been opened meanwhile, and the background pool may have started its threads.
    wait_until(lambda: vitals(broker.pid).descriptors <= before.descriptors + 8, "descriptors are given back")
    assert vitals(broker.pid).threads <= before.threads + 10
    said = broker.logs[log_bytes:]
    for word in ("Traceback", "CRITICAL", "offline"):
        assert word not in said, said[-5000:]
