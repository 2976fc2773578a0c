"""Kafka's own cleaner and ours, on copies of the same directory: the same batches stay, byte for byte where possible.

Three rounds, each on what Kafka's cleaner left of the round before: tombstones and markers get their horizons in one
round and go in a later one. The moment at which Kafka cleaned a log is read from the horizons it wrote, and our cleaner
uses that moment as its clock.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ZooKeeper
from tests.compat.kafka_tools.brokers import new_kafka
from tests.compat.kafka_tools.compacted import (
    KAFKA_SETTINGS,
    PLAIN,
    RETENTION_MS,
    TOPICS,
    TRANSACTIONAL,
    batches_in,
    clean_here,
    fill,
    new_directory,
)
from tests.compat.kafka_tools.samples import WrittenLog
from tests.compat.kafka_tools.zookeeper_nodes import write_nodes
from tidelog.records.header import BatchHeader
from tidelog.records.kernels.compaction import Compactor, PlainCompactor
from tidelog.records.record import Record
from tidelog.storage.checkpoints import CLEANER_OFFSET_FILE, OffsetCheckpointFile
from tidelog.storage.cleaner.worker import kernel_cache_directory

pytestmark = pytest.mark.java

ROUNDS = 3
DEADLINE_S = 60.0


def _plain() -> Compactor:
    return PlainCompactor(1 << 22, 0.9)


def _engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], Compactor]]:
    try:
        import numba  # noqa: F401
    except ImportError:
        return {"plain": _plain}
    monkeypatch.setenv("NUMBA_CACHE_DIR", kernel_cache_directory())
    from tidelog.records.kernels.compaction_compiled import CompiledCompactor

    return {"plain": _plain, "compiled": lambda: CompiledCompactor(1 << 22, 0.9, secret=bytes(16))}


@pytest.mark.long
def test_our_cleaner_leaves_what_kafkas_leaves(
    zookeeper: ZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = _engines(monkeypatch)
    written = new_directory(tmp_path / "round-0" / "data")
    saw = {"horizon": False, "gone tombstone": False, "gone marker": False, "empty batch": False}
    for number in range(ROUNDS):
        fill(written, seed=number)
        theirs = _copy(written, tmp_path / f"kafka-{number}" / "data")
        before = {topic: batches_in(theirs, topic) for topic in TOPICS}
        _clean_by_kafka(zookeeper, theirs)
        for engine, new_compactor in engines.items():
            for topic in TOPICS:
                _compare(written, theirs, topic, new_compactor, tmp_path / f"{engine}-{number}-{topic}")
        _note(saw, before, {topic: batches_in(theirs, topic) for topic in TOPICS})
        written = _copy(theirs, tmp_path / f"round-{number + 1}" / "data")
    assert all(saw.values()), f"the samples do not show everything: {saw}"


def _copy(written: WrittenLog, target: Path) -> WrittenLog:
    shutil.copytree(written.directory, target)
    for leftover in (*target.glob(".kafka_cleanshutdown.*"), *target.glob(".lock")):
        leftover.unlink()
    return replace(written, directory=target)


def _clean_by_kafka(zookeeper: ZooKeeper, written: WrittenLog) -> None:
    home = written.directory.parent
    write_nodes(zookeeper, f"/{home.name}", written)
    ends = {topic: int(written.partition_files(topic, ".log")[-1].stem) for topic in TOPICS}
    with new_kafka(zookeeper, home, {**KAFKA_SETTINGS, "log.dirs": str(written.directory)}):
        file = OffsetCheckpointFile(str(written.directory), CLEANER_OFFSET_FILE)
        deadline = time.monotonic() + DEADLINE_S
        while any(file.read().get((topic, 0), 0) < end for topic, end in ends.items()):
            assert time.monotonic() < deadline, f"Kafka has not cleaned everything: {file.read()}, not {ends}"
            time.sleep(0.05)


def _compare(
    written: WrittenLog, theirs: WrittenLog, topic: str, new_compactor: Callable[[], Compactor], target: Path
) -> None:
    """Clean a copy of one topic at the time that Kafka's result shows, and hold the two against each other."""
    copied = _copy(written, target / "data")
    ours = replace(copied, topic_ids={topic: written.topic_ids[topic]})
    for other in TOPICS:
        if other != topic:
            shutil.rmtree(ours.directory / f"{other}-0")
    clean_here(ours, _moment_of(written, theirs, topic), new_compactor)
    assert [path.name for path in ours.partition_files(topic, ".log")] == [
        path.name for path in theirs.partition_files(topic, ".log")
    ]
    if topic in (PLAIN, TRANSACTIONAL):
        for path in theirs.partition_files(topic, ".log"):
            assert (ours.directory / f"{topic}-0" / path.name).read_bytes() == path.read_bytes(), path
    # What a codec makes of the same records differs between implementations, and with it length and checksum.
    assert _comparable(batches_in(ours, topic)) == _comparable(batches_in(theirs, topic))
    assert [path.read_bytes() for path in ours.partition_files(topic, ".txnindex")] == [
        path.read_bytes() for path in theirs.partition_files(topic, ".txnindex")
    ]


def _comparable(batches: list[tuple[BatchHeader, list[Record]]]) -> list[tuple[BatchHeader, list[Record]]]:
    return [(header._replace(batch_length=0, crc=0), records) for header, records in batches]


def _moment_of(written: WrittenLog, theirs: WrittenLog, topic: str) -> int:
    """When Kafka cleaned the topic: a horizon that was not there before lies `delete.retention.ms` after it."""
    known = {header.delete_horizon_ms for header, _ in batches_in(written, topic)}
    new = {header.delete_horizon_ms for header, _ in batches_in(theirs, topic)} - known
    assert len(new) == 1, f"{topic} was cleaned once, and has something to delete: {new}"
    (horizon_ms,) = new
    assert horizon_ms is not None
    return horizon_ms - RETENTION_MS


def _note(
    saw: dict[str, bool],
    before: dict[str, list[tuple[BatchHeader, list[Record]]]],
    after: dict[str, list[tuple[BatchHeader, list[Record]]]],
) -> None:
    """What the samples have shown so far."""
    for topic in TOPICS:
        kept = {record.offset for _, records in after[topic] for record in records}
        for header, records in before[topic]:
            if header.has_delete_horizon:
                gone = [record for record in records if record.offset not in kept]
                saw["gone marker"] |= header.is_control and bool(gone)
                saw["gone tombstone"] |= any(record.value is None for record in gone)
        saw["horizon"] |= any(header.has_delete_horizon for header, _ in after[topic])
        saw["empty batch"] |= any(header.record_count == 0 for header, _ in after[topic])
