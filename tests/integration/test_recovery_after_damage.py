"""Starting on files that a crash has damaged: what is whole is served, the rest is cut off, and the log says how much.

A broker writes a known set of batches and is killed. Each test damages a copy of its files and starts a broker on it.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.effort import usually
from tests.integration.log_files import FoundBatch, segments, walk_partition
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    describe_topic,
    end_offset,
    fetch_records,
    fetch_request,
    new_producer_id,
    offset_for_timestamp,
    produce,
)
from tidelog.records.compression import Codec
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import offset_for_leader_epoch

TOPIC = "damaged"
BATCHES = 120
SEGMENT_BYTES = 3000
FIRST_TIMESTAMP = 1_700_000_000_000


class Crashed(NamedTuple):
    """The data of a broker that was killed, and what it had acknowledged."""

    data_dir: Path
    batches: list[FoundBatch]
    topic_id: bytes
    producer: tuple[int, int]
    values: list[bytes]

    @property
    def end_offset(self) -> int:
        return len(self.values)

    def values_before(self, offset: int) -> list[bytes]:
        return self.values[:offset]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    """Some hundred records in batches of different codecs, in many small segments, written by one producer."""
    data_dir = tmp_path_factory.mktemp("crashed")
    values: list[bytes] = []
    with Broker(process=True, data_dir=data_dir) as broker:
        config = {"segment.bytes": SEGMENT_BYTES, "index.interval.bytes": 200}
        broker.create_topic(TOPIC, 1, config=config)
        with RawClient(broker.port) as client:
            producer = new_producer_id(client)
            topic_id = describe_topic(client, TOPIC).topic_id
            for number in range(BATCHES):
                weight = bytes(number * 7 % 300)
                added = [b"record %d " % (len(values) + index) + weight for index in range(1 + number % 4)]
                batch = batch_of(
                    added,
                    codec=Codec(number % 5),
                    producer=(*producer, len(values)),
                    timestamp=FIRST_TIMESTAMP + 1000 * number,
                )
                assert produce(client, TOPIC, 0, batch).error_code == ErrorCode.NONE
                values += added
        broker.kill()
        batches = walk_partition(data_dir / f"{TOPIC}-0")
    assert len(batches) == BATCHES
    assert len(segments(data_dir / f"{TOPIC}-0")) > 3
    return Crashed(data_dir, batches, topic_id, producer, values)


@contextmanager
def started(crashed: Crashed, tmp_path: Path, damage: Callable[[Path], None]) -> Iterator[tuple[Broker, RawClient]]:
    """A broker on a damaged copy of the data."""
    data_dir = tmp_path / "data"
    shutil.copytree(crashed.data_dir, data_dir)
    damage(data_dir / f"{TOPIC}-0")
    with Broker(process=True, data_dir=data_dir) as broker, RawClient(broker.port) as client:
        yield broker, client


def check_served(client: RawClient, crashed: Crashed, end: int) -> None:
    """Everything below `end` is there as it was, and the log goes on from there."""
    assert end_offset(client, TOPIC, 0) == end
    assert [record.value for record in fetch_records(client, TOPIC, 0)] == crashed.values_before(end)
    assert produce(client, TOPIC, 0, batch_of([b"after"])).base_offset == end
    assert fetch_records(client, TOPIC, 0, end)[0].value == b"after"


def check_said(broker: Broker, end: int, cut_bytes: int, segments_dropped: int = 0) -> str:
    """The line about the recovery, with its counts."""
    (line,) = (line for line in broker.logs.splitlines() if f"recovered {TOPIC}-0" in line)
    assert f"up to offset {end}:" in line, line
    assert f" {cut_bytes} bytes cut off" in line, line
    assert f" {segments_dropped} segments dropped" in line, line
    assert re.search(r"\d+ segments with \d+ batches read", line), line
    return line


# --- damage to the data ---


@pytest.mark.parametrize("seed", usually([0, 1], range(6)))
def test_a_torn_tail_is_cut_and_said(crashed: Crashed, tmp_path: Path, seed: int) -> None:
    """The last segment ends at any byte at all."""
    source = random.Random(seed)
    last = segments(crashed.data_dir / f"{TOPIC}-0")[-1]
    size = source.randrange(last.stat().st_size)
    in_last = [batch for batch in crashed.batches if batch.path == last]
    kept = [batch for batch in in_last if batch.position + batch.size_bytes <= size]
    end = kept[-1].last_offset + 1 if kept else in_last[0].base_offset
    kept_bytes = kept[-1].position + kept[-1].size_bytes if kept else 0

    def tear(directory: Path) -> None:
        with (directory / last.name).open("r+b") as file:
            file.truncate(size)

    with started(crashed, tmp_path, tear) as (broker, client):
        check_said(broker, end, size - kept_bytes)
        check_served(client, crashed, end)


@pytest.mark.parametrize("seed", usually([0, 1], range(6)))
def test_a_wrong_bit_ends_the_log_before_its_batch(crashed: Crashed, tmp_path: Path, seed: int) -> None:
    """In any segment: later segments were written after the batch that is broken, and go with it."""
    source = random.Random(seed)
    victim = source.choice(crashed.batches)
    # Offset, leader epoch and length are not covered by the checksum; the first two are found by other means.
    position = victim.position + source.randrange(16, victim.size_bytes)
    after = [batch for batch in crashed.batches if batch.base_offset >= victim.base_offset]

    def damage(directory: Path) -> None:
        path = directory / victim.path.name
        data = bytearray(path.read_bytes())
        data[position] ^= 1 << source.randrange(8)
        path.write_bytes(data)

    with started(crashed, tmp_path, damage) as (broker, client):
        dropped = len({batch.path for batch in after}) - 1
        line = check_said(broker, victim.base_offset, sum(batch.size_bytes for batch in after), dropped)
        assert f"segment {int(victim.path.stem)} cut at position {victim.position}" in line
        check_served(client, crashed, victim.base_offset)


@pytest.mark.parametrize(
    "tail",
    [b"\x00" * 5000, b"garbage" * 30, b"\xff" * 100, b"x", batch_of([b"not ours"])],
    ids=["zeros", "garbage", "ones", "one byte", "a batch with offsets that were given before"],
)
def test_what_follows_the_last_batch_is_cut(crashed: Crashed, tmp_path: Path, tail: bytes) -> None:
    def add(directory: Path) -> None:
        with segments(directory)[-1].open("ab") as file:
            file.write(tail)

    with started(crashed, tmp_path, add) as (broker, client):
        check_said(broker, crashed.end_offset, len(tail))
        check_served(client, crashed, crashed.end_offset)


@pytest.mark.parametrize("slots", [(2,), (1, 3), (0,)])
def test_a_missing_segment_costs_its_own_records_only(crashed: Crashed, tmp_path: Path, slots: tuple[int, ...]) -> None:
    """As in Kafka: a consumer that asks for a missing offset goes on with the first record behind the gap."""
    paths = segments(crashed.data_dir / f"{TOPIC}-0")
    ends = [int(path.stem) for path in paths[1:]] + [crashed.end_offset]
    lost = {offset for slot in slots for offset in range(int(paths[slot].stem), ends[slot])}
    kept = [offset for offset in range(crashed.end_offset) if offset not in lost]

    def lose(directory: Path) -> None:
        for slot in slots:
            (directory / paths[slot].name).unlink()

    with started(crashed, tmp_path, lose) as (broker, client):
        assert end_offset(client, TOPIC, 0) == crashed.end_offset
        found = fetch_records(client, TOPIC, 0, kept[0])
        assert [(record.offset, record.value) for record in found] == [(one, crashed.values[one]) for one in kept]
        for slot in filter(None, slots):
            behind = fetch_records(client, TOPIC, 0, int(paths[slot].stem))[0]
            assert behind.offset == ends[slot]
            assert f"offsets {int(paths[slot].stem)} to {ends[slot] - 1} are missing" in broker.logs
        last = crashed.batches[-1]
        assert produce(client, TOPIC, 0, retry_of(crashed, last)).base_offset == last.base_offset
        assert produce(client, TOPIC, 0, batch_of([b"after"])).base_offset == crashed.end_offset
        broker.restart()
        with RawClient(broker.port) as again:
            assert [record.offset for record in fetch_records(again, TOPIC, 0, kept[0])][: len(kept)] == kept


def test_an_empty_segment_from_a_roll_that_was_interrupted_is_taken_up(crashed: Crashed, tmp_path: Path) -> None:
    def roll(directory: Path) -> None:
        (directory / f"{crashed.end_offset:020d}.log").touch()

    with started(crashed, tmp_path, roll) as (_, client):
        check_served(client, crashed, crashed.end_offset)


def test_all_files_of_a_partition_are_gone(crashed: Crashed, tmp_path: Path) -> None:
    """Nothing can bring them back; the partition is there and empty, and keeps its topic's id."""

    def clear(directory: Path) -> None:
        for path in directory.iterdir():
            path.unlink()

    with started(crashed, tmp_path, clear) as (broker, client):
        check_served(client, crashed, 0)
        assert describe_topic(client, TOPIC).topic_id == crashed.topic_id
        assert (Path(broker.data_dir) / f"{TOPIC}-0" / "partition.metadata").exists()


