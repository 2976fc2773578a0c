"""Directories of compacted logs, filled and cleaned without a broker, for the tests beside Kafka's own cleaner."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.compat.kafka_tools.samples import WrittenLog
from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.header import BatchHeader
from tidelog.records.kernels.compaction import Compactor
from tidelog.records.record import Record
from tidelog.storage.cleaner.cleaning import clean
from tidelog.storage.cleaner.jobs import GroupCleaned, JobDone
from tidelog.storage.cleaner.planning import CleanerConfig, examine, job_for
from tidelog.storage.cleaner.swap import open_cleaned, replace_segments, sources_of
from tidelog.storage.directories.manager import LogManager, LogManagerConfig
from tidelog.storage.directories.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin
from tidelog.timing import ManualClock, Scheduler, Timer

RETENTION_MS = 0
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
PLAIN, TRANSACTIONAL = "plain", "transactional"
TOPICS = (PLAIN, TRANSACTIONAL, *(f"codec-{codec.name.lower()}" for codec in CODECS if codec))
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    delete_retention_ms=RETENTION_MS,
    segment_bytes=20_000,
    index_interval_bytes=512,
)
KAFKA_SETTINGS = {
    "broker.id": "0",
    "log.cleanup.policy": "compact",
    "log.cleaner.delete.retention.ms": str(RETENTION_MS),
    "log.cleaner.min.cleanable.ratio": "0.0001",
    "log.cleaner.backoff.ms": "50",
    "log.segment.bytes": str(CONFIG.segment_bytes),
    "log.index.interval.bytes": str(CONFIG.index_interval_bytes),
}
"""What makes Kafka's cleaner take up every log, and clean it by the rules of `CONFIG`."""


class Logs:
    """The logs of a directory, open; `with` closes them as a broker does when it stops."""

    def __init__(self, directory: Path) -> None:
        clock = ManualClock(round(time.time() * 1000))
        self.now_ms = clock.wall_ms()
        self._manager = LogManager(
            LogManagerConfig((os.fspath(directory),)), clock, Scheduler(Timer(start_ms=0), clock)
        )
        self._manager.open_directories()
        self._manager.load(lambda _topic: CONFIG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._manager.close()

    def log(self, topic: str, topic_id: bytes) -> Log:
        log = self._manager.get_or_create_log(topic, 0, topic_id, CONFIG)
        log.update_high_watermark(log.log_end_offset)
        return log


def new_directory(path: Path) -> WrittenLog:
    """An empty directory of broker 0."""
    path.mkdir(parents=True)
    write_meta_properties(os.fspath(path), MetaProperties(0, "compactedAAAAAAAAAAAAA"))
    return WrittenLog(path, {topic: random.Random(topic).randbytes(16) for topic in TOPICS})


def fill(written: WrittenLog, seed: int) -> None:
    """Add to every topic: overwritten keys, tombstones, producers, transactions. The last segment is empty."""
    source = random.Random(seed)
    with Logs(written.directory) as logs:
        for topic, topic_id in written.topic_ids.items():
            log = logs.log(topic, topic_id)
            codec = Codec[topic.removeprefix("codec-").upper()] if topic.startswith("codec-") else Codec.NONE
            if topic == TRANSACTIONAL:
                _add_transactions(log, source, logs.now_ms)
            else:
                _add_batches(log, source, logs.now_ms, codec)
            # A tombstone that stays, so that every topic shows when it was cleaned.
            last = build_batch([Record(0, logs.now_ms, b"gone-%d" % seed, None)], codec=codec)
            log.append_as_leader(bytearray(last), 0, logs.now_ms)
            log.write_staged()
            log.update_high_watermark(log.log_end_offset)
            log.roll(logs.now_ms)


def _add_batches(log: Log, source: random.Random, now_ms: int, codec: Codec) -> None:
    for number in range(60):
        producer_id = source.choice([-1, -1, 1, 2, 1000 + number])
        _append(log, source, now_ms + number, codec, producer_id, is_transactional=False)


def _add_transactions(log: Log, source: random.Random, now_ms: int) -> None:
    for number in range(40):
        producer_id = source.choice([10, 11, 12])
        for _ in range(source.randrange(3)):
            _append(log, source, now_ms + number, Codec.NONE, producer_id, is_transactional=True)
        if source.random() < 0.3:
            _append(log, source, now_ms + number, Codec.NONE, -1, is_transactional=False)
        _end(log, producer_id, now_ms + number, is_commit=source.random() < 0.5)
    for producer_id in (10, 11, 12):
        _end(log, producer_id, now_ms + 50, is_commit=True)


def _append(
    log: Log, source: random.Random, now_ms: int, codec: Codec, producer_id: int, *, is_transactional: bool
) -> None:
    entry = log.producer_state.producers.get(producer_id)
    sequence = entry.last_sequence + 1 if entry is not None else 0
    records = [
        Record(
            index,
            now_ms + source.randrange(-50, 50),
            b"key-%d" % source.randrange(25),
            None if source.random() < 0.15 else b"value-%d-" % source.randrange(1000) + b"." * source.randrange(90),
            (("header", b"1"),) if source.random() < 0.2 else (),
        )
        for index in range(source.randrange(1, 8))
    ]
    has_producer = producer_id >= 0
    batch = build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        is_transactional=is_transactional,
    )
    log.append_as_leader(bytearray(batch), 0, now_ms)


def _end(log: Log, producer_id: int, now_ms: int, *, is_commit: bool) -> None:
    marker = build_end_transaction_marker(
        is_commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=now_ms
    )
    log.append_as_leader(bytearray(marker), 0, now_ms, AppendOrigin.COORDINATOR)


def clean_here(written: WrittenLog, now_ms: int, new_compactor: Callable[[], Compactor]) -> None:
    """Clean every log of a directory as it would have been at `now_ms`."""
    with Logs(written.directory) as logs:
        for topic, topic_id in written.topic_ids.items():
            log = logs.log(topic, topic_id)
            job = job_for(examine(log, now_ms), CleanerConfig(), now_ms)
            known = list(log.segments)
            for event in clean(job, new_compactor(), lambda _read, _written: None, lambda: 0, "test"):
                if isinstance(event, GroupCleaned):
                    cleaned = open_cleaned(log, event, now_ms)
                    log.segments.discard_files(replace_segments(log, cleaned, sources_of(log, event, known)))
                else:
                    assert isinstance(event, JobDone)
                    log.positions.mark_clean(event.end_offset)


def batches_in(written: WrittenLog, topic: str) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches of a topic with their records."""
    found = []
    for path in written.partition_files(topic, ".log"):
        data = path.read_bytes()
        found += [(header, list(iterate_records(data, position))) for position, header in iterate_batches(data)]
    return found
