"""The broker is killed at every step of a transaction, by the name of the step, and started again.

Whatever the step: a transaction is there in all its partitions and with its offsets, or nowhere; what was acknowledged
as committed is there; nothing that was aborted is ever seen; and the last stable offset reaches the end again.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.compat.transactions.protocol import READ_UNCOMMITTED, Producer, Rpc, until
from tests.effort import usually
from tidelog.testing import Broker, BrokerFailed
from tidelog.wire.errors import ErrorCode

PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
GROUP = "readers"
SETTINGS = {
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 50,
}
NAME = "pipeline"

BEFORE_THE_DECISION = [
    "init-staged",
    "init-committed",
    "partitions-staged",
    "partitions-committed",
    "partitions-committed:2",
    "offsets-staged",
    "offsets-committed",
    "end-staged",
]
AFTER_THE_DECISION = [
    "before-markers",
    "end-committed",
    "marker-staged",
    "marker-staged:3",
    "marker-written",
    "marker-written:3",
    "before-completion",
    "complete",
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that has topics, an earlier transaction in them, and a group with an offset of 1."""
    directory = tmp_path_factory.mktemp("prepared")
    with Broker(SETTINGS, data_dir=directory) as broker:
        broker.create_topic("a", 2)
        broker.create_topic("b", 1)
        with Rpc(broker.port) as rpc:
            commit_one(rpc, rpc.start("earlier"), b"earlier", 1)
            until(lambda: rpc.state("earlier") == "CompleteCommit")
    return directory


@pytest.fixture
def broker(prepared: Path, tmp_path: Path) -> Iterator[Broker]:
    """Not started yet: the test sets its crash point first."""
    shutil.copytree(prepared, tmp_path / "data")
    stopped = Broker(SETTINGS, process=True, data_dir=tmp_path / "data")
    yield stopped
    stopped.stop()


def start_with_fault(broker: Broker, point: str) -> None:
    """Start a broker that kills itself at `point`. A recovering coordinator may get there before clients are served."""
    broker.crash_at = point
    try:
        broker.start()
    except BrokerFailed as failure:
        if "exit code -9" not in str(failure):
            raise
    broker.crash_at = None


def commit_one(rpc: Rpc, producer: Producer, value: bytes, offset: int, is_commit: bool = True) -> None:
    """Records in three partitions and an offset, in one transaction."""
    rpc.begin(producer, *PARTITIONS)
    for topic, partition in PARTITIONS:
        rpc.write(topic, partition, [value, value], producer)
    until(lambda: rpc.find_coordinator(GROUP, 0) is ErrorCode.NONE)
    until(lambda: rpc.add_offsets(producer, GROUP) is ErrorCode.NONE)
    until(lambda: rpc.commit_offset(producer, GROUP, ("a", 0), offset) is ErrorCode.NONE)
    until(lambda: rpc.end(producer, is_commit) is ErrorCode.NONE)


def attempt(broker: Broker, is_commit: bool) -> bool:
    """A producer that loses its broker somewhere on the way; whether the end of its transaction was acknowledged."""
    try:
        with Rpc(broker.port) as rpc:
            commit_one(rpc, rpc.start(NAME), b"mine", 5, is_commit)
    except OSError:
        return False
    return True


def wait_for_the_crash(broker: Broker) -> None:
    """The process has killed itself: its port is closed, or was never opened."""

    def is_dead() -> bool:
        try:
            Rpc(broker.port).client.close()
        except (OSError, RuntimeError):
            return True
        return False

    until(is_dead)
    with suppress(RuntimeError):  # a broker that ended before it was ready is gone already
        broker.kill()


