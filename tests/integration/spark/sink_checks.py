"""What the tests of the sink share: a driver to be killed, and a checker that compares output with input as multisets.

Topics are read by a client that is not ours, with read_committed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tests.integration.cli_support import SOURCE
from tests.integration.spark.sink_queries import KEYS, ROWS_PER_BATCH
from tests.unit.present import present

REPOSITORY = Path(__file__).parents[3]


class Row(NamedTuple):
    """A record as a reader of committed records sees it."""

    partition: int
    key: str | None
    value: int


def read_rows(servers: str, topic: str) -> list[Row]:
    """All committed records of a topic, each partition in its order."""
    rows = []
    for message in read_messages(servers, topic):
        key = message.key()
        value = int(present(message.value()))
        rows.append(Row(present(message.partition()), None if key is None else key.decode(), value))
    return rows


def read_messages(servers: str, topic: str) -> list[Message]:
    """The same as the client has them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"checker-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    messages: list[Message] = []
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        at_end: set[int] = set()
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        deadline = time.monotonic() + 30
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{topic} was not read to its end"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            else:
                at_end.add(present(message.partition()))
    finally:
        consumer.close()
    return messages


class Verdict(NamedTuple):
    """How the output differs from the input, which is all numbers of whole batches from 0 on."""

    batches: int
    missing: list[int]
    duplicates: int
    disordered: list[str]

    @property
    def is_clean(self) -> bool:
        return not self.missing and not self.duplicates and not self.disordered


def judge(rows: Iterable[Row]) -> Verdict:
    """Compare as multisets, and the order within keys."""
    counts: Counter[int] = Counter()
    last: dict[tuple[str, int], int] = {}
    disordered: list[str] = []
    for row in rows:
        counts[row.value] += 1
        key = row.key or ""
        previous = last.get((key, row.value % KEYS), -1)
        if row.value < previous:
            disordered.append(f"{row.value} after {previous} of key {key}")
        last[key, row.value % KEYS] = row.value
    batches = max(counts, default=-1) // ROWS_PER_BATCH + 1
    missing = [number for number in range(batches * ROWS_PER_BATCH) if number not in counts]
    return Verdict(batches, missing, sum(count - 1 for count in counts.values()), disordered)


class Driver:
    """A driver in a process group of its own."""

    def __init__(
        self,
        directory: Path,
        servers: str,
        queries: Sequence[dict[str, Any]],
        *,
        master: str,
        run: str = "run",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        plan = directory / f"{run}.json"
        description = {"servers": servers, "queries": list(queries), "master": master, "settings": dict(settings or {})}
        plan.write_text(json.dumps(description))
        self._log = (directory / f"{run}.log").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.spark.sink_queries", str(plan)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{REPOSITORY}"},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def await_files(self, names: Iterable[str], timeout_s: float = 280.0) -> None:
        """Return when all files are in the directory; the driver must be alive until then."""
        paths = [self._directory / name for name in names]
        self.await_that(lambda: all(path.exists() for path in paths), timeout_s, lambda: _absent(paths))

    def await_that(self, claim: Callable[[], bool], timeout_s: float, missing: Callable[[], str]) -> None:
        """Wait for `claim`."""
        deadline = time.monotonic() + timeout_s
        while not claim():
            assert self._process.poll() is None, f"the driver ended, and {missing()}:\n{self.log()}"
            assert time.monotonic() < deadline, f"after {timeout_s} s, {missing()}:\n{self.log()}"
            time.sleep(0.05)

    def finish(self, timeout_s: float = 280.0) -> None:
        """Wait for its end."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end within {timeout_s} s:\n{self.log()}") from None
        assert code == 0, f"the driver ended with {code}:\n{self.log()}"

    def kill(self) -> None:
        """`kill -9` of the driver, its JVM first of all."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        """The end of what it said."""
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._log.close()


def _absent(paths: Iterable[Path]) -> str:
    return "these files are missing: " + ", ".join(path.name for path in paths if not path.exists())
