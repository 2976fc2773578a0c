"""`kill -9` again and again under load, and the proof that nothing acknowledged was lost, doubled or reordered.

One broker process is killed at random moments while several idempotent producers write and a consumer reads. Between
the death and the next start things happen that a crash may leave behind: half a batch at the end of a file, missing
indexes, broken snapshots. At the end the files themselves are compared with what was acknowledged.

`test_kill` runs it as part of the suite; by hand, and for longer:

    python -m tests.integration.kill_loop --times 500 [--seed N]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.integration.log_files import FoundBatch, walk_partition
from tests.integration.mishaps import MISHAPS
from tests.integration.raw_client import RawClient, describe_topic
from tests.integration.writers import Acknowledged, Follower, TopicPartition, Writer, value_of, wait_until
from tidelog.records.batch import iterate_records
from tidelog.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from tidelog.testing import Broker
from tidelog.testing._process import ProcessRunner
from tidelog.testing._settings import broker_properties
from tidelog.testing.runner import BrokerFailed

PARTITIONS = 2
WRITERS = 4

TOPICS: dict[str, dict[str, object]] = {
    "rolling": {"segment.bytes": 16_384, "index.interval.bytes": 256},
    "synced": {"segment.bytes": 32_768, "flush.messages": 20, "flush.ms": 50},
    "preallocated": {"segment.bytes": 65_536, "preallocate": "true", "segment.index.bytes": 512},
    "recompressed": {"segment.bytes": 16_384, "compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
}
SETTINGS = {
    "log.initial.task.delay.ms": 20,
    "log.flush.scheduler.interval.ms": 30,
    "log.flush.offset.checkpoint.interval.ms": 50,
    "log.flush.start.offset.checkpoint.interval.ms": 50,
    "replica.high.watermark.checkpoint.interval.ms": 50,
}
KEYS: list[TopicPartition] = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]


class Outcome(NamedTuple):
    """What a run has shown."""

    kills: int
    acknowledged_batches: int
    stored_batches: int
    stored_records: int
    segments: int
    deaths: Counter[str]
    mishaps: Counter[str]
    took_s: float

    def __str__(self) -> str:
        return (
            f"{self.kills} kills in {self.took_s:.1f} s ({_counts(self.deaths)}; then {_counts(self.mishaps)}): "
            f"{self.acknowledged_batches} batches acknowledged, {self.stored_batches} stored with "
            f"{self.stored_records} records in {self.segments} segments; none lost, none twice, none out of order"
        )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(counter.items()))


class KillLoop:
    """One run over one data directory."""

    def __init__(self, data_dir: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._data_dir = data_dir
        self._broker = Broker(SETTINGS, process=True, data_dir=data_dir)
        self._epoch = -1
        self._deaths: Counter[str] = Counter()
        self._mishaps: Counter[str] = Counter()
        self._writers: list[Writer] = []
        self._follower = Follower("follower", lambda: self._broker.port, KEYS)

    def run(self, times: int) -> Outcome:
        """Kill the broker `times` times, then stop it in order and compare."""
        started = time.monotonic()
        with self._broker:
            for topic, config in TOPICS.items():
                self._broker.create_topic(topic, PARTITIONS, config=config)
            self._writers = [
                Writer(f"writer-{number}", lambda: self._broker.port, KEYS, self._random.randrange(2**32))
                for number in range(WRITERS)
            ]
            for client in (*self._writers, self._follower):
                client.start()
            for _ in range(times):
                self._one_death()
            self._let_writers_finish()
        batches = {key: walk_partition(self._directory(key)) for key in KEYS}
        for key, found in batches.items():
            self._compare(key, found)
        return self._outcome(times, batches, time.monotonic() - started)

    # --- dying ---

    def _one_death(self) -> None:
        self._wait_for_progress()
        time.sleep(self._random.uniform(0, 0.05))
        way = self._random.choices(
            (self._kill, self._kill_while_stopping, self._kill_while_starting), weights=(6, 2, 2)
        )[0]
        self._deaths[way.__name__.strip("_")] += 1
        way()
        if not self._is_marked_clean():
            self._let_something_happen()
        self._start()

    def _wait_for_progress(self) -> None:
        """A broker that is killed before it did anything proves little."""
        before = self._acknowledged_count()

        def has_progressed() -> bool:
            for client in (*self._writers, self._follower):
                client.check()
            return self._acknowledged_count() > before + 20

        wait_until(has_progressed, "batches are acknowledged after a restart")

    def _acknowledged_count(self) -> int:
        return sum(writer.acknowledged_count for writer in self._writers)

    def _kill(self) -> None:
        self._broker.kill()
        self._check_logs(self._broker.logs)

    def _kill_while_stopping(self) -> None:
        os.kill(self._broker.pid, signal.SIGTERM)
        time.sleep(self._random.uniform(0, 0.04))
        self._kill()

    def _kill_while_starting(self) -> None:
        """Kill it, and kill its successor at a random moment of its start-up or just after."""
        self._kill()
        runner = ProcessRunner(30.0)
        timer = threading.Timer(self._random.uniform(0.02, 0.4), _kill_process_of, (runner,))
        properties = broker_properties(SETTINGS, str(self._data_dir), (self._broker.host, self._broker.port))
        timer.start()
        try:
            runner.start(properties)
        except BrokerFailed as failure:
            if "exit code -9" not in str(failure):
                raise
        else:
            timer.join()
            runner.kill()
        timer.join()
        self._check_logs(runner.logs())

    def _let_something_happen(self) -> None:
        name = self._random.choice(sorted(MISHAPS))
        self._mishaps[name] += 1
        MISHAPS[name](self._directory(self._random.choice(KEYS)), self._random)

    def _start(self) -> None:
        was_clean = self._is_marked_clean()
        self._broker.start()
        with RawClient(self._broker.port) as client:
            epochs = {p.leader_epoch for topic in TOPICS for p in describe_topic(client, topic).partitions}
        assert len(epochs) == 1, f"all partitions went through the same restarts: {epochs}"
        epoch = epochs.pop()
        assert epoch >= self._epoch if was_clean else epoch > self._epoch, f"{epoch} after {self._epoch}, {was_clean=}"
        self._epoch = epoch

    def _is_marked_clean(self) -> bool:
        return (self._data_dir / CLEAN_SHUTDOWN_FILE).exists()

    def _check_logs(self, logs: str) -> None:
        for word in ("Traceback", "CRITICAL", "offline"):
            assert word not in logs, logs

    # --- the end ---

    def _let_writers_finish(self) -> None:
        for writer in self._writers:
            writer.stop()
        written = {key: sum(len(w.acknowledged[key]) for w in self._writers) for key in KEYS}

        def has_followed() -> bool:
            self._follower.check()
            return all(len(self._follower.seen[key]) == count for key, count in written.items())

        wait_until(has_followed, "the consumer has read everything that was acknowledged")
        self._follower.stop()

    def _compare(self, key: TopicPartition, found: list[FoundBatch]) -> None:
        """The files hold what was acknowledged, batch for batch, at the offsets that were promised."""
        promised = sorted(
            (entry for writer in self._writers for entry in writer.acknowledged[key]), key=lambda e: e.base_offset
        )
        stored = [Acknowledged(b.producer_id, b.base_sequence, b.count, b.base_offset) for b in found]
        assert stored == promised, f"{key}: {_first_difference(stored, promised)}"
        assert [(b.base_offset, b.producer_id, b.base_sequence) for b in found] == self._follower.seen[key]
        assert all(a.leader_epoch <= b.leader_epoch for a, b in pairwise(found))
        next_sequence: dict[int, int] = {}
        for batch in found:
            assert batch.base_sequence == next_sequence.get(batch.producer_id, 0), f"{key}: {batch}"
            next_sequence[batch.producer_id] = batch.base_sequence + batch.count
        for batch in self._random.sample(found, min(200, len(found))):
            values = [record.value for record in iterate_records(batch.read())]
            sequences = range(batch.base_sequence, batch.base_sequence + batch.count)
            assert values == [value_of(batch.producer_id, key, sequence) for sequence in sequences]

    def _directory(self, key: TopicPartition) -> Path:
        return self._data_dir / f"{key[0]}-{key[1]}"

    def _outcome(self, times: int, batches: dict[TopicPartition, list[FoundBatch]], took_s: float) -> Outcome:
        stored = [batch for found in batches.values() for batch in found]
        return Outcome(
            times,
            self._acknowledged_count(),
            len(stored),
            sum(batch.count for batch in stored),
            len({batch.path for batch in stored}),
            self._deaths,
            self._mishaps,
            took_s,
        )


def _kill_process_of(runner: ProcessRunner) -> None:
    """Kill what a runner has started, or is about to start."""
    wait_until(lambda: runner._process is not None, "the process is started")
    os.kill(runner.pid, signal.SIGKILL)


def _first_difference(stored: list[Acknowledged], promised: list[Acknowledged]) -> str:
    for position, (one, other) in enumerate(zip(stored, promised, strict=False)):
        if one != other:
            return f"batch {position}: stored {one}, promised {other}"
    return f"{len(stored)} stored, {len(promised)} promised"


def run(times: int, seed: int) -> Outcome:
    """A whole run in a directory of its own, which stays if the run fails."""
    data_dir = Path(tempfile.mkdtemp(prefix=f"tidelog-kill-{seed}-"))
    try:
        outcome = KillLoop(data_dir, seed).run(times)
    except BaseException:
        print(
            f"data kept in {data_dir}; again with: python -m tests.integration.kill_loop --times {times} --seed {seed}"
        )
        raise
    shutil.rmtree(data_dir)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.kill_loop", description=__doc__)
    parser.add_argument("--times", type=int, default=500, help="how often to kill the broker [default: 500]")
    parser.add_argument("--seed", type=int, default=None, help="replay a run; random unless given")
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    print(run(options.times, seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
