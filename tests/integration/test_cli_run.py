"""A command gets a Kafka of its own, and its exit code is the program's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from confluent_kafka import Consumer, Producer
servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
assert os.environ["TIDELOG_BOOTSTRAP_SERVERS"] == os.environ["MY_SERVERS"] == servers
producer = Producer({"bootstrap.servers": servers})
producer.produce("orders", b"x", partition=5)
assert producer.flush(20) == 0
consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
assert [each.value() for each in consumer.consume(1, 20)] == [b"x"]
consumer.close()
print(os.environ["SCHEMA_REGISTRY_URL"], servers)
sys.exit(7)
"""


def tidelog(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_command_finds_a_broker_its_topics_and_a_registry() -> None:
    words = ["--topic", "orders:6", "--variable", "MY_SERVERS", "--registry", "--", sys.executable, "-c", PROGRAM]
    process = tidelog("run", *words)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (7, "")
    assert out.startswith("http://127.0.0.1:")
    port = int(out.split(":")[-1])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-command"], 127, "no-such-command: no such command"),
        (["--topic", "orders:x", "--", "true"], 1, "--topic 'orders:x' is not of the form NAME or NAME:PARTITIONS"),
        (["--set", "num.partitions", "--", "true"], 1, "--set 'num.partitions' is not of the form name=value"),
        (["--set", "num.partitons=3", "--", "true"], 1, "num.partitons"),
    ],
)
def test_what_cannot_run_says_why(words: list[str], code: int, said: str) -> None:
    process = tidelog("run", *words)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert said in errors
    assert "Traceback" not in errors


def test_sigterm_reaches_the_command_first(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print(os.environ['KAFKA_BOOTSTRAP_SERVERS'], flush=True)\n"
        "while True: signal.pause()\n"
    )
    process = tidelog("run", "--", sys.executable, "-c", program)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 5
