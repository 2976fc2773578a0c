"""A broker that runs out of file descriptors refuses sockets and goes on writing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.integration.cli_support import SOURCE
from tests.integration.raw_client import RawClient, batch_of, fetch_records, produce
from tests.integration.writers import wait_until
from tidelog.wire import messages
from tidelog.wire.messages.create_topics import CreatableTopic

DESCRIPTORS = 256
CONNECTIONS = 400
PARTITIONS = 4


@contextmanager
def broker_with_few_descriptors(directory: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A broker process, and its port. The hard limit is low as well: a broker raises the soft one to it."""
    words = [sys.executable, "-m", "tidelog", "serve", "--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    words += ["--set", f"log.dirs={directory}", "--set", "log.segment.bytes=1000"]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": SOURCE},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline().rpartition(b":")[2])
        finally:
            process.terminate()
            process.wait(20)


def test_idle_sockets_cannot_take_the_descriptors_that_files_need(tmp_path: Path) -> None:
    """Fails on 4724f6e: a write that opens a segment finds no descriptor, and the broker takes its disk for failed."""
    log = tmp_path / "stderr"
    with broker_with_few_descriptors(tmp_path / "data", log) as (process, port), RawClient(port) as client:
        client.call(
            messages.CreateTopicsRequest(
                topics=[CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)]
            )
        )
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            wait_until(lambda: b"ulimit -n" in log.read_bytes(), "connections are refused")
            for number in range(100):
                value = b"%d " % number + b"x" * 400
                assert produce(client, "t", number % PARTITIONS, batch_of([value])).error_code == 0
            created = client.call(
                messages.CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=3, replication_factor=1)])
            )
            assert [topic.error_code for topic in created.topics] == [0]
        # All of the idle ones are gone, and a new client is served again.
        wait_until(lambda: _is_served(port), "a new client is served")
        for partition in range(PARTITIONS):
            assert len(fetch_records(client, "t", partition)) > 0
        assert process.poll() is None
    text = log.read_text(encoding="utf-8")
    assert process.returncode == 0, text
    assert "failed" not in text
    assert text.count("connections refused") <= 3


def _is_served(port: int) -> bool:
    try:
        with RawClient(port) as client:
            return bool(client.call(messages.MetadataRequest(topics=[])).brokers)
    except (OSError, EOFError, AssertionError):
        return False
