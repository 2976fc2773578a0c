"""Dumps: Kafka's fields and words, and corrupt files described rather than stumbled over."""

import os
from pathlib import Path
from zlib import crc32

import pytest

from tests.unit.storage._logs import START_MS, a_batch, fill, new_log, unpack_kafka_directory
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.header import TimestampType
from tidelog.records.record import Record
from tidelog.storage.dump import DumpRow, dump_file, row_text

STEM = "00000000000000000000"


def rows(path: Path, **options: bool | int) -> list[DumpRow]:
    return list(dump_file(str(path), **options))  # type: ignore[arg-type]


def kinds(found: list[DumpRow]) -> list[str]:
    return [row.kind for row in found]


def problems(found: list[DumpRow]) -> list[str]:
    return [str(row.fields["message"]) for row in found if row.is_problem]


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    log = new_log(tmp_path)
    fill(log, 20)
    log.flush()
    log.close()
    return tmp_path / "topic-0"


def test_the_dump_of_a_kafka_directory_is_what_kafkas_own_tool_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of every codec, transaction markers, indexes, snapshots with an open transaction: line by line."""
    monkeypatch.chdir(unpack_kafka_directory(tmp_path))
    expected = (tmp_path / "dump.txt").read_text().splitlines()
    printed = []
    for path in [line.removeprefix("Dumping ") for line in expected if line.startswith("Dumping ")]:
        printed.append(f"Dumping {path}")
        printed += [row_text(row).replace("./", "") for row in dump_file(path, print_data=True)]
    assert len(printed) > 700
    assert printed == expected


def test_batches_have_kafkas_fields_in_kafkas_order(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    records = [Record(0, START_MS, b"k", b"v", (("h", b"1"),)), Record(1, START_MS + 5, None, None)]
    batch = build_batch(records, codec=Codec.LZ4, producer_id=4, producer_epoch=1, base_sequence=2**31 - 1)
    path.write_bytes(batch)
    found = rows(path, print_data=True)
    assert kinds(found) == ["note", "batch", "record", "record"]
    fields = found[1].fields
    assert list(fields) == [
        "baseOffset",
        "lastOffset",
        "count",
        "baseSequence",
        "lastSequence",
        "producerId",
        "producerEpoch",
        "partitionLeaderEpoch",
        "isTransactional",
        "isControl",
        "deleteHorizonMs",
        "position",
        "CreateTime",
        "size",
        "magic",
        "compresscodec",
        "crc",
        "isvalid",
    ]
    assert (fields["lastSequence"], fields["compresscodec"], fields["isvalid"]) == (0, "lz4", True)
    assert row_text(found[2]).startswith(
        f"| offset: 0 CreateTime: {START_MS} keySize: 1 valueSize: 1 sequence: 2147483647"
    )
    assert row_text(found[2]).endswith("headerKeys: [h] key: k payload: v")
    assert found[3].fields["sequence"] == 0, "sequences wrap"
    assert row_text(found[3]).endswith("keySize: -1 valueSize: -1 sequence: 0 headerKeys: []")


def test_records_are_only_shown_when_asked_for(log_directory: Path) -> None:
    path = log_directory / f"{STEM}.log"
    assert kinds(rows(path)) == ["note"] + ["batch"] * 20
    deep = rows(path, deep=True)
    assert kinds(deep).count("record") == 40
    assert "payload" not in deep[2].fields
    assert "payload" in rows(path, print_data=True)[2].fields


def test_markers_say_what_they_end(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(
        build_end_transaction_marker(
            is_commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=7, timestamp=START_MS
        )
    )
    assert row_text(rows(path, print_data=True)[2]).endswith("endTxnMarker: ABORT coordinatorEpoch: 7")


def test_log_append_time_and_delete_horizon_are_named(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(
        build_batch(
            [Record(0, 1, b"k", None)],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time=START_MS,
            delete_horizon_ms=START_MS + 9,
        )
    )
    text = row_text(rows(path)[1])
    assert f"LogAppendTime: {START_MS}" in text
    assert f"deleteHorizonMs: OptionalLong[{START_MS + 9}]" in text


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_tail_is_described(log_directory: Path, cut: int) -> None:
    path = log_directory / f"{STEM}.log"
    size = path.stat().st_size
    batch_bytes = size // 20
    os.truncate(path, size - batch_bytes + cut)
    found = rows(path)
    assert kinds(found).count("batch") == 19
    (problem,) = problems(found)
    assert problem.startswith(f"Found {cut} invalid bytes at the end of {STEM}.log")
    assert f"position {size - batch_bytes}" in problem


def test_a_damaged_batch_is_not_valid_and_its_records_may_be_unreadable(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    batch = a_batch([b"x" * 100], codec=Codec.GZIP)
    batch[61] ^= 0xFF  # where the compressed data begins
    path.write_bytes(batch)
    found = rows(path, print_data=True)
    assert found[1].fields["isvalid"] is False
    assert "cannot be read" in problems(found)[0]


def test_gaps_between_records_are_reported(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(a_batch([b"a"]) + build_batch([Record(5, START_MS, None, b"b")], base_offset=5))
    assert problems(rows(path, deep=True)) == ["Non-consecutive offsets: 0 is followed by 5"]


def test_no_more_than_asked_for_is_read(log_directory: Path) -> None:
    path = log_directory / f"{STEM}.log"
    batch_bytes = path.stat().st_size // 20
    found = rows(path, bytes_max=3 * batch_bytes + 10)
    assert kinds(found).count("batch") == 3
    assert problems(found) == []


def test_messages_of_old_magics_are_shown(tmp_path: Path) -> None:
    """Logs from before Kafka 0.11 may still hold them."""
    body = (
        b"\x01\x00" + (1234).to_bytes(8, "big") + (-1).to_bytes(4, "big", signed=True) + (2).to_bytes(4, "big") + b"hi"
    )
    message = crc32(body).to_bytes(4, "big") + body
    path = tmp_path / f"{STEM}.log"
    path.write_bytes((9).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message)
    assert row_text(rows(path)[1]) == (
        f"offset: 9 position: 0 CreateTime: 1234 size: {12 + len(message)} magic: 1 compresscodec: none "
        f"crc: {crc32(body)} isvalid: true"
    )


# Indexes


def test_sound_indexes_have_no_problems(log_directory: Path) -> None:
    offsets = rows(log_directory / f"{STEM}.index")
    assert set(kinds(offsets)) == {"offset-entry"}
    times = rows(log_directory / f"{STEM}.timeindex")
    assert set(kinds(times)) == {"time-entry"}
    for suffix in (".index", ".timeindex"):
        assert rows(log_directory / f"{STEM}{suffix}", verify_only=True) == []
        (row,) = rows(log_directory / f"{STEM}{suffix}", sanity_only=True)
        assert row_text(row).endswith("passed sanity check.")


def test_an_index_that_was_not_trimmed_ends_with_its_entries(log_directory: Path) -> None:
    path = log_directory / f"{STEM}.index"
    entries = rows(path)
    os.truncate(path, 4096)
    assert rows(path) == entries


@pytest.mark.parametrize(
    ("suffix", "shown"), [(".index", {"offset": 0, "position": 0}), (".timeindex", {"timestamp": 0, "offset": 0})]
)
def test_an_active_index_before_its_first_entry_is_sound(
    log_directory: Path, suffix: str, shown: dict[str, int]
) -> None:
    """It is preallocated, and the first batch of a segment gets no entry."""
    path = log_directory / f"{STEM}{suffix}"
    path.write_bytes(bytes(12 * 8 * 100))
    found = rows(path)
    assert problems(found) == []
    assert [row.fields for row in found] == [shown]
    assert rows(path, verify_only=True) == []
    assert problems(rows(path, sanity_only=True)) == []


def test_entries_that_lead_astray_are_named(log_directory: Path) -> None:
    path = log_directory / f"{STEM}.index"
    data = bytearray(path.read_bytes())
    data[7] ^= 1  # the position of the first entry
    path.write_bytes(data)
    (problem,) = problems(rows(path, verify_only=True))
    assert "log offset: none" in problem
    times = log_directory / f"{STEM}.timeindex"
    data = bytearray(times.read_bytes())
    data[7] ^= 1  # the timestamp of the first entry
    times.write_bytes(data)
    assert "log timestamp" in problems(rows(times, verify_only=True))[0]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_garbage_indexes_are_described(log_directory: Path, suffix: str) -> None:
    path = log_directory / f"{STEM}{suffix}"
    path.write_bytes(os.urandom(97))
    assert "not a multiple" in problems(rows(path))[0]
    assert "rebuilds it" in problems(rows(path, sanity_only=True))[-1]
    path.write_bytes(b"")
    assert row_text(rows(path)[0]) == f"{path} is empty."


def test_an_index_without_its_log_is_shown_and_said_to_be_unverified(log_directory: Path) -> None:
    (log_directory / f"{STEM}.log").unlink()
    found = rows(log_directory / f"{STEM}.index")
    assert "there is no" in problems(found)[0]
    assert "offset-entry" in kinds(found)


# Small files


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("recovery-point-offset-checkpoint", b"0\n1\na 0 7\n", "topic: a partition: 0 offset: 7"),
        ("leader-epoch-checkpoint", b"0\n1\n3 99\n", "leaderEpoch: 3 startOffset: 99"),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: WWHmdO-jSXKyyyuyL2xmrg",
            "version: 0 topic_id: WWHmdO-jSXKyyyuyL2xmrg",
        ),
        ("meta.properties", b"version=0\nbroker.id=1\ncluster.id=c\n", "version: 0 broker.id: 1 cluster.id: c"),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":-1}', "version: 0 brokerEpoch: -1"),
    ],
)
def test_small_files_are_shown_by_their_fields(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    (tmp_path / name).write_bytes(content)
    (row,) = rows(tmp_path / name)
    assert row_text(row) == text


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        ".kafka_cleanshutdown",
        f"{STEM}.log",
        f"{STEM}.index",
        f"{STEM}.timeindex",
        f"{STEM}.txnindex",
        f"{STEM}.snapshot",
    ],
)
@pytest.mark.parametrize("content", [b"?", b"\xff" * 77, b"0\n9\nx\n", b"\0" * 200], ids=repr)
def test_garbage_in_any_file_is_described(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    for row in dump_file(str(tmp_path / name), print_data=True):
        assert row_text(row)


def test_files_on_their_way_out_are_dumped_by_what_they_were(log_directory: Path) -> None:
    path = log_directory / f"{STEM}.log"
    expected = rows(path)
    path.rename(log_directory / f"{STEM}.log.deleted")
    assert rows(log_directory / f"{STEM}.log.deleted") == expected


def test_unknown_files_are_refused_and_missing_ones_are_an_error(tmp_path: Path) -> None:
    (row,) = rows(tmp_path / "holiday.jpg")
    assert row.is_problem
    assert "not a file of a log directory" in row_text(row)
    with pytest.raises(FileNotFoundError):
        rows(tmp_path / f"{STEM}.log")
