"""For the tests of loading, managing and dumping: batches, logs, a directory that Kafka wrote, a manager on a clock."""

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidelog.config import LogConfig
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.storage.directories.manager import LogManager, LogManagerConfig
from tidelog.storage.loading.loader import Recovery, load_log
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Scheduler, Timer

CONFIG = LogConfig(index_interval_bytes=100, segment_index_bytes=4096)
START_MS = 1_700_000_000_000

KAFKA_ARCHIVE = Path(__file__).parent / "data" / "kafka_3_9_1.tar.xz"
"""A log directory after a clean shutdown of Apache Kafka 3.9.1, and what its DumpLogSegments printed of it.

Made with a ZooKeeper-mode broker (broker.id=3, two partitions for each internal topic) and confluent-kafka: 90 records
with each codec to `plain` (3 partitions) and to `small-seg` (segment.bytes=16000, index.interval.bytes=500) by an
idempotent producer; six transactions to `txn-topic`, every other one aborted, and one left open. Then SIGTERM, and
`kafka.tools.DumpLogSegments --print-data-log --files` of what `dump.txt` names.
"""


def unpack_kafka_directory(target: Path) -> Path:
    """The archived log directory below `target`; `dump.txt` lies beside it."""
    with tarfile.open(KAFKA_ARCHIVE) as archive:
        archive.extractall(target, filter="data")
    return target / "data"


def a_batch(values: Sequence[bytes], *, timestamp: int = START_MS, **arguments: Any) -> bytearray:
    """A batch as a client sends it, with one record for each value."""
    records = [Record(offset, timestamp, b"key", value) for offset, value in enumerate(values)]
    return bytearray(build_batch(records, **arguments))


def new_log(directory: Path, config: LogConfig = CONFIG, name: str = "topic-0") -> Log:
    return Log.create(str(directory / name), "topic", int(name.rpartition("-")[2]), config, START_MS)


def fill(log: Log, batches: int, *, records: int = 2, size: int = 40, leader_epoch: int = 0) -> None:
    """Append and write batches whose values tell them apart."""
    for number in range(batches):
        values = [f"{log.log_end_offset}:{number}:{index}".encode().ljust(size, b".") for index in range(records)]
        log.append_as_leader(a_batch(values, timestamp=START_MS + log.log_end_offset), leader_epoch, START_MS)
        log.write_staged()
    log.update_high_watermark(log.log_end_offset)


def reopen(directory: Path, *, is_clean: bool, config: LogConfig = CONFIG, **arguments: Any) -> tuple[Log, Recovery]:
    """Load the log of `topic-0` below `directory`."""
    return load_log(
        str(directory / "topic-0"), "topic", 0, config, ManualClock(START_MS), is_clean=is_clean, **arguments
    )


def values_of(log: Log) -> list[bytes]:
    """Every value in the log, read the way a fetch reads."""
    from tidelog.records.batch import iterate_batches, iterate_records

    values: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, log.log_end_offset, True)
        assert read.slice is not None
        data = read.slice.read()
        for position, header in iterate_batches(data):
            if not header.is_control:
                values += [record.value or b"" for record in iterate_records(data, position) if record.offset >= offset]
            offset = header.next_offset
    return values


class ManagedLogs:
    """A log manager on a clock that the test turns; what is scheduled runs when the clock is."""

    def __init__(self, *directories: Path, **arguments: Any) -> None:
        settings = {name: arguments.pop(name) for name in LogManagerConfig._fields if name in arguments}
        self.clock = ManualClock(START_MS)
        self.timer = Timer(start_ms=self.clock.monotonic_ms())
        self.scheduler = Scheduler(self.timer, self.clock)
        config = LogManagerConfig(tuple(map(os.fspath, directories)), **settings)
        self.manager = LogManager(config, self.clock, self.scheduler, **arguments)

    def start(self) -> LogManager:
        self.manager.open_directories()
        self.manager.load(lambda _: CONFIG)
        return self.manager

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())
