"""The manager of a broker's partitions: the order of a turn, what waits under which key, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.logs import batch
from tidelog.config import LogConfig
from tidelog.replication.delete_records import DeleteResult
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.partition import Partition
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.fetch import FetchPartition, PartitionReply


class World:
    """A broker that is alone, with real logs on a clock that the test moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.timer = Timer(self.clock.monotonic_ms())
        self.events: list[str] = []
        self.flushes: list[Callable[[], None]] = []
        self.failures: list[LogDirFailure] = []
        self.wakes = 0
        self.manager = ReplicaManager(1, self.clock, self.timer, self.failures.append, self._flush, self._wake)

    def _flush(self, log: Log, done: Callable[[], None]) -> None:
        def finish() -> None:
            log.flush(now_ms=self.clock.wall_ms())
            done()

        self.flushes.append(finish)

    def _fail(self, cause: Exception) -> None:
        raise AssertionError("a fetch cannot be answered") from cause

    def _wake(self) -> None:
        self.wakes += 1

    def add(self, name: str, index: int = 0, directory: str = "data", **settings: Any) -> Partition:
        """Lead a partition in epoch 0."""
        path = self.root / directory / f"{name}-{index}"
        path.parent.mkdir(exist_ok=True)
        log = Log.create(str(path), name, index, LogConfig(**settings), self.clock.wall_ms())
        partition = self.manager.add_partition(name, index, name.encode().ljust(16), log)
        partition.make_leader(0, [1], [1])
        return partition

    def append(self, topic: str, index: int = 0, note: str = "") -> int:
        label = note or f"{topic}-{index}"

        def committed(error: ErrorCode, offset: int) -> None:
            self.events.append(f"{label}: {error.name} {offset}")

        return self.manager.append(topic, index, batch(b"value"), committed)

    def fetch(self, *topics: str, offset: int = 0, wait_ms: int = 500) -> list[PartitionReply]:
        """Where the replies are, or will be."""
        replies: list[PartitionReply] = []
        wanted = [Wanted(topic, topic, FetchPartition(0, offset, 1 << 20)) for topic in topics]
        parameters = FetchParameters(-1, wait_ms, 1, 1 << 20, 0, is_first_batch_whole=True)
        self.manager.fetch(parameters, wanted, replies.extend, self._fail)
        return replies

    def delete(self, *offsets: tuple[str, int, int]) -> list[DeleteResult]:
        results: list[DeleteResult] = []
        self.manager.delete_records(offsets, 1000, results.extend)
        return results

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.timer.advance(self.clock.monotonic_ms())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- partitions ---


def test_a_partition_is_found_by_its_name_its_bytes_and_not_at_all_when_it_is_removed(world: World) -> None:
    partition = world.add("naïve", 3)
    manager = world.manager
    assert manager.partition("naïve", 3) is manager.find("naïve", 3) is partition
    assert manager.find_on_wire("naïve".encode(), 3) is partition
    assert (len(manager), list(manager.partitions())) == (1, [partition])
    assert manager.remove_partition("naïve", 3) is partition
    assert manager.find("naïve", 3) is manager.find_on_wire("naïve".encode(), 3) is None
    assert manager.remove_partition("naïve", 3) is None


