"""Workers: functions that are called for each record of a queue, in this process and by `tidelog work`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_support import SOURCE, run_here
from tests.integration.client_support import SECONDS, unique
from tests.integration.writers import wait_until
from tidelog.client import Admin, Producer, Reject, Retry, RetryPolicy, ShareConsumer, ShareRecord, Worker
from tidelog.testing import Broker

Record = ShareRecord[bytes, bytes]
LOCK_MS = 1_500
SOON = RetryPolicy(delays=["10ms"], attempts=3)
DOCUMENT = Path(__file__).parents[2] / "docs" / "queues.md"
TASKS = """
import os, time
from tidelog.client import worker

@worker({topic!r}, group_id={group!r}, bootstrap_servers={servers!r})
def handle(record):
    with open({log!r}, "a") as log:
        print("began", os.getpid(), record.value.decode(), file=log, flush=True)
    if "HOLD" in os.environ:
        time.sleep(300)
    with open({log!r}, "a") as log:
        print("ended", os.getpid(), record.value.decode(), file=log, flush=True)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "group.share.record.lock.duration.ms": str(LOCK_MS),
        "share.coordinator.state.topic.num.partitions": "3",
    }
    with Broker(settings) as running:
        yield running


@contextmanager
def working(broker: Broker, handler: Callable[[Record], Any], **given: Any) -> Iterator[Worker]:
    """A worker in a thread; when the block begins, its group has begun."""
    topic = unique("queue")
    broker.create_topic(topic)
    worker = Worker(topic, handler, group_id=topic, bootstrap_servers=broker.bootstrap_servers, **given)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: has_begun(broker, topic), "the group begins")
        yield worker
    finally:
        worker.stop()
        thread.join(SECONDS)
        worker.close()
    assert not thread.is_alive()


def has_begun(broker: Broker, group: str) -> bool:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        is_there = group in {each.group_id for each in admin.list_groups(types=["Share"])}
        return is_there and bool(admin.list_share_group_offsets(group))


def lag(broker: Broker, group: str) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return sum(each.lag or 0 for each in admin.list_share_group_offsets(group).values())


@pytest.mark.parametrize("is_async", [False, True])
def test_every_record_is_handled_once_and_some_at_the_same_time(broker: Broker, is_async: bool) -> None:
    seen: list[bytes | None] = []
    both = threading.Barrier(2, timeout=SECONDS)

    def handle(record: Record) -> None:
        if record.value in (b"0", b"1"):
            both.wait()
        seen.append(record.value)

    async def handle_async(record: Record) -> None:
        await asyncio.to_thread(handle, record)

    with working(broker, handle_async if is_async else handle, concurrency=2) as worker:
        for number in range(20):
            worker.enqueue(b"%d" % number)
        wait_until(lambda: len(seen) == 20, "all are handled")
        wait_until(lambda: not lag(broker, worker.group_id), "all are acknowledged")
    assert {*seen} == {b"%d" % number for number in range(20)}
    assert (worker.counts.handled, worker.counts.lost) == (20, 0)


def test_a_failed_record_is_tried_again_and_rejected_in_the_end(broker: Broker) -> None:
    seen: list[tuple[bytes | None, int]] = []

    def handle(record: Record) -> None:
        seen.append((record.value, record.delivery_count))
        if record.value == b"fails":
            raise ValueError("always")
        if record.value == b"later" and record.delivery_count == 1:
            raise Retry(0.01)
        if record.value == b"never":
            raise Reject

    with working(broker, handle, policy=SOON) as worker:
        for value in (b"fails", b"later", b"never", b"fine"):
            worker.enqueue(value)
        wait_until(lambda: len(seen) == 7, "all attempts")
        wait_until(lambda: not lag(broker, worker.group_id), "all are done")
    assert sorted(seen) == [
        (b"fails", 1), (b"fails", 2), (b"fails", 3), (b"fine", 1), (b"later", 1), (b"later", 2), (b"never", 1),
    ]  # fmt: skip
    counts = worker.counts
    assert (counts.handled, counts.failed, counts.retried, counts.rejected) == (2, 5, 3, 2)


@pytest.mark.long
def test_a_lock_is_renewed_while_a_handler_runs(broker: Broker) -> None:
    seen: list[int] = []
    release = threading.Event()

    def handle(record: Record) -> None:
        seen.append(record.delivery_count)
        release.wait(SECONDS)

    with working(broker, handle, prefetch=1) as worker:
        worker.enqueue(b"long")
        worker.enqueue(b"behind it")
        wait_until(lambda: bool(seen), "the handler runs")
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 2 * LOCK_MS / 1000, "twice the time of a lock")
        release.set()
        wait_until(lambda: not lag(broker, worker.group_id), "both are done")
    assert seen == [1, 1]
    assert worker.counts.lost == 0


def test_a_handler_that_takes_too_long_has_failed(broker: Broker) -> None:
    seen: list[int] = []

    async def handle(record: Record) -> None:
        seen.append(record.delivery_count)
        if record.delivery_count == 1:
            await asyncio.sleep(300)

    with working(broker, handle, timeout_s=0.2, policy=SOON) as worker:
        worker.enqueue(b"x")
        wait_until(lambda: not lag(broker, worker.group_id) and len(seen) == 2, "the second attempt")
    assert (worker.counts.failed, worker.counts.handled) == (1, 1)


