"""Kafka's Java client as part of the load: `ChaosClient.java` in a process, its lines written into the history."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from benchmarks import apache_kafka
from tests.compat.chaos.load import EVENTS, ORDERS, PARTITIONS, Load
from tidelog.testing.simulation.history import Reader, Send, Transaction, Verdict

SOURCE: Final = Path(__file__).with_name("ChaosClient.java")
_STOP_S: Final = 100.0
"""More than `delivery.timeout.ms`, which the last flush may take, and less than `load` waits."""


def add_java_clients(load: Load) -> None:
    """Start the clients; they end with the load."""
    command = ["java", *apache_kafka.TOOL_FLAGS, "-cp", apache_kafka.class_path(), str(SOURCE)]
    process = subprocess.Popen(
        [*command, load.servers, EVENTS, ORDERS, str(PARTITIONS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None, "its input is a pipe"
    assert process.stdout is not None, "its output is a pipe"
    client = _JavaClient(load, process, process.stdin, process.stdout)
    load.add("java-producers", lambda _: client.hold_while_producing(), is_producer=True)
    load.add("java-consumers", lambda _: client.hold_while_running(), is_producer=False)


class _JavaClient:
    """Reads what the process writes."""

    def __init__(self, load: Load, process: subprocess.Popen[str], words: IO[str], lines: IO[str]) -> None:
        self._load = load
        self._process = process
        self._input = words
        self._quiet = threading.Event()
        self._sends: dict[str, Send] = {}
        self._transactions: dict[str, Transaction] = {}
        self._readers: dict[str, Reader] = {}
        self._notes: dict[str, Callable[..., object]] = {
            "send": self._send,
            "ack": self._acknowledge,
            "fail": lambda _value, error: load.failed("java", error),
            "commit": lambda name: self._end(name, Verdict.COMMITTED, "transactions committed"),
            "abort": lambda name: self._end(name, Verdict.ABORTED, "transactions aborted"),
            "read": self._read,
            "error": lambda name, error: self._count(f"{name} met {error}"),
            "crash": lambda *words: load.crashed.append(" ".join(words)),
            "quiet": self._quiet.set,
            "end": lambda: None,
        }
        self._reading = threading.Thread(target=self._read_lines, args=(lines,), name="java-lines", daemon=True)
        self._reading.start()

    def hold_while_producing(self) -> None:
        self._load.wait_for_quiet()
        self._input.write("quiet\n")
        self._input.flush()
        if not self._quiet.wait(_STOP_S):
            self._load.crashed.append("the Java producers do not stop")
            self._process.kill()  # what they wrote from now on would be missing in the last reading, as if it were lost

    def hold_while_running(self) -> None:
        self._load.wait_for_end()
        self._input.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._load.crashed.append("the Java client does not stop")
            self._process.kill()
            self._process.wait()
        self._reading.join(_STOP_S)

    def _read_lines(self, lines: IO[str]) -> None:
        for line in lines:
            word, *rest = line.split()
            self._notes[word](*rest)
        lines.close()
        if self._process.wait() != 0:
            self._load.crashed.append(f"the Java client ended with exit code {self._process.returncode}")

    def _count(self, what: str) -> None:
        self._load.counts[what] += 1

    def _send(self, value: str, instance: str, name: str) -> None:
        transaction = None if name == "-" else self._transactions.setdefault(name, Transaction())
        self._load.counts["sends"] += 1
        self._sends[value] = self._load.history.send(value.encode(), transaction=transaction, producer=instance)

    def _acknowledge(self, value: str, topic: str, partition: str, offset: str) -> None:
        self._load.acknowledged(self._sends.pop(value), (topic, int(partition)), int(offset))

    def _end(self, name: str, verdict: Verdict, what: str) -> None:
        self._transactions.pop(name).verdict = verdict
        self._load.counts[what] += 1

    def _read(self, life: str, topic: str, partition: str, offset: str, value: str) -> None:
        reader = self._readers.get(life)
        if reader is None:
            reader = self._readers[life] = self._load.history.reader(life, group="java")
        self._load.saw(reader, topic, int(partition), int(offset), value.encode())
