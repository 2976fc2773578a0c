"""Fetches that wait: for how much, and when waiting brings no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.storage.logs import append, batch, make_log
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.partition import Partition
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import FetchPartition, PartitionReply

WAIT_MS = 500
BATCH_BYTES = len(batch(b"v" * 100))
SEGMENT_BATCHES = 4


class Reader:
    """A consumer of one partition of a broker whose only log has small segments."""

    def __init__(self, log: Log) -> None:
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.manager = ReplicaManager(1, self.clock, self.timer, self._fail, self._fail, lambda: None)
        self.log = log
        self.partition: Partition = self.manager.add_partition("topic", 0, bytes(16), log)
        self.partition.make_leader(0, (1,), (1,))
        self.replies: list[PartitionReply] = []

    def _fail(self, *causes: object) -> None:
        raise AssertionError(causes)

    def append(self) -> None:
        append(self.log, b"v" * 100)
        self.manager.staged(self.partition)
        self.manager.end_turn()

    def fetch(self, offset: int, min_bytes: int, *, max_bytes: int = 1 << 20, last_epoch: int = -1) -> bool:
        """Whether the fetch is answered at once; the answer goes to `replies`."""
        parameters = FetchParameters(-1, WAIT_MS, min_bytes, 50 << 20, 0, is_first_batch_whole=True)
        wanted = [Wanted("topic", "topic", FetchPartition(0, offset, max_bytes, -1, last_epoch))]
        return self.manager.fetch(parameters, wanted, self.replies.extend, self._fail) is None

    def bytes_read(self) -> int:
        records = self.replies[-1].records
        assert not isinstance(records, bytes)
        return 0 if records is None else records.length


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    log = make_log(tmp_path, segment_bytes=SEGMENT_BATCHES * BATCH_BYTES)
    yield Reader(log)
    log.close()


def test_a_reader_of_older_segments_never_waits(reader: Reader) -> None:
    """Each fetch ends with its segment, so waiting would cost `fetch.max.wait.ms` a segment and bring nothing."""
    for _ in range(40 * SEGMENT_BATCHES):
        reader.append()
    offset = 0
    while offset < reader.log.active_segment.base_offset:
        assert reader.fetch(offset, 1 << 20), f"the fetch at offset {offset} waits"
        assert reader.bytes_read() == SEGMENT_BATCHES * BATCH_BYTES
        offset += SEGMENT_BATCHES
    assert len(reader.replies) == 39


def test_a_reader_of_the_last_segment_waits_for_its_bytes(reader: Reader) -> None:
    reader.append()
    assert not reader.fetch(0, 3 * BATCH_BYTES)
    reader.append()
    assert not reader.replies, "two batches are not three"
    reader.append()
    assert reader.bytes_read() == 3 * BATCH_BYTES


def test_a_roll_ends_the_waiting(reader: Reader) -> None:
    """What is left of the segment is all that this fetch can get."""
    for _ in range(SEGMENT_BATCHES - 1):
        reader.append()
    assert not reader.fetch(1, 1 << 20)
    reader.append()
    assert not reader.replies
    reader.append()
    assert reader.bytes_read() == (SEGMENT_BATCHES - 1) * BATCH_BYTES


def test_a_partition_counts_no_further_than_its_own_limit(reader: Reader) -> None:
    """As in Kafka: the limit of one partition is all that it adds to what the fetch waits for."""
    assert not reader.fetch(0, 3 * BATCH_BYTES, max_bytes=2 * BATCH_BYTES)
    for _ in range(SEGMENT_BATCHES):
        reader.append()
    assert not reader.replies
    reader.clock.advance(WAIT_MS + 1)
    reader.timer.advance(reader.clock.monotonic_ms())
    assert reader.bytes_read() == 2 * BATCH_BYTES


@pytest.mark.parametrize("min_bytes", [1, 1 << 20])
def test_records_that_are_deleted_end_the_waiting(reader: Reader, min_bytes: int) -> None:
    for _ in range(2):
        reader.append()
    assert not reader.fetch(2, min_bytes)
    reader.log.truncate_to(1, reader.clock.wall_ms())
    reader.manager.fetch_purgatory.check_and_complete(("topic", 0))
    assert reader.replies[-1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("min_bytes", [1, 1 << 20])
def test_losing_the_leadership_ends_the_waiting(reader: Reader, min_bytes: int) -> None:
    assert not reader.fetch(0, min_bytes)
    reader.manager.remove_partition("topic", 0)
    assert reader.replies[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