def test_a_consumer_that_has_read_what_was_cut_can_tell(crashed: Crashed, tmp_path: Path) -> None:
    """The new leader epoch gives it away (KIP-320): consumers learn where their log and ours part."""
    lost = crashed.batches[-3:]
    cut = lost[0].base_offset

    def tear(directory: Path) -> None:
        with (directory / lost[0].path.name).open("r+b") as file:
            file.truncate(lost[0].position + 5)

    assert len({batch.path for batch in lost}) == 1, "the last batches lie in one segment"
    with started(crashed, tmp_path, tear) as (_, client):
        produce(client, TOPIC, 0, batch_of([b"other"] * 20))
        asked = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])
        answer = client.call(messages.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]))
        assert (answer.topics[0].partitions[0].leader_epoch, answer.topics[0].partitions[0].end_offset) == (0, cut)
        fetched = fetch_at(client, crashed.end_offset, current_leader_epoch=0, last_fetched_epoch=0)
        assert fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
        fetched = fetch_at(client, crashed.end_offset, current_leader_epoch=1, last_fetched_epoch=0)
        assert (fetched.error_code, fetched.records or b"") == (ErrorCode.NONE, b"")
        assert (fetched.diverging_epoch.epoch, fetched.diverging_epoch.end_offset) == (0, cut)


