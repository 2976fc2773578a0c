"""docs/recipes/database-offsets.md: its programs, killed and paused between any two steps, on real databases."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import pytest

from tests.integration.client_support import unique
from tests.integration.killed_at import start
from tests.integration.postgres_support import PostgresServer
from tests.integration.recipes import programs
from tidelog.client import Producer
from tidelog.testing import Broker

SECONDS = 60.0
PARTITIONS = 2
ACCOUNTS = ("alice", "bob", "carol")
OFFSETS = "tidelog.client.database_offsets.DatabaseOffsets"
POLL = "tidelog.client.consumer.Consumer.poll"
# Between any two of the steps claim, poll, save and commit of both programs.
STEPS = [
    f"before:{OFFSETS}.claim",
    "after:tidelog.client.database_offsets._Claiming.on_assigned",
    f"after:{POLL}",
    f"before:{OFFSETS}.save",
    f"after:{OFFSETS}.save",
    f"after:{OFFSETS}.save#3",
    f"before:{OFFSETS}.save#2",
    f"before:{POLL}#3",
]


class Shop(NamedTuple):
    """A program of the page with a topic and a database of its own."""

    program: str
    topic: str
    query: Callable[[str], list[Any]]
    expected: dict[str, int]
    records: int

    def balances(self) -> dict[str, int]:
        return {name: int(balance) for name, balance in self.query("SELECT name, balance FROM accounts")}

    def saved(self) -> int:
        return sum(row[0] for row in self.query("SELECT next_offset FROM tidelog_offsets WHERE next_offset > 0"))

    def is_done(self) -> bool:
        return self.saved() == self.records


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 1, "group.min.session.timeout.ms": 100}) as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["postgresql", "sqlite"])
def shop(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Shop:
    return make_shop(request, broker, tmp_path, request.param)


@pytest.fixture
def postgres_shop(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Shop:
    return make_shop(request, broker, tmp_path, "postgresql")


def make_shop(request: pytest.FixtureRequest, broker: Broker, directory: Path, kind: str) -> Shop:
    topic = unique("payments")
    broker.create_topic(topic, PARTITIONS)
    quick = "max_poll_records=5, session_timeout_ms=1000, heartbeat_interval_ms=200"
    changes = {
        "localhost:9092": broker.bootstrap_servers,
        '["payments"]': f'["{topic}"]',
        'group_id="billing"': f'group_id="{topic}", {quick}',
        'group="billing"': f'group="{topic}"',
        "shop.db": str(directory / "shop.db"),
        "postgresql://localhost/shop": "postgresql://…",
    }
    query = on_sqlite(directory / "shop.db")
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        query = on_postgresql(server)
        changes["postgresql://localhost/shop"] = server.url
    for statement in (
        "DROP TABLE IF EXISTS accounts",
        "DROP TABLE IF EXISTS tidelog_offsets",
        "CREATE TABLE accounts (name TEXT PRIMARY KEY, balance BIGINT)",
        *(f"INSERT INTO accounts VALUES ('{name}', 0)" for name in ACCOUNTS),
    ):
        query(statement)
    program = directory / f"{kind}.py"
    program.write_text(programs("database-offsets.md", changes)[0 if kind == "postgresql" else 1])
    shop = Shop(str(program), topic, query, dict.fromkeys(ACCOUNTS, 0), 60)
    pay(broker, shop)
    return shop


def on_sqlite(file: Path) -> Callable[[str], list[Any]]:
    def query(statement: str) -> list[Any]:
        with closing(sqlite3.connect(file, timeout=SECONDS)) as connection, connection:
            return connection.execute(statement).fetchall()

    return query


def on_postgresql(server: PostgresServer) -> Callable[[str], list[Any]]:
    import psycopg

    def query(statement: str) -> list[Any]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return query


def pay(broker: Broker, shop: Shop) -> None:
    """Every payment is a power of two or a sum of a few: one that is missing cannot hide behind one too many."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(shop.records):
            name, amount = ACCOUNTS[number % 3], 1 << (number // 3 * 2)
            shop.expected[name] += amount
            producer.send(shop.topic, str(amount).encode(), name.encode(), partition=number % PARTITIONS)
        producer.flush()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def ended(process: Popen[bytes]) -> tuple[int, bytes]:
    try:
        output = process.communicate(timeout=SECONDS)[0]
    finally:
        process.kill()
        process.wait()
    return process.returncode, output


def finish(shop: Shop) -> None:
    """Run the program, as a supervisor does, until all is applied."""
    process = start(None, shop.program)
    try:
        until(lambda: shop.is_done() or process.poll() is not None)
    finally:
        process.kill()
        process.communicate()
    if not shop.is_done():
        finish(shop)


def paused(process: Popen[bytes]) -> Popen[bytes]:
    """Wait until a process has stopped itself."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it ended instead"
    return process


def test_the_programs_apply_each_record_once(shop: Shop) -> None:
    assert ended(start(f"before:{OFFSETS}.save", shop.program))[0] == -signal.SIGKILL
    finish(shop)
    assert shop.balances() == shop.expected


@pytest.mark.long
def test_a_consumer_that_is_killed_between_any_two_steps_applies_each_record_once(shop: Shop) -> None:
    for step in STEPS:
        assert ended(start(step, shop.program))[0] == -signal.SIGKILL, step
    finish(shop)
    assert shop.balances() == shop.expected


def test_a_consumer_that_wakes_up_after_it_was_replaced_changes_nothing(shop: Shop) -> None:
    zombie = paused(start(f"paused-before:{OFFSETS}.save#2", shop.program))
    try:
        finish(shop)
        zombie.send_signal(signal.SIGCONT)
        code, output = ended(zombie)
    finally:
        zombie.kill()
    assert code == 1
    assert b"OffsetsFenced" in output
    assert shop.balances() == shop.expected


@pytest.mark.long
def test_a_claim_waits_for_the_transaction_of_a_paused_owner(postgres_shop: Shop) -> None:
    shop = postgres_shop
    owner = paused(start(f"paused-after:{OFFSETS}.save#2", shop.program))
    following = start(None, shop.program)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    try:
        until(lambda: bool(shop.query(waiting)))
        owner.send_signal(signal.SIGCONT)
        until(shop.is_done)
    finally:
        for each in (owner, following):
            each.kill()
            each.communicate()
    assert shop.balances() == shop.expected


@pytest.mark.long
def test_a_claim_that_comes_too_late_costs_a_restart_and_no_record(shop: Shop) -> None:
    late = paused(start(f"paused-before:{OFFSETS}.claim", shop.program))
    following = start(f"paused-before:{OFFSETS}.save#2", shop.program)
    try:
        paused(following)
        before = shop.query("SELECT max(epoch) FROM tidelog_offsets")[0][0]
        late.send_signal(signal.SIGCONT)
        until(lambda: shop.query("SELECT max(epoch) FROM tidelog_offsets")[0][0] > before)
        following.send_signal(signal.SIGCONT)
        code, output = ended(following)
        assert (code, b"OffsetsFenced" in output) == (1, True)
    finally:
        for each in (late, following):
            each.kill()
            each.communicate()
    finish(shop)
    assert shop.balances() == shop.expected
