"""The request log: every request while its logger is at DEBUG, slow ones by a setting, and nothing otherwise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.integration.writers import wait_until
from tidelog.client import Admin, ConfigChange, ConfigResource, ResourceType


class Served:
    """A broker in a process of its own, and what it has logged."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self._log = log

    def requests(self) -> list[dict[str, str]]:
        """The lines of the request log, as pairs."""
        events = [json.loads(line) for line in self._log.read_text().splitlines()]
        found = [event for event in events if event["logger"].startswith("tidelog.request")]
        return [dict(re.findall(r"(\w+)=(\S+)", event["message"]), level=event["level"]) for event in found]


@contextmanager
def served(directory: Path, *words: str) -> Iterator[Served]:
    log = directory / "log"
    command = [sys.executable, "-m", "tidelog", "serve", "--log-format", "json", *words]
    settings = [f"--set=log.dirs={directory / 'data'}", "--set=listeners=PLAINTEXT://127.0.0.1:0"]
    with (
        log.open("w") as errors,
        subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        yield Served(process, process.stdout.readline().split()[-1], log)
        process.terminate()


def produce(broker: Served, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "client.id": "billing", "acks": "all"})
    for number in range(count):
        producer.produce("orders", str(number))
        producer.flush(30)


def produces(broker: Served) -> list[dict[str, str]]:
    return [each for each in broker.requests() if each["api"] == "Produce"]


def test_every_request_is_logged_while_the_logger_is_at_debug(tmp_path: Path) -> None:
    with served(tmp_path) as broker, Admin({"bootstrap.servers": broker.address}) as admin:
        produce(broker, 3)
        assert broker.requests() == [], "a broker in steady state is quiet"
        loggers = ConfigResource(ResourceType.BROKER_LOGGER, str(admin.describe_cluster().controller_id))
        admin.incremental_alter_configs({loggers: [ConfigChange("tidelog.request", "DEBUG")]})
        produce(broker, 3)
        wait_until(
            lambda: len([each for each in broker.requests() if each["api"] == "Produce"]) == 3, "three are logged"
        )
        logged = [each for each in broker.requests() if each["api"] == "Produce"]
        assert {each["client"] for each in logged} == {"billing"}
        for each in logged:
            parts = [float(each[name]) for name in ("queue_ms", "local_ms", "remote_ms", "send_ms")]
            assert abs(sum(parts) - float(each["total_ms"])) < 0.01, "the parts add up to the whole"
        admin.incremental_alter_configs({loggers: [ConfigChange("tidelog.request", "INFO")]})
        before = len(broker.requests())
        produce(broker, 3)
        assert len(broker.requests()) <= before + 1, "the request that changed the level may be the last"


def test_slow_requests_are_logged_with_where_the_time_went(tmp_path: Path) -> None:
    with served(tmp_path, "--set=tidelog.slow.request.ms=0") as broker:
        produce(broker, 2)
        wait_until(lambda: "Produce" in {each["api"] for each in broker.requests()}, "it is logged")
        assert {each["level"] for each in broker.requests()} == {"WARNING"}
