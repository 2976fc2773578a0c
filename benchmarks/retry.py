"""`python -m benchmarks retry`: how punctual retries are and how many a second there are, beside what people use today.

Each record, or message, fails once and succeeds when it comes back. Punctuality is the time between the due time and
the second call of the handler; throughput counts both calls, from the first of them on and without the delay. Each runs
in one process with 32 handlers at once, one after another, and each has a round before the measured one that is not
counted: imports, topics, connections and groups are there by then.

    Tidelog               its three stores
    Celery, Dramatiq      with Redis, in threads; `self.retry(countdown=…)` and `raise Retry(delay=…)`
    kafka-python          two threads: one handles the topic and sends what failed to a second topic, the other sleeps
                          until the first record of that one is due, and handles it

What is not installed is left out. `--write` puts the table into docs/retries.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import logging
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import tidelog_broker
from benchmarks.processes import free_port
from benchmarks.sections import put_between_marks
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin, AsyncRetryingConsumer, NewTopic, Producer, RetryPolicy, current_attempt

CONCURRENCY: Final = 32
PARTITIONS: Final = 4
_PAGE: Final = Path(__file__).parents[1] / "docs" / "retries.md"
_WARM_RECORDS: Final = 100
_WARM_DELAY_S: Final = 0.2
_SECONDS_MAX: Final = 30.0
"""Of one round. The whole takes less than four minutes even if each of them ends this way."""


class Calls:
    """When each record failed, and when it came back."""

    def __init__(self, name: str, count: int, delay_s: float) -> None:
        self.name = name
        self.count = count
        self.delay_s = delay_s
        self._failed: dict[int, float] = {}
        self._returned: dict[int, float] = {}
        self._is_complete = threading.Event()

    def wait(self) -> None:
        """Until every record came back, or the time for a round is over."""
        self._is_complete.wait(_SECONDS_MAX)

    def fail(self, number: int) -> None:
        self._failed.setdefault(number, time.monotonic())
        raise OSError("the first attempt")

    def succeed(self, number: int) -> None:
        self._returned.setdefault(number, time.monotonic())
        if len(self._returned) == self.count:
            self._is_complete.set()

    def row(self) -> str:
        if len(self._returned) < self.count:
            missing = f"{len(self._returned):,} of {self.count:,} came back in {_SECONDS_MAX:g} s"
            return f"| {self.name} | {missing} | | |"
        late = sorted(self._returned[each] - self._failed[each] - self.delay_s for each in self._returned)
        seconds = max(self._returned.values()) - min(self._failed.values()) - self.delay_s
        p99 = late[int(len(late) * 0.99)]
        rate = 2 * self.count / max(seconds, 0.001)
        return f"| {self.name} | {statistics.median(late) * 1000:,.0f} ms | {p99 * 1000:,.0f} ms | {rate:,.0f}/s |"


Round = Callable[[Calls], None]
"""Lets `Calls.count` records fail and come back, until all have or the time is over."""


def main(arguments: list[str]) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks retry", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2000, help="records that fail once (%(default)s)")
    parser.add_argument("--delay", type=float, default=2.0, help="seconds until they are tried again (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/retries.md")
    options = parser.parse_args(arguments)
    lines = ["| retries | late, p50 | late, p99 | handler calls |", "|---|---:|---:|---:|"]
    print(*lines, sep="\n")
    tidelog_broker.use_source_tree()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        settings = {"group.initial.rebalance.delay.ms": "0"}
        broker = stack.enter_context(TidelogBroker(Path(directory), settings))
        redis_url = _start_redis(stack, directory)
        for name, play in _contestants(broker.bootstrap_servers, redis_url):
            play(Calls(name, _WARM_RECORDS, _WARM_DELAY_S))
            measured = Calls(name, options.records, options.delay)
            play(measured)
            lines.append(measured.row())
            print(lines[-1], flush=True)
    if options.write:
        command = f"python -m benchmarks retry --records {options.records} --delay {options.delay:g}"
        head = f"`{command}`, {datetime.now(UTC):%Y-%m-%d}:"
        put_between_marks(_PAGE, "python -m benchmarks retry --write", [head, "", *lines])
    return 0


def _contestants(servers: str, redis_url: str | None) -> Iterator[tuple[str, Round]]:
    yield 'Tidelog, `store="broker"`', partial(_tidelog, servers, "broker")
    yield 'Tidelog, `store="topics"`', partial(_tidelog, servers, "topics")
    if redis_url is not None:
        yield 'Tidelog, `store="redis://…"`', partial(_tidelog, servers, redis_url)
        if _is_installed("celery"):
            yield "Celery with Redis", partial(_celery, redis_url)
        if _is_installed("dramatiq"):
            yield "Dramatiq with Redis", partial(_dramatiq, redis_url)
    if _is_installed("kafka"):
        yield "kafka-python with sleeps, on Tidelog", partial(_kafka_python, servers)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _start_redis(stack: contextlib.ExitStack, directory: str) -> str | None:
    if shutil.which("redis-server") is None or not _is_installed("redis"):
        return None
    port = free_port()
    command = ["redis-server", "--port", str(port), "--dir", directory, "--appendonly", "yes", "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return f"redis://127.0.0.1:{port}/0"


def _new_topic(servers: str, *suffixes: str) -> str:
    topic = f"orders-{time.monotonic_ns()}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"{topic}{suffix}", PARTITIONS) for suffix in ("", *suffixes)])
    return topic


def _fill(servers: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())


def _tidelog(servers: str, store: str, calls: Calls) -> None:
    topic = _new_topic(servers)
    _fill(servers, topic, calls.count)

    async def handle(record: Any) -> None:
        (calls.fail if current_attempt() == 1 else calls.succeed)(int(record.value))

    async def run() -> None:
        consumer = AsyncRetryingConsumer(
            topic,
            handle,
            RetryPolicy([calls.delay_s], attempts=3, store=store),
            bootstrap_servers=servers,
            group_id=topic,
            concurrency=CONCURRENCY,
        )
        running = asyncio.create_task(consumer.run())
        await asyncio.to_thread(calls.wait)
        consumer.stop()
        await running

    asyncio.run(run())


def _dramatiq(url: str, calls: Calls) -> None:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.middleware import CurrentMessage, Retries

    broker = RedisBroker(url=url, middleware=[Retries(), CurrentMessage()])
    dramatiq.set_broker(broker)

    def handle(number: int) -> None:
        message = CurrentMessage.get_current_message()
        if message is not None and "retries" in message.options:
            calls.succeed(number)
            return
        with contextlib.suppress(OSError):
            calls.fail(number)
        raise dramatiq.Retry(delay=int(calls.delay_s * 1000))

    actor: Any = dramatiq.actor(max_retries=3, queue_name=f"orders-{calls.count}")(handle)
    for number in range(calls.count):
        actor.send(number)
    worker = dramatiq.Worker(broker, worker_threads=CONCURRENCY)
    worker.start()
    calls.wait()
    worker.stop()


def _celery(url: str, calls: Calls) -> None:
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    logging.getLogger("celery").setLevel(logging.CRITICAL)
    app = Celery("orders", broker=url)
    app.conf.update(
        task_default_queue=f"orders-{calls.count}", task_ignore_result=True, worker_hijack_root_logger=False
    )

    def handle(self: Any, number: int) -> None:
        if self.request.retries:
            calls.succeed(number)
            return
        with contextlib.suppress(OSError):
            calls.fail(number)
        raise self.retry(countdown=calls.delay_s)

    task: Any = app.task(bind=True, max_retries=3, name="handle")(handle)
    for number in range(calls.count):
        task.delay(number)
    # A worker in threads of this process: the calls are counted here.
    with start_worker(app, pool="threads", concurrency=CONCURRENCY, perform_ping_check=False, loglevel="CRITICAL"):
        calls.wait()


def _kafka_python(servers: str, calls: Calls) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    topic = _new_topic(servers, "-later")
    _fill(servers, topic, calls.count)
    is_over = threading.Event()

    def consumer(name: str) -> Any:
        return KafkaConsumer(name, bootstrap_servers=servers, group_id=name, auto_offset_reset="earliest")

    def handle() -> None:
        producer = KafkaProducer(bootstrap_servers=servers)
        with contextlib.closing(consumer(topic)) as reading, contextlib.closing(producer):
            while not is_over.is_set():
                for records in reading.poll(100).values():
                    for record in records:
                        try:
                            calls.fail(int(record.value))
                        except OSError:
                            producer.send(f"{topic}-later", record.value)

    def handle_later() -> None:
        with contextlib.closing(consumer(f"{topic}-later")) as reading:
            while not is_over.is_set():
                for records in reading.poll(100).values():
                    for record in records:
                        time.sleep(max(record.timestamp / 1000 + calls.delay_s - time.time(), 0))
                        calls.succeed(int(record.value))

    threads = [threading.Thread(target=handle), threading.Thread(target=handle_later)]
    for thread in threads:
        thread.start()
    calls.wait()
    is_over.set()
    for thread in threads:
        thread.join()