def fetch_at(client: RawClient, offset: int, *, current_leader_epoch: int, last_fetched_epoch: int) -> Any:
    request = fetch_request(TOPIC, {0: offset}, max_wait_ms=0)
    request.topics[0].partitions[0].current_leader_epoch = current_leader_epoch
    request.topics[0].partitions[0].last_fetched_epoch = last_fetched_epoch
    return client.call(request, 12).responses[0].partitions[0]


# --- damage to what can be rebuilt ---


def remove(pattern: str) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        for path in directory.glob(pattern):
            path.unlink()

    return damage


def overwrite_one(name: str, data: bytes) -> Callable[[Path], None]:
    """A file that may not have been written yet."""

    def damage(directory: Path) -> None:
        (directory / name).write_bytes(data)

    return damage


def overwrite(pattern: str, data: bytes) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        found = list(directory.glob(pattern))
        assert found, f"nothing matches {pattern}"
        for path in found:
            path.write_bytes(data)

    return damage


REBUILT: dict[str, Callable[[Path], None]] = {
    "nothing is damaged": lambda directory: None,
    "all indexes are gone": remove("*index"),
    "offset indexes of nonsense": overwrite("*.index", random.Random(1).randbytes(800)),
    "time indexes of nonsense": overwrite("*.timeindex", random.Random(2).randbytes(1200)),
    "indexes of zeros": overwrite("*index", bytes(4096)),
    "indexes that are cut off": overwrite("*index", b"\x00\x00\x01"),
    "all snapshots are gone": remove("*.snapshot"),
    "snapshots of nonsense": overwrite("*.snapshot", random.Random(3).randbytes(100)),
    "empty snapshots": overwrite("*.snapshot", b""),
    "no leader epochs": remove("leader-epoch-checkpoint"),
    # Whether a sync has written the file before the kill is a matter of luck.
    "leader epochs of nonsense": overwrite_one("leader-epoch-checkpoint", b"what\nis"),
    "no topic id": remove("partition.metadata"),
    "no recovery points": lambda directory: (directory.parent / "recovery-point-offset-checkpoint").unlink(True),
    "recovery points of nonsense": overwrite_one("../recovery-point-offset-checkpoint", b"0\nmany\n"),
}


@pytest.mark.parametrize("name", REBUILT)
def test_what_can_be_rebuilt_is_rebuilt(crashed: Crashed, tmp_path: Path, name: str) -> None:
    """Offsets, times, the producer's sequences and the topic's id are as they were."""
    with started(crashed, tmp_path, REBUILT[name]) as (broker, client):
        for number in (0, 1, 57, BATCHES - 1):
            batch = crashed.batches[number]
            assert fetch_records(client, TOPIC, 0, batch.base_offset)[0].value == crashed.values[batch.base_offset]
            assert offset_for_timestamp(client, TOPIC, 0, FIRST_TIMESTAMP + 1000 * number - 1) == batch.base_offset
        last = crashed.batches[-1]
        retried = produce(client, TOPIC, 0, retry_of(crashed, last))
        assert (retried.error_code, retried.base_offset) == (ErrorCode.NONE, last.base_offset)
        topic = describe_topic(client, TOPIC)
        assert topic.topic_id == crashed.topic_id
        assert topic.partitions[0].leader_epoch == 1
        check_served(client, crashed, crashed.end_offset)
        assert "Traceback" not in broker.logs
    directory = tmp_path / "data" / f"{TOPIC}-0"
    assert len(walk_partition(directory)) == BATCHES + 1
    assert (directory / "partition.metadata").exists()


def retry_of(crashed: Crashed, batch: FoundBatch) -> bytes:
    values = crashed.values[batch.base_offset : batch.last_offset + 1]
    return batch_of(values, producer=(*crashed.producer, batch.base_sequence))


LEFTOVERS = [f"{7:020d}.log.deleted", f"{7:020d}.index.deleted", f"{5:020d}.log.cleaned"]


def test_leftovers_of_interrupted_deletions_are_cleared_away(crashed: Crashed, tmp_path: Path) -> None:
    def leave(directory: Path) -> None:
        for name in LEFTOVERS:
            (directory / name).write_bytes(b"left over")

    with started(crashed, tmp_path, leave) as (_, client):
        check_served(client, crashed, crashed.end_offset)
    names = {path.name for path in (tmp_path / "data" / f"{TOPIC}-0").iterdir()}
    assert not names & set(LEFTOVERS)
