"""Java's console consumer as a member of a group, for as long as a test needs it."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import apache_kafka

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
STOP_S = 60.0


class JavaMember:
    """What it has read is there once it has left."""

    def __init__(self) -> None:
        self.values: set[bytes] = set()


@contextlib.contextmanager
def java_member(servers: str, topic: str, *properties: str) -> Iterator[JavaMember]:
    """A console consumer in the group named like its topic; SIGTERM lets it commit and leave."""
    # Left to itself it begins at the end it finds, and passes over what is written while it is still looking.
    properties = ("auto.offset.reset=earliest", *properties)
    options = [word for text in properties for word in ("--consumer-property", text)]
    command = apache_kafka.tool_command(CONSOLE_CONSUMER)
    command += ["--bootstrap-server", servers, "--topic", topic, "--group", topic, *options]
    member = JavaMember()
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "values"
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            yield member
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            member.values = set(output.read_bytes().splitlines())