def test_a_stop_waits_for_what_runs_and_leaves_the_rest_to_others(broker: Broker) -> None:
    seen: list[bytes | None] = []

    def handle(record: Record) -> None:
        seen.append(record.value)
        worker.stop()

    with working(broker, handle, prefetch=5) as worker:
        for number in range(5):
            worker.enqueue(b"%d" % number).result(SECONDS)
        wait_until(lambda: bool(seen), "the first is handled")
    assert len(seen) == worker.counts.handled == 1
    assert lag(broker, worker.group_id) == 4


def test_what_cannot_be_deserialized_is_rejected(broker: Broker) -> None:
    seen: list[Any] = []
    with working(broker, lambda record: seen.append(record.value), value_deserializer=int) as worker:
        for value in (b"1", b"x", b"2"):
            worker.enqueue(value)
        wait_until(lambda: len(seen) == 2 and not lag(broker, worker.group_id), "all are done")
    assert seen == [1, 2]
    assert worker.counts.rejected == 1


def test_the_examples_of_the_page_run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, but for the address; a consumer that reads on and on ends when it has read its records."""

    class Enough(Exception):
        pass

    left: list[bytes] = []
    poll = ShareConsumer.poll

    def poll_or_end(self: ShareConsumer[bytes, bytes], timeout_s: float = 1.0) -> Any:
        if not left:
            raise Enough
        records = poll(self, min(timeout_s, 0.2))
        for record in records:
            if record.value in left:
                left.remove(record.value)
        return records

    text = DOCUMENT.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 3
    broker.create_topic("orders")
    broker.create_topic("invoices")
    with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="invoices") as consumer:
        consumer.subscribe(["orders"])
        wait_until(lambda: not consumer.poll(0.1) and has_begun(broker, "invoices"), "the group begins")
    monkeypatch.setattr(ShareConsumer, "poll", poll_or_end)
    for example in examples:
        code = example.replace("localhost:9092", broker.bootstrap_servers)
        left[:] = [b"now", b"never"]
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in left:
                producer.send("orders", value).result(SECONDS)
        names: dict[str, Any] = {"__name__": "example"}
        with suppress(Enough):
            exec(compile(code, str(DOCUMENT), "exec"), names)
        for each in names.values():
            if isinstance(each, Worker):
                each.close()


class Process:
    """`tidelog work` as a process of its own."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self.topic = unique("queue")
        self.log = directory / "log"
        self.log.touch()
        broker.create_topic(self.topic)
        self._broker = broker
        self._directory = directory
        given = {"topic": self.topic, "group": self.topic, "servers": broker.bootstrap_servers, "log": str(self.log)}
        (directory / "tasks.py").write_text(TASKS.format(**given), encoding="utf-8")

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tidelog", "work", "tasks:handle", "--format", "json", *words]
        environment = {**os.environ, "PYTHONPATH": SOURCE, **variables}
        environment.pop("TIDELOG_BOOTSTRAP_SERVERS", None)
        return subprocess.Popen(command, cwd=self._directory, env=environment, stdout=subprocess.PIPE, text=True)

    def said(self, word: str, value: str) -> list[int]:
        """The processes that have said so."""
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [int(pid) for said, pid, of in lines if (said, of) == (word, value)]

    def send(self, value: str) -> None:
        with Producer(bootstrap_servers=self._broker.bootstrap_servers) as producer:
            producer.send(self.topic, value.encode()).result(SECONDS)


@contextmanager
def ended_in_the_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_what_a_worker_held_when_it_was_killed_is_delivered_to_another(broker: Broker, tmp_path: Path) -> None:
    work = Process(broker, tmp_path)
    with ended_in_the_end(work.start(HOLD="1")) as first:
        wait_until(lambda: has_begun(broker, work.topic), "the group begins")
        work.send("long")
        wait_until(lambda: bool(work.said("began", "long")), "the handler runs")
        first.kill()
    with ended_in_the_end(work.start()) as second:
        wait_until(lambda: bool(work.said("ended", "long")), "another one handles it")
        second.send_signal(signal.SIGTERM)
        out, _ = second.communicate(timeout=SECONDS)
    assert work.said("began", "long") == [first.pid, second.pid]
    assert work.said("ended", "long") == [second.pid]
    assert second.returncode == 0
    assert '"event": "stopped"' in out
    assert '"handled": 1' in out
    wait_until(lambda: not lag(broker, work.topic), "it is done")


@pytest.mark.long
def test_a_worker_whose_handler_does_not_end_is_stopped_all_the_same(broker: Broker, tmp_path: Path) -> None:
    work = Process(broker, tmp_path)
    with ended_in_the_end(work.start("--stop-timeout", "0.1", HOLD="1")) as process:
        wait_until(lambda: has_begun(broker, work.topic), "the group begins")
        work.send("long")
        wait_until(lambda: bool(work.said("began", "long")), "the handler runs")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert '"abandoned": 1' in out
    assert lag(broker, work.topic) == 1


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module:x", "no_such_module"),
        ("tidelog.client.errors", "is not MODULE:NAME"),
        ("tidelog.client.errors:nothing", "no such name"),
        ("tidelog.client.errors:ApiError", "decorate it with @worker"),
    ],
)
def test_what_is_no_worker_is_refused(path: str, said: str) -> None:
    ran = run_here("work", path)
    assert ran.code == 1
    assert said in ran.err
