"""Producers that follow a partition's leader, as clients do: what a fault costs them is what it costs anyone.

A record counts from the time it is due until it is acknowledged with acks=all, whatever it takes: new metadata, a
connection to another broker, another attempt. Written for few requests a second; the loops of `load` are for many.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from benchmarks import frames
from benchmarks.admin import Admin, AdminError
from benchmarks.clusters import BrokerCluster

_RETRY_SECONDS: Final = 0.005
_REQUEST_SECONDS: Final = 10.0
_GIVE_UP_SECONDS: Final = 120.0


class FollowingProducer:
    """Sends single records to one partition, one at a time."""

    def __init__(self, cluster: BrokerCluster, topic: str, partition: int, record: bytes) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._records = frames.batch([record])
        self._connection: Admin | None = None
        self._turns = itertools.count()
        self.acknowledged = 0

    def send(self) -> None:
        """Return when a record is acknowledged."""
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while True:
            try:
                if self._connection is None:
                    self._connection = Admin.connect(self._leader_address(), _REQUEST_SECONDS)
                self._connection.produce(self._topic, self._partition, self._records)
                self.acknowledged += 1
                return
            except (OSError, AdminError):
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def _leader_address(self) -> tuple[str, int]:
        """Where the leader listens, by the word of one broker; the next attempt asks another, which may know better."""
        running = self._cluster.running()
        asked = list(running.values())[next(self._turns) % len(running)]
        with Admin.connect(asked.address, _REQUEST_SECONDS) as admin:
            leaders = admin.describe(self._topic).leaders
        leader = leaders[self._partition] if self._partition < len(leaders) else -1
        if leader not in running:
            raise AdminError(f"{self._topic}-{self._partition} has no leader")
        return running[leader].address

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class PacedProducers:
    """One producer for each partition, in a thread each, which sends a record every `interval_seconds`."""

    def __init__(self, producers: Sequence[FollowingProducer], interval_seconds: float) -> None:
        self._producers = producers
        self._interval = interval_seconds
        self._is_over = threading.Event()
        self._latencies: list[float] = []
        self._failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in producers]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def latencies(self) -> list[float]:
        """Seconds from due to acknowledged, of every record; after the end."""
        if self._failures:
            raise RuntimeError(f"a producer failed: {self._failures[0]}")
        return self._latencies

    def _run(self, producer: FollowingProducer) -> None:
        due = time.perf_counter()
        try:
            while not self._is_over.is_set():
                producer.send()
                self._latencies.append(time.perf_counter() - due)
                due += self._interval
                self._is_over.wait(max(due - time.perf_counter(), 0))
        except Exception as failure:
            self._failures.append(failure)
        finally:
            producer.close()
