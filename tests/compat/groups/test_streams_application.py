"""A real application of Kafka Streams: a second instance joins, the first is killed, and every word is counted once.

With both protocols. For the newer one Kafka's own tools show the group and delete it, and read its records in our log.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from benchmarks import apache_kafka
from benchmarks.maven import Jars
from tests.compat.groups.kraft import NEWEST
from tidelog.testing import Broker

confluent_kafka = pytest.importorskip("confluent_kafka")

JARS: Final = Jars(
    "kafka-streams-4.3.1",
    "Kafka Streams 4.3.1",
    (("org.apache.kafka", "kafka-streams", "4.3.1"), ("org.slf4j", "slf4j-nop", "1.7.36")),
    with_dependencies=True,
)
JAVA: Final = ("java", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STREAMS_GROUPS: Final = "org.apache.kafka.tools.streams.StreamsGroupCommand"
DUMP_LOG: Final = "org.apache.kafka.tools.DumpLogSegments"
GROUP: Final = "wordcount"
DEADLINE_S: Final = 60.0
TASKS: Final = 8
SETTINGS: Final = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
APPLICATION: Final = {
    "application.id": GROUP,
    "processing.guarantee": "exactly_once_v2",
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "commit.interval.ms": "100",
    "statestore.cache.max.bytes": "0",
}

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 240)]


class Instance:
    """One process of the application."""

    def __init__(self, servers: str, directory: Path, protocol: str) -> None:
        own = {"bootstrap.servers": servers, "state.dir": str(directory), "group.protocol": protocol}
        settings = [f"{name}={value}" for name, value in {**APPLICATION, **own}.items()]
        program = str(Path(__file__).with_name("WordCount.java"))
        self._process = subprocess.Popen(
            [*JAVA, "-cp", f"{JARS.libs}/*", program, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines += (line.strip() for line in self._process.stdout)

    @property
    def tasks(self) -> int:
        """How many it said it runs."""
        found = [int(line.split()[1]) for line in self.lines if line.startswith("tasks ")]
        return found[-1] if found else 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        """Let it leave the group."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
        self._reader.join()


@contextmanager
def instance(servers: str, directory: Path, protocol: str) -> Iterator[Instance]:
    """A process that does not outlive the test."""
    made = Instance(servers, directory, protocol)
    try:
        yield made
    finally:
        made.kill()


class Counts:
    """What the application has written."""

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed", "log_level": 0})
        self._consumer.subscribe(["counts"])
        self.found: dict[str, list[int]] = defaultdict(list)

    def wait_for(self, words: Counter[str]) -> None:
        """Until every word was counted as often as it was written: each time by one more, and never twice."""
        expected = {word: list(range(1, count + 1)) for word, count in words.items()}
        deadline = time.monotonic() + DEADLINE_S
        while self.found != expected:
            assert time.monotonic() < deadline, f"{dict(self.found)}, not {expected}"
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                self.found[message.key().decode()].append(int(message.value()))

    def close(self) -> None:
        self._consumer.close()


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not {what}"
        time.sleep(0.05)


def tool(main_class: str, *arguments: str) -> str:
    """What one of Kafka's tools prints."""
    command = [*JAVA, "-cp", f"{NEWEST.libs}/*", main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout


@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_every_word_is_counted_once_whoever_joins_and_dies(protocol: str, tmp_path: Path) -> None:
    for jars in (JARS, NEWEST):
        reason = jars.unavailable_reason()
        if reason is not None:
            pytest.skip(reason)
    with Broker(config=SETTINGS, data_dir=tmp_path / "data") as broker:
        servers = broker.bootstrap_servers
        broker.create_topic("lines", 4)
        broker.create_topic("counts", 2)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
        words: Counter[str] = Counter()

        def write(count: int) -> None:
            for number in range(count):
                line = [f"w{number % 7}", f"w{number % 3}"]
                words.update(line)
                producer.produce("lines", " ".join(line), key=str(number))
            assert producer.flush(30) == 0

        write(50)
        counts = Counts(servers)
        with instance(servers, tmp_path / "a", protocol) as first:
            counts.wait_for(words)
            until(lambda: first.tasks == TASKS, "all tasks with the first instance")
            with instance(servers, tmp_path / "b", protocol) as second:
                until(lambda: first.tasks == second.tasks == TASKS // 2, "half of the tasks with each instance")
                write(50)
                counts.wait_for(words)
                write(50)
                first.kill()
                counts.wait_for(words)
                until(lambda: second.tasks == TASKS, "all tasks with the second instance")
                if protocol == "streams":
                    _look(servers)
                second.close()
                assert second.lines[-1] == "closed"
                assert not [line for line in (*first.lines, *second.lines) if line.startswith("failed")]
        counts.close()
        if protocol == "streams":
            tool(STREAMS_GROUPS, "--bootstrap-server", servers, "--delete", "--group", GROUP)
            assert GROUP not in tool(STREAMS_GROUPS, "--bootstrap-server", servers, "--list").split()
    if protocol == "streams":
        _read_records(tmp_path / "data")


def _look(servers: str) -> None:
    """The group as Kafka's own tool shows it."""
    group = ("--bootstrap-server", servers, "--describe", "--group", GROUP)
    state = tool(STREAMS_GROUPS, *group, "--state").split("\n")[-2].split()
    assert (state[0], state[3], state[-1]) == (GROUP, "Stable", "1")
    offsets = [line.split() for line in tool(STREAMS_GROUPS, *group).split("\n") if line.startswith(GROUP)]
    assert sorted(line[1] for line in offsets) == ["lines"] * 4 + [f"{GROUP}-words-repartition"] * 4


def _read_records(directory: Path) -> None:
    """Kafka reads every kind of record that a streams group writes."""
    logs = [str(path) for path in sorted(directory.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    printed = tool(DUMP_LOG, "--offsets-decoder", "--files", ",".join(logs))
    kinds = {kind for kind in range(17, 24) if f'key: {{"type":"{kind}","data":{{"groupId":"{GROUP}"' in printed}
    assert kinds == {17, 19, 20, 21, 22, 23}
    assert "could not be decoded" not in printed.lower()
