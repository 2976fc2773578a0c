"""Processes that send and poll in transactions while their broker is killed, and the history of what they knew.

Everything that is chosen is drawn from one seed: what each process does, when the broker dies and at which step. What
the threads make of it is up to the machine, so a seed names a kind of run and not one run.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tests.compat.transactions.protocol import Producer, Rpc, until
from tests.integration.transaction_histories import Operation, Outcome, Poll, Send
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode

TOPIC: Final = "keys"
KEYS: Final = 4
FAULTS: Final = (
    "init-committed",
    "partitions-staged",
    "partitions-committed",
    "offsets-staged",
    "end-staged",
    "before-markers",
    "end-committed",
    "marker-staged",
    "marker-written",
    "before-completion",
    "complete",
)
SETTINGS: Final = {
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
_RETRIES: Final = 200

_values = itertools.count(1)


class _Gone(Exception):
    """The transaction cannot go on."""


class Worker(threading.Thread):
    """One process: a transactional producer and a consumer of its own group. Its transactional id may be shared."""

    def __init__(
        self, name: str, transactional_id: str, port: int, rng: random.Random, history: list[Operation]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.transactional_id = transactional_id
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._port = port
        self._rng = rng
        self._history = history
        self._positions: dict[int, int] = {}
        self._sequences: dict[int, int] = {}

    @property
    def group(self) -> str:
        return f"group-{self.name}"

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._live()
                except OSError:
                    time.sleep(0.02)  # the broker is away
        except BaseException as failure:
            self.failure = failure

    def _live(self) -> None:
        """From start to the loss of the broker or of the transactional id."""
        with Rpc(self._port) as rpc:
            producer = rpc.start(self.transactional_id, timeout_ms=10_000)
            until(lambda: rpc.find_coordinator(self.group, 0) is ErrorCode.NONE)
            self._positions = dict(committed_offsets(rpc, self.group))
            self._sequences = {}
            has_moved = True
            while not self.stopping.is_set():
                operation = Operation(self.name, has_moved=has_moved)
                before = dict(self._positions)
                try:
                    self._transact(rpc, producer, operation)
                except _Gone:
                    return
                finally:
                    self._history.append(operation)
                has_moved = operation.outcome is Outcome.ABORTED
                if has_moved:
                    self._positions = before

    def _transact(self, rpc: Rpc, producer: Producer, operation: Operation) -> None:
        """One transaction. Until its end is asked for, whatever goes wrong means that it is aborted sooner or later."""
        operation.outcome = Outcome.ABORTED
        rng = self._rng
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.6:
                self._send(rpc, producer, operation, rng.randrange(KEYS))
            else:
                self._poll(rpc, operation, rng.randrange(KEYS))
        if operation.polls:
            self._commit_offsets(rpc, producer, operation)
        if not operation.sends and not operation.offsets:
            operation.outcome = Outcome.COMMITTED  # nothing but reads that found nothing
            return
        is_commit = rng.random() < 0.75
        if is_commit:
            operation.outcome = Outcome.UNKNOWN
        code = rpc.end(producer, is_commit)
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            operation.outcome = Outcome.ABORTED
        if code is not ErrorCode.NONE:
            raise _Gone
        operation.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED

    def _send(self, rpc: Rpc, producer: Producer, operation: Operation, key: int) -> None:
        self._retry(lambda: rpc.add(producer, (TOPIC, key))[TOPIC, key])
        value = next(_values)
        operation.sends.append(Send(key, value))
        sequence = self._sequences.get(key, 0)
        offsets: list[int] = []

        def produce() -> ErrorCode:
            code, offset = rpc.produce(TOPIC, key, [b"%d" % value], producer, sequence=sequence)
            offsets.append(offset)
            return code

        self._retry(produce)
        self._sequences[key] = sequence + 1
        operation.sends[-1] = Send(key, value, offsets[-1])

    def _poll(self, rpc: Rpc, operation: Operation, key: int) -> None:
        found, position = rpc.poll(TOPIC, key, self._positions.get(key, 0))
        self._positions[key] = position
        operation.polls.append(Poll(key, [(offset, int(value)) for offset, value in found]))

    def _commit_offsets(self, rpc: Rpc, producer: Producer, operation: Operation) -> None:
        self._retry(lambda: rpc.add_offsets(producer, self.group))
        for poll in operation.polls:
            position = self._positions[poll.key]
            self._retry(partial(rpc.commit_offset, producer, self.group, (TOPIC, poll.key), position))
            operation.offsets[poll.key] = position

    def _retry(self, action: object) -> None:
        """Call until it succeeds; a refusal that no retry can change ends the transaction."""
        for _ in range(_RETRIES):
            code = action()  # type: ignore[operator]
            if code is ErrorCode.NONE:
                return
            if not code.retriable:
                raise _Gone
            time.sleep(0.005)
        raise _Gone


class PlainWriter(threading.Thread):
    """Sends records one by one, without transactions and without a way to know about those that got no answer."""

    def __init__(self, port: int, rng: random.Random, history: list[Operation]) -> None:
        super().__init__(name="plain", daemon=True)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._port = port
        self._rng = rng
        self._history = history

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._live()
                except OSError:
                    time.sleep(0.02)
        except BaseException as failure:
            self.failure = failure

    def _live(self) -> None:
        with Rpc(self._port) as rpc:
            while not self.stopping.is_set():
                key, value = self._rng.randrange(KEYS), next(_values)
                operation = Operation(self.name, sends=[Send(key, value)])
                self._history.append(operation)
                code, offset = rpc.produce(TOPIC, key, [b"%d" % value])
                if code is ErrorCode.NONE:
                    operation.sends = [Send(key, value, offset)]
                    operation.outcome = Outcome.COMMITTED
                time.sleep(0.002)


def committed_offsets(rpc: Rpc, group: str) -> Iterator[tuple[int, int]]:
    """The offsets of a group by key, once no transaction holds them back."""
    for key in range(KEYS):
        until(partial(lambda key: rpc.offset_of(group, (TOPIC, key), require_stable=True)[0] is ErrorCode.NONE, key))
        _, offset = rpc.offset_of(group, (TOPIC, key), require_stable=True)
        if offset >= 0:
            yield key, offset


def run(seed: int, seconds: float) -> tuple[list[Operation], dict[str, dict[int, int]], int]:
    """Run a workload; its history with a last read of everything, the offsets of groups at the end, and the crashes."""
    rng = random.Random(seed)
    history: list[Operation] = []
    broker = Broker(SETTINGS, process=True)
    broker.start()
    try:
        broker.create_topic(TOPIC, KEYS)
        ids = {"w1": "one", "w2": "two", "w3": "three", "rival": "three"}
        workers = [
            Worker(name, name_of, broker.port, random.Random(rng.random()), history) for name, name_of in ids.items()
        ]
        threads: list[Any] = [*workers, PlainWriter(broker.port, random.Random(rng.random()), history)]
        for thread in threads:
            thread.start()
        crashes = _torment(broker, rng, seconds)
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            thread.join(30)
            assert thread.failure is None, f"{thread.name} failed: {thread.failure!r}"
            assert not thread.is_alive(), f"{thread.name} hangs"
        final = _read_everything(broker, workers, history)
    finally:
        broker.stop()
    return history, final, crashes


def _torment(broker: Broker, rng: random.Random, seconds: float) -> int:
    """Kill the broker again and again, at a moment or at a step, and start it with the next order to die."""
    deadline = time.monotonic() + seconds
    crashes = 0
    while time.monotonic() < deadline:
        _wait_for_death(broker, rng.uniform(0.4, 0.9))
        broker.kill()
        crashes += 1
        fault = f"{rng.choice(FAULTS)}:{rng.randint(1, 30)}" if rng.random() < 0.7 else None
        _start(broker, fault)
    _wait_for_death(broker, 0.3)
    broker.kill()
    _start(broker, None)
    return crashes


def _start(broker: Broker, fault: str | None) -> None:
    broker.crash_at = fault
    broker.start()


def _wait_for_death(broker: Broker, seconds: float) -> None:
    """Until the broker dies by itself, or for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            Rpc(broker.port).client.close()
        except OSError:
            return


def _read_everything(broker: Broker, workers: list[Worker], history: list[Operation]) -> dict[str, dict[int, int]]:
    """Fence every producer, wait until nothing is open, and read all keys from the start."""
    with Rpc(broker.port) as rpc:
        for worker in workers:
            rpc.start(worker.transactional_id)
        polls = []
        for key in range(KEYS):
            until(partial(lambda key: _is_stable(rpc, key), key))
            found, position = [], 0
            while True:
                more, following = rpc.poll(TOPIC, key, position)
                found += more
                if following == position:
                    break
                position = following
            polls.append(Poll(key, [(offset, int(value)) for offset, value in found]))
        history.append(Operation("last", Outcome.COMMITTED, polls=polls))
        return {worker.name: dict(committed_offsets(rpc, worker.group)) for worker in workers}


def _is_stable(rpc: Rpc, key: int) -> bool:
    fetched = rpc.fetch(TOPIC, key, 0)
    return fetched.code is ErrorCode.NONE and fetched.last_stable_offset == fetched.high_watermark
