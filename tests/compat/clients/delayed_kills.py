"""`kill -9` again and again while delayed records are produced, wait and are delivered.

librdkafka produces records with due times between 10 ms and a few seconds ahead; another one reads all the time and
notes when each record arrived. The broker is killed at random moments and started again. The next kill comes when all
records that were due before the broker was ready have arrived, so that no recovery runs into another kill. At the end
every acknowledged record must have arrived once, none before its time. A record whose time came while no broker was up
is late by the rest of the recovery, and by what is counted here: the time between the broker's being ready and the
arrival. A record that was acknowledged only after the recovery counts from its acknowledgement.

`test_delayed_kills` runs it as part of the suite; by hand, and for longer:

    python -m tests.compat.clients.delayed_kills --times 50 [--seed N]
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tidelog.testing import Broker

TOPIC = "delayed"
PARTITIONS = 2
SECONDS_MAX = 120.0


class Outcome(NamedTuple):
    """What a run has shown. Times are milliseconds after the due time."""

    kills: int
    acknowledged: int
    missing: list[int]
    doubled: list[int]
    early: list[int]
    recoveries_ms: list[float]
    late_ms: list[float]
    """Of records whose time came, or that were acknowledged, while a broker was up."""
    after_recovery_ms: list[float]
    """Of the others: their lateness without what was left of the recovery when they were due."""


def now_ms() -> float:
    return time.time() * 1000


class Load:
    """Produces until it is stopped. A record's value is its number; `due` has the due times."""

    def __init__(self, servers: str, rng: random.Random) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2, "reconnect.backoff.max.ms": 200}
        )
        self._rng = rng
        self.due: list[int] = []
        self.acknowledged: dict[int, float] = {}
        """When each was."""
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            for _ in range(self._rng.randint(1, 20)):
                number = len(self.due)
                due_ms = int(now_ms()) + self._rng.choice((10, 50, 200, 700, 1500)) + self._rng.randint(0, 20)
                self.due.append(due_ms)
                self._producer.produce(
                    TOPIC,
                    value=b"%d" % number,
                    key=b"%d" % (number % 7),
                    headers=[("tidelog-deliver-at", b"%d" % due_ms)],
                    on_delivery=self._on_delivery,
                )
            self._producer.poll(0.02)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[int(message.value() or b"")] = now_ms()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join()
        self._producer.flush(SECONDS_MAX)


class Reader:
    """Reads until it is stopped, and notes when each record arrived."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
            }
        )
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        self.arrivals: list[tuple[int, float]] = []
        self.arrived: set[int] = set()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            message = self._consumer.poll(0.05)  # not consume(): that waits until it has many
            if message is not None and message.error() is None:
                number = int(message.value() or b"")
                self.arrivals.append((number, now_ms()))
                self.arrived.add(number)

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join()
        self._consumer.close()


def run(times: int, seed: int, between_s: tuple[float, float] = (0.3, 1.5)) -> Outcome:
    """Kill the broker so many times; then wait until everything has arrived."""
    rng = random.Random(seed)
    downs: list[tuple[float, float]] = []
    with Broker(process=True, timeout_s=SECONDS_MAX) as broker:
        broker.create_topic(TOPIC, PARTITIONS, config={"tidelog.delay.enable": "true", "segment.bytes": 200_000})
        reader = Reader(broker.bootstrap_servers)
        load = Load(broker.bootstrap_servers, rng)
        try:
            for _ in range(times):
                time.sleep(rng.uniform(*between_s))
                down_ms = now_ms()
                broker.kill()
                broker.start()
                downs.append((down_ms, now_ms()))
                _wait_for(load, reader, due_before_ms=downs[-1][1])
            time.sleep(rng.uniform(*between_s))
        finally:
            load.stop()
            _wait_for(load, reader, due_before_ms=now_ms() + SECONDS_MAX * 1000)
            reader.stop()
    return _judge(load, reader.arrivals, downs)


def _wait_for(load: Load, reader: Reader, due_before_ms: float) -> None:
    """Until every acknowledged record that is due before a time has arrived; what is missing is judged at the end."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        expected = {number for number in list(load.acknowledged) if load.due[number] <= due_before_ms}
        if expected <= reader.arrived:
            return
        time.sleep(0.01)


def _judge(load: Load, arrivals: list[tuple[int, float]], downs: list[tuple[float, float]]) -> Outcome:
    counts = Counter(number for number, _ in arrivals)
    late: list[float] = []
    after_recovery: list[float] = []
    for number, arrived_ms in arrivals:
        due_ms, acknowledged_ms = load.due[number], load.acknowledged.get(number)
        if acknowledged_ms is None:
            continue
        ready_ms = next((up for _, up in downs if max(due_ms, acknowledged_ms) <= up <= arrived_ms), None)
        if ready_ms is None:
            late.append(max(arrived_ms - max(due_ms, acknowledged_ms), 0.0))
        else:
            after_recovery.append(arrived_ms - ready_ms)
    return Outcome(
        len(downs),
        len(load.acknowledged),
        sorted(set(load.acknowledged) - set(counts)),
        sorted(number for number, count in counts.items() if count > 1),
        sorted(number for number, arrived_ms in arrivals if arrived_ms < load.due[number]),
        [up - down for down, up in downs],
        sorted(late),
        sorted(after_recovery),
    )


def percentile(values: list[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    outcome = run(options.times, options.seed)
    recoveries = sorted(outcome.recoveries_ms)
    print(
        f"seed {options.seed}: {outcome.kills} kills, {outcome.acknowledged} acknowledged, "
        f"{len(outcome.missing)} missing, {len(outcome.doubled)} doubled, {len(outcome.early)} early; "
        f"down for {percentile(recoveries, 0.5):.0f} ms (p50), {recoveries[-1]:.0f} ms (max); "
        f"late by {percentile(outcome.late_ms, 0.5):.1f} ms (p50), {percentile(outcome.late_ms, 0.99):.1f} ms (p99) "
        f"while up; {len(outcome.after_recovery_ms)} due while down, late by the rest of the recovery and "
        f"{percentile(outcome.after_recovery_ms, 0.5):.0f} ms (p50), "
        f"{percentile(outcome.after_recovery_ms, 0.99):.0f} ms (p99), "
        f"{percentile(outcome.after_recovery_ms, 1.0):.0f} ms (max)"
    )
    return 1 if outcome.missing or outcome.doubled or outcome.early else 0


if __name__ == "__main__":
    sys.exit(main())
