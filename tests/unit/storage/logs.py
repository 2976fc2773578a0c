"""What the tests of logs share: batches as a producer sends them, small logs, and opening one again."""

from pathlib import Path
from typing import Any

from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.storage.leader_epochs import LeaderEpochCache
from tidelog.storage.log import Log
from tidelog.storage.names import LOG_SUFFIX, offset_of
from tidelog.storage.producers.replay import rebuild_producer_state
from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.segment import Segment
from tidelog.storage.types import AppendOrigin, LogAppendInfo

NOW_MS = 1_700_000_000_000
EPOCH = 3


def batch(
    *values: bytes,
    timestamps: list[int] | None = None,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    codec: Codec = Codec.NONE,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of one record for each value, as a client sends it."""
    times = timestamps or [NOW_MS] * len(values)
    has_producer = producer_id >= 0
    return bytearray(
        build_batch(
            [Record(index, times[index], None, value) for index, value in enumerate(values)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch if has_producer else -1,
            base_sequence=sequence if has_producer else -1,
            is_transactional=is_transactional,
        )
    )


def marker(producer_id: int, *, is_commit: bool, producer_epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    return bytearray(
        build_end_transaction_marker(
            is_commit=is_commit,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=NOW_MS,
        )
    )


def make_log(tmp_path: Path, **settings: Any) -> Log:
    return Log.create(str(tmp_path / "topic-0"), "topic", 0, LogConfig(**settings), NOW_MS)


def append(log: Log, *values: bytes, now_ms: int = NOW_MS, **options: Any) -> LogAppendInfo:
    """Append one batch and write it."""
    info = log.append_as_leader(batch(*values, **options), EPOCH, now_ms)
    log.write_staged()
    return info


def append_marker(log: Log, producer_id: int, *, is_commit: bool, **options: Any) -> LogAppendInfo:
    records = marker(producer_id, is_commit=is_commit, **options)
    info = log.append_as_leader(records, EPOCH, NOW_MS, AppendOrigin.COORDINATOR)
    log.write_staged()
    return info


def read_values(log: Log, offset: int, end_offset: int | None = None, max_bytes: int = 1 << 20) -> list[bytes | None]:
    """The values from `offset` on, through as many segments as there are."""
    return [record.value for record in read_records(log, offset, end_offset, max_bytes)]


def read_records(log: Log, offset: int, end_offset: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    limit = log.log_end_offset if end_offset is None else end_offset
    found: list[Record] = []
    while offset < limit:
        piece = log.read(offset, max_bytes, limit, True).slice
        if piece is None:
            break
        data = piece.read()
        for position, header in iterate_batches(data):
            found += [record for record in iterate_records(data, position) if record.offset >= offset]
            offset = header.next_offset
    return found


def reopen(log: Log, config: LogConfig | None = None, now_ms: int = NOW_MS) -> Log:
    """A log made of the files of one that was closed cleanly."""
    config = config or log.config
    directory = log.directory
    bases = sorted(
        offset
        for path in Path(directory).iterdir()
        if path.name.endswith(LOG_SUFFIX) and (offset := offset_of(path.name)) is not None
    )
    segments = [Segment.open(directory, base, config, now_ms) for base in bases]
    state = ProducerStateManager(log.name, directory)
    end_offset = segments[-1].read_next_offset()
    rebuild_producer_state(state, segments, log.log_start_offset, end_offset, now_ms)
    return Log(
        directory,
        log.topic,
        log.partition,
        config,
        segments=segments,
        log_start_offset=log.log_start_offset,
        recovery_point=end_offset,
        next_offset=end_offset,
        producer_state=state,
        leader_epochs=LeaderEpochCache.load(directory),
        now_ms=now_ms,
    )
