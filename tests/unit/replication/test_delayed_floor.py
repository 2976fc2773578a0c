"""A replica that lags behind a compacted log drops what the batches that it missed have settled."""

from pathlib import Path

from tests.unit.storage.logs import EPOCH, NOW_MS
from tidelog.config import LogConfig
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import ACKS_ALL, Partition
from tidelog.storage.log import Log

CONFIG = LogConfig(tidelog_delay_enable=True, cleanup_policy=("compact",))


def _partition(directory: Path) -> tuple[Partition, DelayedPartition]:
    log = Log.create(str(directory), "t", 0, CONFIG, NOW_MS)
    partition = Partition("t", 0, bytes(16), log, 1)
    partition.make_leader(EPOCH, [1], [1])
    return partition, DelayedPartition(partition)


def _commit(partition: Partition, delayed: DelayedPartition) -> None:
    partition.log.write_staged()
    partition.advance_high_watermark()
    delayed.apply()


def _send(partition: Partition, delay: bytes | None, count: int = 1) -> None:
    headers = () if delay is None else (("tidelog-delay", delay),)
    records = [Record(number, NOW_MS, b"k", b"v", headers) for number in range(count)]
    partition.append(bytearray(build_batch(records)), ACKS_ALL, NOW_MS)


def _copy(leader: Partition, follower: Partition, behind: DelayedPartition, start: int, end: int) -> None:
    data = b"".join(
        segment.log_file.read(position, header.size_bytes)
        for segment, position, header in leader.log.batches(start, end)
    )
    follower.log.append_as_follower(data, NOW_MS)
    _commit(follower, behind)


def test_a_floor_settles_what_a_lagging_replica_takes_for_waiting(tmp_path: Path) -> None:
    leader, delayed = _partition(tmp_path / "leader")
    _send(leader, b"10")
    _commit(leader, delayed)
    lags_at = leader.log.log_end_offset
    delayed.deliver(NOW_MS + 10)
    _commit(leader, delayed)
    delivered_at = leader.log.log_end_offset
    _send(leader, None, count=100)
    _send(leader, b"1h")
    _commit(leader, delayed)
    checkpoint = delayed.checkpoint()
    checkpoint.write()
    delayed.checkpoint_written(checkpoint)
    assert delayed.floor_due > delivered_at
    settled_at = leader.log.log_end_offset
    delayed.settle(NOW_MS)
    _commit(leader, delayed)

    follower, behind = _partition(tmp_path / "follower")
    _copy(leader, follower, behind, 0, lags_at)
    _copy(leader, follower, behind, delivered_at, settled_at)
    assert len(behind.index) == 2, "the delivery was compacted away before the follower fetched it"
    _copy(leader, follower, behind, settled_at, leader.log.log_end_offset)
    assert list(behind.index.ordered()) == list(delayed.index.ordered())
    assert len(behind.index) == 1
    assert follower.log.settled_before == 0, "nothing is cleaned before the next checkpoint"


def test_a_replica_knows_from_its_log_that_records_may_wait_whatever_the_setting_says(tmp_path: Path) -> None:
    """It may be the next leader of a topic whose setting was switched off meanwhile."""
    leader, delayed = _partition(tmp_path / "leader")
    follower, _ = _partition(tmp_path / "follower")
    follower.log.update_config(LogConfig())
    assert not follower.log.has_changes
    _send(leader, b"1h")
    _commit(leader, delayed)
    data = b"".join(
        segment.log_file.read(position, header.size_bytes)
        for segment, position, header in leader.log.batches(0, leader.log.log_end_offset)
    )
    follower.log.append_as_follower(data, NOW_MS)
    assert follower.log.has_changes
    follower.log.forget_changes()
    assert not follower.log.has_changes
    leader.log.close()
    follower.log.close()
