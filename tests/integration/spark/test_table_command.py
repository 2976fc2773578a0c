"""`tidelog table` as docs/pipelines/table-command.md has it: a topic as a table, while its processes are killed.

PyIceberg and DuckDB read the same rows, which are those that a plain dictionary has.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.pages import run_snippet
from tests.integration.spark.pipeline_support import committed, make_topics
from tidelog.cli.table._supervisor import TableDirectory
from tidelog.client import Producer
from tidelog.spark.pipeline import iceberg
from tidelog.spark.pipeline.lake.tables import open_table
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 300.0
PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "table-command.md"


class Topic:
    """A topic and the rows that its last records make."""

    def __init__(self, servers: str, name: str) -> None:
        self._servers = servers
        self._name = name
        self._chance = random.Random(5)
        self.rows: dict[int, tuple[str, float]] = {}
        self.bad = 0

    def send(self, count: int) -> None:
        """Records of twenty keys: orders, some without a value, and some that are no orders."""
        with Producer(bootstrap_servers=self._servers) as producer:
            for _ in range(count):
                key, kind = self._chance.randrange(20), self._chance.random()
                value: bytes | None = None
                if kind > 0.2:
                    self.rows[key] = (f"c{key % 3}", round(self._chance.random(), 3))
                    customer, amount = self.rows[key]
                    value = json.dumps({"id": key, "customer": customer, "amount": amount}).encode()
                elif kind > 0.1:
                    self.rows.pop(key, None)
                else:
                    self.bad += 1
                    value = b"no order"
                producer.send(self._name, value, str(key).encode())


def tidelog(*words: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, which leaves the pipeline's behind."""
    return subprocess.run([sys.executable, "-m", "tidelog", "table", *words], capture_output=True, text=True)


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.3)


def test_a_table_is_equal_to_its_topic_although_its_processes_are_killed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, name = broker.bootstrap_servers, "orders"
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", servers)
    monkeypatch.setenv("TIDELOG_TABLES", "tables")
    monkeypatch.chdir(tmp_path)
    make_topics(servers, **{name: 2})
    topic = Topic(servers, name)
    topic.send(60)
    table = TableDirectory(tmp_path / "tables" / "orders")
    described = iceberg("default.orders", warehouse="lake")

    def rows() -> dict[int, tuple[str, float]]:
        opened: Any = open_table(described)
        found = [] if opened.opened() is None else opened.read().to_pylist()
        assert len({row["id"] for row in found}) == len(found), "each key once"
        return {row["id"]: (row["customer"], row["amount"]) for row in found}

    def log() -> str:
        return f"{table.state()}\n{table.log.read_text()[-3000:]}"

    create = ["--topic", name, "--format", "iceberg", "--warehouse", "lake", "--key", "id", "--every", "1s"]
    try:
        created = tidelog("create", "orders", *create)
        assert created.returncode == 0, f"{created.stderr}\n{log()}"
        assert "id long, customer string, amount double" in created.stdout
        assert "is there already" in tidelog("create", "orders", *create).stderr
        until(lambda: rows() == topic.rows, log)
        topic.send(40)
        os.kill(table.state()["pid"], signal.SIGKILL)
        until(lambda: rows() == topic.rows, log)
        os.kill(table.state()["supervisor"], signal.SIGKILL)
        topic.send(40)
        assert tidelog("status", "orders").returncode == 1
        assert tidelog("start", "orders").returncode == 0, log()
        until(lambda: rows() == topic.rows, log)
        assert tidelog("stop", "orders").returncode == 0, log()
    finally:
        for process in ("supervisor", "pid"):
            if table.is_supervised() and table.state().get(process):
                os.kill(table.state()[process], signal.SIGKILL)
    assert len(committed(servers, f"{name}.dlq")) == topic.bad
    sums: dict[str, float] = {}
    for customer, amount in topic.rows.values():
        sums[customer] = sums.get(customer, 0) + amount
    assert _with_duckdb() == pytest.approx(sums)


def _with_duckdb() -> dict[str, float]:
    """What DuckDB makes of the rows that the page's program reads."""
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    orders = run_snippet(code)["orders"]
    assert orders.num_rows > 0
    return dict(duckdb.sql("select customer, sum(amount) from orders group by customer").fetchall())
