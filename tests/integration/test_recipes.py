"""The programs of docs/recipes that need no file of their own here, run as they stand on the pages."""

import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_support import run_here
from tests.integration.client_examples import until_idle
from tests.integration.client_support import committed_offset, read_all
from tests.integration.killed_at import start
from tests.integration.recipes import PAGES, commands, programs
from tidelog.client import Producer
from tidelog.testing import Broker

SECONDS = 60.0
PRODUCER = "tidelog.client.producer.Producer"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Run the program with a number on a page, until it ends or waits for more records."""

    def run_program(page: str, number: int, **changes: str) -> dict[str, Any]:
        changed = {"localhost:9092": broker.bootstrap_servers, **changes}
        names: dict[str, Any] = {"__name__": "example"}
        with until_idle(monkeypatch):
            exec(compile(programs(page, changed)[number], page, "exec"), names)
        return names

    return run_program


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_every_page_is_in_the_index_and_links_lead_to_pages() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (PAGES / link).exists(), f"{page.name} links to {link}"


def test_no_record_lost(broker: Broker, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = commands("no-record-lost.md")
    for three, one in (("factor 3", "factor 1"), ("replicas=2", "replicas=1"), ("partitions 6", "partitions 1")):
        command = command.replace(three, one)
    assert run_here(*command.split()[1:], server=broker.bootstrap_servers).code == 0
    run(
        "no-record-lost.md",
        0,
        **{'print(take_payment("alice", 5))': "print([take_payment(a * 2_000_000, 5) for a in ('', 'a')])"},
    )
    printed = capsys.readouterr().out
    assert "not taken:" in printed
    assert "[True, False]" in printed
    run("no-record-lost.md", 1)
    assert "booked b'' b'5'" in capsys.readouterr().out
    assert committed_offset(broker.bootstrap_servers, "ledger", ("payments", 0)) == 1


def test_idempotent_handlers(run: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shop = tmp_path / "shop.db"
    with closing(sqlite3.connect(shop)) as connection:
        with connection:
            connection.execute("CREATE TABLE accounts (balance INTEGER)")
            connection.execute("INSERT INTO accounts VALUES (7)")
        run("idempotent-handlers.md", 0, **{"shop.db": str(shop)})
        assert capsys.readouterr().out.split() == ["booked", "known"]
        assert connection.execute("SELECT balance FROM accounts").fetchall() == [(12,)]


def test_order_by_key(broker: Broker, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    broker.create_topic("order-states", 3)
    run("order-by-key.md", 0)
    consumer = run("order-by-key.md", 1)["consumer"]
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        until(lambda: consumer.counts.handled == 12)
    finally:
        consumer.stop()
        thread.join(SECONDS)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for order in ("order-1041", "order-1042", "order-1043"):
        assert [state for key, state in lines if key == order] == ["placed", "paid", "packed", "sent"]


def test_several_topics_at_once(run: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    run("several-topics-at-once.md", 0)
    assert "aborted: alice does not have so much" in capsys.readouterr().out
    run("several-topics-at-once.md", 1)
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["deposits b'bob' b'5'", "withdrawals b'alice' b'5'"]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([f"after:{PRODUCER}.send_offsets_to_transaction"], id="once"),
        pytest.param(
            [
                f"after:{PRODUCER}.send#3",
                f"before:{PRODUCER}.send_offsets_to_transaction",
                f"after:{PRODUCER}.send_offsets_to_transaction#2",
                f"before:{PRODUCER}.commit",
                f"after:{PRODUCER}.commit",
            ],
            id="at every step",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_program_with_state_in_a_compacted_topic_goes_on_after_kills(
    broker: Broker, tmp_path: Path, steps: list[str]
) -> None:
    servers, count = broker.bootstrap_servers, 60
    broker.create_topic("bookings", 2)
    (command,) = commands("state-in-a-compacted-topic.md")
    assert run_here(*command.replace("partitions 6", "partitions 2").split()[1:], server=servers).code == 0
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send("bookings", str(1 << number).encode(), f"account-{number % 5}".encode(), partition=number % 2)
        producer.flush()
    # A member that is killed comes back at once as itself.
    changes = {
        "localhost:9092": servers,
        '"group.id": "balances"': '"group.id": "balances", "max.poll.records": 5, "group.instance.id": "1"',
    }
    program = tmp_path / "balances.py"
    program.write_text(programs("state-in-a-compacted-topic.md", changes)[0])
    for step in steps:
        assert ended(start(step, str(program))) == -signal.SIGKILL, step
    process = start(None, str(program))
    try:
        until(
            lambda: sum(max(committed_offset(servers, "balances", ("bookings", each)), 0) for each in (0, 1)) == count
        )
    finally:
        process.kill()
        process.communicate()
    found = {
        (each.partition(), each.key()): int(each.value() or b"")
        for each in read_all(servers, "balances", 2, isolation="read_committed")
    }
    expected: dict[tuple[int, bytes], int] = {}
    for number in range(count):
        key = (number % 2, f"account-{number % 5}".encode())
        expected[key] = expected.get(key, 0) + (1 << number)
    assert found == expected


def ended(process: Any) -> int:
    try:
        output = process.communicate(timeout=SECONDS)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL, output.decode()
    return int(process.returncode)