@pytest.mark.parametrize(
    ("topic", "error"), [("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("lost", ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_what_is_not_there_has_an_error_that_says_why(world: World, topic: str, error: ErrorCode) -> None:
    world.manager.add_offline("lost", 0)
    with pytest.raises(ApiError) as refused:
        world.manager.partition(topic, 0)
    assert refused.value.code == error


# --- a turn ---


def test_nothing_is_answered_or_readable_before_the_end_of_the_turn(world: World) -> None:
    partition = world.add("t")
    assert world.append("t") == 0
    assert world.append("t", note="second") == 1
    assert (world.events, partition.log.written_end_offset, partition.log.high_watermark) == ([], 0, 0)
    assert world.wakes, "a turn that nothing else would cause is asked for"
    world.manager.end_turn()
    assert world.events == ["t-0: NONE 0", "second: NONE 1"]
    assert (partition.log.written_end_offset, partition.log.high_watermark) == (2, 2)


def test_appends_are_answered_in_the_order_in_which_they_came_whatever_their_partition(world: World) -> None:
    for name in ("a", "b"):
        world.add(name)
    for topic, note in (("b", "1"), ("a", "2"), ("b", "3")):
        world.append(topic, note=note)
    world.manager.end_turn()
    assert [event[0] for event in world.events] == ["1", "2", "3"]


def test_what_a_callback_before_the_write_stages_belongs_to_the_same_turn(world: World) -> None:
    """It is called once, however many turns follow."""
    world.add("t")
    world.manager.before_write(lambda: world.events.append(f"gathered {world.append('t')}"))
    world.manager.end_turn()
    world.manager.end_turn()
    assert world.events == ["gathered 0", "t-0: NONE 0"]


def test_a_log_is_written_for_a_reader_of_the_same_turn_and_its_append_answered_at_the_end(world: World) -> None:
    world.add("t")
    world.append("t")
    world.manager.write_staged()
    (reply,) = world.fetch("t")
    assert (reply.error_code, reply.high_watermark) == (ErrorCode.NONE, 1)
    assert world.events == []
    world.manager.end_turn()
    assert world.events == ["t-0: NONE 0"]


def test_an_append_that_must_be_flushed_is_answered_and_readable_after_the_flush(world: World) -> None:
    partition = world.add("t", flush_messages=1)
    world.append("t")
    world.manager.end_turn()
    assert (world.events, partition.log.high_watermark) == ([], 0)
    (flush,) = world.flushes
    flush()
    assert (world.events, partition.log.high_watermark) == (["t-0: NONE 0"], 1)


def test_an_append_that_is_not_flushed_in_time_times_out(world: World) -> None:
    world.add("t", flush_messages=1)
    world.append("t")
    world.manager.end_turn()
    world.advance(5_001)
    assert world.events == ["t-0: REQUEST_TIMED_OUT -1"]


# --- what waits ---


def test_a_fetch_waits_under_each_of_its_partitions_and_no_other(world: World) -> None:
    for name in ("a", "b", "other"):
        world.add(name)
    replies = world.fetch("a", "b")
    world.append("other")
    world.manager.end_turn()
    assert replies == []
    world.append("b")
    world.manager.end_turn()
    assert [reply.high_watermark for reply in replies] == [0, 1]


def test_a_fetch_that_finds_nothing_is_answered_empty_at_its_deadline(world: World) -> None:
    world.add("t")
    replies = world.fetch("t", wait_ms=500)
    world.advance(499)
    assert replies == []
    world.advance(2)
    assert [reply.high_watermark for reply in replies] == [0]


def test_who_waits_for_a_partition_that_is_removed_is_answered(world: World) -> None:
    world.add("t", flush_messages=1)
    replies = world.fetch("t")
    world.append("t")
    world.manager.end_turn()
    world.manager.remove_partition("t", 0)
    assert [reply.error_code for reply in replies] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.events == ["t-0: NOT_LEADER_OR_FOLLOWER -1"]


def test_a_failed_directory_takes_its_own_partitions_and_those_who_wait_for_them(world: World) -> None:
    lost, kept = world.add("lost", directory="one"), world.add("kept", directory="two")
    replies = world.fetch("lost")
    others = world.fetch("kept")
    failure = LogDirFailure(lost.log.parent_directory, OSError("no more"))
    world.manager.fail_log_dir(failure)
    assert (lost.is_offline, kept.is_offline, world.failures) == (True, False, [failure])
    assert [reply.error_code for reply in replies] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert others == []
    with pytest.raises(ApiError) as refused:
        world.append("lost")
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.append("kept") == 0


# --- deletion ---


def test_records_are_deleted_up_to_an_offset_or_to_the_high_watermark(world: World) -> None:
    for name in ("some", "all"):
        world.add(name)
        for _ in range(3):
            world.append(name)
    world.manager.end_turn()
    assert world.delete(("some", 0, 2), ("all", 0, -1)) == [
        DeleteResult("some", 0, 2, ErrorCode.NONE),
        DeleteResult("all", 0, 3, ErrorCode.NONE),
    ]


@pytest.mark.parametrize(
    ("topic", "offset", "error"),
    [
        ("unknown", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("followed", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("compacted", 0, ErrorCode.POLICY_VIOLATION),
        ("plain", 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("plain", -2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_deletion_that_is_refused_leaves_the_others_of_its_request_alone(
    world: World, topic: str, offset: int, error: ErrorCode
) -> None:
    for name in ("plain", "good", "followed"):
        world.add(name)
        world.append(name)
    world.add("compacted", cleanup_policy=("compact",))
    world.manager.end_turn()
    world.manager.partition("followed", 0).is_leader = False

    assert world.delete((topic, 0, offset), ("good", 0, 1)) == [
        DeleteResult(topic, 0, -1, error),
        DeleteResult("good", 0, 1, ErrorCode.NONE),
    ]