def check_after_restart(broker: Broker, was_acknowledged: bool, is_commit: bool, *, is_decided: bool) -> None:
    with Rpc(broker.port) as rpc:
        heir = rpc.start(NAME)  # fences what is left, as a restarted program does
        for topic, partition in PARTITIONS:
            until(partial(lambda where: is_stable(rpc, *where), (topic, partition)))
        seen = [rpc.read(topic, partition).count(b"mine") for topic, partition in PARTITIONS]
        until(lambda: rpc.offset_of(GROUP, ("a", 0), require_stable=True)[0] is ErrorCode.NONE)
        _, offset = rpc.offset_of(GROUP, ("a", 0), require_stable=True)
        assert seen in ([0, 0, 0], [2, 2, 2]), f"a torn transaction: {seen}"
        assert offset == (5 if seen[0] else 1), "the offset belongs to the records"
        assert bool(seen[0]) == (is_commit and is_decided)
        assert not was_acknowledged or bool(seen[0]) == is_commit, "an acknowledged outcome holds"
        commit_one(rpc, heir, b"next", 9)
        for topic, partition in PARTITIONS:
            until(partial(lambda where: is_stable(rpc, *where), (topic, partition)))
            assert rpc.read(topic, partition).count(b"next") == 2
            assert rpc.read(topic, partition).count(b"earlier") == 2


def is_stable(rpc: Rpc, topic: str, partition: int) -> bool:
    fetched = rpc.fetch(topic, partition, isolation=READ_UNCOMMITTED)
    return fetched.last_stable_offset == fetched.high_watermark


@pytest.mark.parametrize("point", usually(["partitions-committed", "end-staged"], BEFORE_THE_DECISION))
def test_a_crash_before_the_decision_leaves_nothing_of_the_transaction(broker: Broker, point: str) -> None:
    start_with_fault(broker, point)
    was_acknowledged = attempt(broker, True)
    assert not was_acknowledged, f"{point} was not reached"
    wait_for_the_crash(broker)
    broker.start()
    check_after_restart(broker, was_acknowledged, True, is_decided=False)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("point", usually(["end-committed", "marker-written"], AFTER_THE_DECISION))
def test_a_crash_after_the_decision_changes_nothing_about_it(broker: Broker, point: str, is_commit: bool) -> None:
    start_with_fault(broker, point)
    was_acknowledged = attempt(broker, is_commit)
    wait_for_the_crash(broker)
    broker.start()
    check_after_restart(broker, was_acknowledged, is_commit, is_decided=True)


def test_a_crash_while_a_crash_is_being_recovered_from(broker: Broker) -> None:
    """Markers are written once more by each life, which does no harm."""
    start_with_fault(broker, "marker-written:2")
    was_acknowledged = attempt(broker, True)
    for point in ("before-markers", "marker-written", "before-completion"):
        wait_for_the_crash(broker)
        start_with_fault(broker, point)
    wait_for_the_crash(broker)
    broker.start()
    check_after_restart(broker, was_acknowledged, True, is_decided=True)


def test_an_open_transaction_survives_a_crash_and_can_be_committed(broker: Broker) -> None:
    """Producer state, verification and the coordinator's log all know it again."""
    broker.start()
    with Rpc(broker.port) as rpc:
        producer = rpc.start(NAME)
        rpc.begin(producer, ("a", 0), ("a", 1))
        first_offset = rpc.write("a", 0, [b"1"], producer)
    broker.kill()
    broker.start()
    with Rpc(broker.port) as rpc:
        until(lambda: rpc.find_coordinator(NAME) is ErrorCode.NONE)
        assert rpc.write("a", 0, [b"1"], producer) == first_offset, "sent again, it is known"
        rpc.write("a", 0, [b"2"], producer, sequence=1)
        rpc.write("a", 1, [b"3"], producer)
        assert rpc.read("a", 0) == [b"earlier", b"earlier"]
        rpc.finish(producer, True)
        assert rpc.read("a", 0)[2:] == [b"1", b"2"]
        assert rpc.read("a", 1)[2:] == [b"3"]


def test_an_open_transaction_of_a_dead_producer_times_out_after_a_crash(broker: Broker) -> None:
    broker.start()
    with Rpc(broker.port) as rpc:
        producer = rpc.start(NAME, timeout_ms=200)
        rpc.begin(producer, ("a", 0))
        rpc.write("a", 0, [b"x"], producer)
    broker.kill()
    broker.start()
    with Rpc(broker.port) as rpc:
        until(lambda: is_stable(rpc, "a", 0))
        assert b"x" not in rpc.read("a", 0)
        assert rpc.end(producer, True) is ErrorCode.PRODUCER_FENCED
