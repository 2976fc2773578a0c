"""`python -m benchmarks retry`: how punctual retries are and how many a second there are, beside Dramatiq with Redis.

Each record, or message, fails once and succeeds when it comes back. Punctuality is the time between the due time and
the second call of the handler; throughput counts both calls, without the delay. Each runs in one process with 32
handlers at once (Dramatiq: threads), one after another. Dramatiq and Redis are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import tidelog_broker
from benchmarks.processes import free_port
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin, AsyncRetryingConsumer, NewTopic, Producer, RetryPolicy, current_attempt

CONCURRENCY: Final = 32
_SECONDS_MAX: Final = 120.0


class Calls:
    """When each record failed, and when it came back."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._failed: dict[int, float] = {}
        self._returned: dict[int, float] = {}
        self.is_complete = threading.Event()
        self.started = time.monotonic()

    def fail(self, number: int) -> None:
        self._failed[number] = time.monotonic()
        raise OSError("the first attempt")

    def succeed(self, number: int) -> None:
        self._returned.setdefault(number, time.monotonic())
        if len(self._returned) == self._count:
            self.is_complete.set()

    def row(self, name: str, delay_s: float) -> str:
        if len(self._returned) < self._count:
            return f"| {name} | only {len(self._returned):,} of {self._count:,} came back | | |"
        late = sorted(self._returned[each] - self._failed[each] - delay_s for each in self._returned)
        seconds = max(self._returned.values()) - self.started
        p99 = late[int(len(late) * 0.99)]
        rate = 2 * self._count / (seconds - delay_s)
        return f"| {name} | {statistics.median(late) * 1000:,.0f} ms | {p99 * 1000:,.0f} ms | {rate:,.0f}/s |"


def main(arguments: list[str]) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks retry", description=__doc__)
    parser.add_argument("--records", type=int, default=2000, help="records that fail once (%(default)s)")
    parser.add_argument("--delay", type=float, default=2.0, help="seconds until they are tried again (%(default)s)")
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        broker = stack.enter_context(TidelogBroker(Path(directory), {"group.initial.rebalance.delay.ms": "0"}))
        stores = {"Tidelog, store=broker": "broker", "Tidelog, store=topics": "topics"}
        redis_url = _start_redis(stack, directory)
        if redis_url is not None:
            stores["Tidelog, store=redis"] = redis_url
        print("| retries | late, p50 | late, p99 | handler calls |\n|---|---:|---:|---:|")
        for name, store in stores.items():
            print(
                asyncio.run(_tidelog(name, broker.bootstrap_servers, store, options.records, options.delay)), flush=True
            )
        if redis_url is not None and importlib.util.find_spec("dramatiq") is not None:
            print(_dramatiq(redis_url, options.records, options.delay))
    return 0


def _start_redis(stack: contextlib.ExitStack, directory: str) -> str | None:
    if shutil.which("redis-server") is None or importlib.util.find_spec("redis") is None:
        return None
    port = free_port()
    command = ["redis-server", "--port", str(port), "--dir", directory, "--appendonly", "yes", "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return f"redis://127.0.0.1:{port}/0"


async def _tidelog(name: str, servers: str, store: str, count: int, delay_s: float) -> str:
    topic = f"orders-{name.rpartition('=')[2]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 4)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())
    calls = Calls(count)

    async def handle(record: Any) -> None:
        number = int(record.value)
        (calls.fail if current_attempt() == 1 else calls.succeed)(number)

    consumer = AsyncRetryingConsumer(
        topic,
        handle,
        RetryPolicy([delay_s], attempts=3, store=store),
        bootstrap_servers=servers,
        group_id="benchmark",
        concurrency=CONCURRENCY,
    )
    running = asyncio.create_task(consumer.run())
    await asyncio.to_thread(calls.is_complete.wait, _SECONDS_MAX)
    consumer.stop()
    await running
    return calls.row(name, delay_s)


def _dramatiq(url: str, count: int, delay_s: float) -> str:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.middleware import CurrentMessage, Retries

    broker = RedisBroker(url=url, middleware=[Retries(), CurrentMessage()])
    dramatiq.set_broker(broker)
    calls = Calls(count)

    def handle(number: int) -> None:
        message = CurrentMessage.get_current_message()
        if message is not None and "retries" in message.options:
            calls.succeed(number)
            return
        with contextlib.suppress(OSError):
            calls.fail(number)
        raise dramatiq.Retry(delay=int(delay_s * 1000))

    actor: Any = dramatiq.actor(max_retries=3)(handle)
    for number in range(count):
        actor.send(number)
    calls.started = time.monotonic()
    worker = dramatiq.Worker(broker, worker_threads=CONCURRENCY)
    worker.start()
    calls.is_complete.wait(_SECONDS_MAX)
    worker.stop()
    return calls.row("Dramatiq with Redis", delay_s)
