"""`tidelog demo exactly-once`: instances that are killed again and again, and a proof that nothing came of it."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cli.progress import Progress, progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.examples.demo.instance import GROUP, transform

EXAMPLE: Final = "tidelog demo exactly-once 6 3 50000"

SOURCE: Final = "exactly-once-input"
TARGET: Final = "exactly-once-output"
_SETTINGS: Final = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""A group notices within a second that a member is gone; by default it would take six."""
_OWN_SESSION_TIMEOUT_MS: Final = 1_000
_SESSION_TIMEOUT_MS: Final = 6_000
"""The shortest that a broker allows by default."""
_LOOK_EVERY_S: Final = 0.05
_STUCK_S: Final = 60.0
_STOP_S: Final = 10.0
_FAILURES_MAX: Final = 5
_STEP: Final = 1000

_SUMMARY: Final = """
Proof
  {records} records went in, over {partitions} partitions; {seen} came out, each once and in order.
  {instances} instances worked for {seconds:.1f} s and were killed {kills} times, at any step.
  {undone} records of aborted transactions are also in the log; read_committed consumers do not see them.
"""


class Size(NamedTuple):
    """What the command was asked for."""

    partitions: int
    instances: int
    records: int
    kills: int
    session_timeout_ms: int


def exactly_once(
    partitions: Annotated[int, typer.Argument(help="Partitions of both topics.", min=1)] = 6,
    instances: Annotated[int, typer.Argument(help="Instances that consume, transform and produce.", min=1)] = 3,
    records: Annotated[int, typer.Argument(help="Records to put in.", min=1)] = 50_000,
    kills: Annotated[int, typer.Option(help="How often to kill an instance, on the way.", min=0)] = 8,
    seed: Annotated[
        int | None, typer.Option(help="Random seed: which instance is killed when.", show_default="random")
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            help="A running cluster to use; topics are created there.",
            show_default="a new broker",
        ),
    ] = None,
) -> None:
    """Kill instances of an exactly-once application while they work, then prove that every record came out once."""
    session_timeout_ms = _OWN_SESSION_TIMEOUT_MS if bootstrap_server is None else _SESSION_TIMEOUT_MS
    size = Size(partitions, instances, records, kills, session_timeout_ms)
    rng = random.Random(seed)
    if bootstrap_server is not None:
        _run(bootstrap_server, size, rng)
        return
    from tidelog.testing.broker import Broker

    with Broker(_SETTINGS, process=True) as broker:
        _say(f"broker ready at {broker.bootstrap_servers}")
        _run(broker.bootstrap_servers, size, rng)


def _run(servers: str, size: Size, rng: random.Random) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic(name, size.partitions, 1) for name in (SOURCE, TARGET)])
        _populate(servers, size)
        started = time.monotonic()
        kills = _work(admin, servers, size, rng)
        seconds = time.monotonic() - started
    seen, undone = _prove(servers, size)
    print_line(
        _SUMMARY.format(
            records=f"{size.records:,}",
            partitions=size.partitions,
            seen=f"{seen:,}",
            instances=size.instances,
            seconds=seconds,
            kills=kills,
            undone=f"{undone:,}",
        )
    )


def _populate(servers: str, size: Size) -> None:
    """The numbers from 0 on, dealt out to the partitions in turn."""
    with Producer({"bootstrap.servers": servers}) as producer, progress("putting in", size.records) as watcher:
        for first in range(0, size.records, _STEP):
            last = min(first + _STEP, size.records)
            for number in range(first, last):
                producer.send(SOURCE, b"%d" % number, partition=number % size.partitions)
            watcher.advance(last - first)
        producer.flush()


def _work(admin: Admin, servers: str, size: Size, rng: random.Random) -> int:
    """Let the instances work, kill one now and then, and return how often when the group has read everything."""
    kills = 0
    # By progress and not by the clock, so that a quick machine gets its share, too.
    marks = sorted(rng.randrange(size.records) for _ in range(size.kills))
    watch = _Watch(admin, size)
    with progress("transforming", size.records) as watcher, _instances(servers, size) as running:
        while not watch.is_done(watcher):
            for instance in running:
                instance.keep_alive()
            if marks and watch.done >= marks[0]:
                marks.pop(0)
                rng.choice(running).kill()
                kills += 1
            time.sleep(rng.uniform(0, _LOOK_EVERY_S))
    return kills


class _Watch:
    """How far the group is, by its committed offsets."""

    def __init__(self, admin: Admin, size: Size) -> None:
        self._admin = admin
        self._records = size.records
        self.done = 0
        self._moved = time.monotonic()

    def is_done(self, watcher: Progress) -> bool:
        committed = self._admin.list_consumer_group_offsets(GROUP)
        done = sum(max(each.offset, 0) for where, each in committed.items() if where.topic == SOURCE)
        if done > self.done:
            watcher.advance(done - self.done)
            self.done, self._moved = done, time.monotonic()
        if time.monotonic() - self._moved > _STUCK_S:
            raise CommandError(f"no progress for {_STUCK_S:.0f} s: {done:,} of {self._records:,} records are processed")
        return done >= self._records


class Instance:
    """One instance: a process that is started again whenever it has ended."""

    def __init__(self, servers: str, session_timeout_ms: int, number: int) -> None:
        arguments = (servers, str(session_timeout_ms), str(number), SOURCE, TARGET)
        self._command = [sys.executable, "-m", "tidelog.examples.demo.instance", *arguments]
        self._failures = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the instance
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said)

    def keep_alive(self) -> None:
        """Start it again if it has ended. One that ends by itself time and again is broken: CommandError."""
        code = self._process.poll()
        if code is None:
            return
        if code != -signal.SIGKILL:
            self._failures += 1
            if self._failures > _FAILURES_MAX:
                self._said.seek(0)
                said = self._said.read().decode(errors="replace").strip().splitlines() or ["nothing"]
                raise CommandError(f"an instance failed {self._failures} times; its last output: {said[-1]}")
        self._process = self._start()

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._said.close()


@contextmanager
def _instances(servers: str, size: Size) -> Iterator[list[Instance]]:
    """Running instances; they are stopped at the end."""
    running = [Instance(servers, size.session_timeout_ms, number) for number in range(size.instances)]
    try:
        yield running
    finally:
        for instance in running:
            instance.stop()


def _prove(servers: str, size: Size) -> tuple[int, int]:
    """Read the output: each partition must hold what its input becomes, once, in order. Raises CommandError."""
    expected = {
        partition: iter(range(partition, size.records, size.partitions)) for partition in range(size.partitions)
    }
    seen = 0
    with progress("checking", size.records) as watcher:
        for partition, value in _read(servers, size, "read_committed"):
            number = next(expected[partition], None)
            if number is None or value != transform(b"%d" % number):
                raise CommandError(f"partition {partition} holds {value!r} where {number} should be")
            seen += 1
            if seen % _STEP == 0:
                watcher.advance(_STEP)
        watcher.advance(seen % _STEP)
    if seen != size.records:
        raise CommandError(f"{size.records} records went in and {seen} came out")
    return seen, sum(1 for _ in _read(servers, size, "read_uncommitted")) - seen


def _read(servers: str, size: Size, isolation: str) -> Iterator[tuple[int, bytes]]:
    """Partition and value of everything that is in the output."""
    settings = {"bootstrap.servers": servers, "isolation.level": isolation, "enable.auto.commit": False}
    partitions = [TopicPartition(TARGET, partition) for partition in range(size.partitions)]
    with Consumer(settings) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(0.5):
                yield record.partition, record.value or b""


def _say(text: str) -> None:
    sys.stderr.write(f"tidelog: {text}\n")
