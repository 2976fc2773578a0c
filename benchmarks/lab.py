"""Where a case runs: one broker of one kind, how long to measure, and what it may ask for besides.

`method` makes a `Bench` per case, broker and round and hands it to the case's function.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.admin import Admin, open_socket, read_frame
from benchmarks.load import Sample
from benchmarks.processes import BrokerProcess
from benchmarks.turns import OwnTurn, turn_lengths

DELETION_SECONDS_MAX = 30.0

_serials = itertools.count()


@dataclass(slots=True)
class Effort:
    """Processor time of one measured stretch, on both sides of the socket."""

    requests: int = 0
    load_cpu_seconds: float = 0.0
    broker_cpu_seconds: float = 0.0


@dataclass(slots=True)
class Bench:
    """One broker under one case in one round."""

    broker: BrokerProcess
    make_broker: Callable[[Path], BrokerProcess]
    scratch: Path
    seconds: float
    warm_up_seconds: float
    fresh_warm_up_seconds: float
    turn: OwnTurn
    is_quick: bool = False
    effort: Effort = field(default_factory=Effort)

    def measure(self, loop: Callable[[float], Sample], *, is_divisible: bool = True) -> tuple[Sample, int]:
        """Warm up with the loop, then run it for the measured time, in turns with the other broker of the case.

        The number counts the requests of all runs. A loop that is not divisible runs once: one call of it may write as
        much as the machine can have unwritten.
        """
        warm_up = loop(self.warm_up_seconds)
        sample = Sample()
        for seconds in turn_lengths(self.seconds) if is_divisible else [self.seconds]:
            self.turn.pass_on()
            before = self.broker.usage().cpu_seconds
            sample.add(loop(seconds))
            self.effort.broker_cpu_seconds += self.broker.usage().cpu_seconds - before
        self.effort.requests += sample.requests
        self.effort.load_cpu_seconds += sample.load_cpu_seconds
        return sample, warm_up.requests + sample.requests

    def claim_memory(self, size_bytes: int) -> None:
        """Have `size_bytes` of the machine's memory ready for the page cache.

        A virtual machine gets memory from its host at first use and may give it back within seconds of freeing it.
        Writing to memory that is not there yet is ten times slower, for either broker, and depends on what ran before.
        Pages freed a moment ago are there, and are the first to be used again.
        """
        block = bytes(1 << 20)
        with tempfile.TemporaryFile(dir=self.scratch, buffering=0) as file:
            for _ in range(0, size_bytes, len(block)):
                file.write(block)

    @contextmanager
    def fresh_broker(self) -> Iterator[BrokerProcess]:
        """A second broker of the same kind with an empty directory, not yet spawned; gone afterwards."""
        broker = self.make_broker(self.scratch / f"fresh-{next(_serials)}")
        try:
            yield broker
        finally:
            broker.kill()

    def on(self, broker: BrokerProcess) -> Bench:
        """The same bench with a fresh broker, which wants a longer warm-up; effort is counted together."""
        return replace(self, broker=broker, warm_up_seconds=self.fresh_warm_up_seconds)

    @contextmanager
    def topic(self, partitions: int = 1) -> Iterator[Topic]:
        """A topic of this case alone, deleted with its files afterwards."""
        name = f"bench-{next(_serials)}"
        with Admin.connect(self.broker.address) as admin:
            topic_id = admin.create(name, partitions)
            yield Topic(name, topic_id, admin, partitions)
            admin.delete(name)
        self._wait_until_deleted(name)

    def _wait_until_deleted(self, name: str) -> None:
        deadline = time.monotonic() + DELETION_SECONDS_MAX
        while any(self.broker.log_dir.glob(f"{name}-*")) and time.monotonic() < deadline:
            time.sleep(0.05)

    @contextmanager
    def connections(self, count: int) -> Iterator[list[socket.socket]]:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(open_socket(self.broker.address)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and a control connection to its broker."""

    name: str
    topic_id: bytes
    admin: Admin
    partitions: int = 1

    def require_records(self, expected: int) -> None:
        """Fail unless each acknowledged record is in the log: a broker that drops records would be fast."""
        found = sum(self.admin.offsets(self.name, range(self.partitions)).values())
        if found != expected:
            raise RuntimeError(f"{self.name} holds {found} records, but {expected} were acknowledged")


def reply_size(sock: socket.socket, frame: bytes) -> int:
    """Send one request and return how long its whole answer is."""
    sock.sendall(frame)
    return len(read_frame(sock)) + 4
