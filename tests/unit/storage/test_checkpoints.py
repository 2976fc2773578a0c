"""Offset checkpoint files: Kafka's text, replaced whole, refused with file and line when malformed."""

import os
from pathlib import Path

import pytest

from tidelog.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    RECOVERY_POINT_FILE,
    CheckpointError,
    OffsetCheckpointFile,
    format_offset_checkpoint,
    parse_offset_checkpoint,
)


def test_the_text_is_kafkas() -> None:
    offsets = {("txn-topic", 0): 37, ("with.dots_and-dashes-7", 12): 0}
    assert format_offset_checkpoint(offsets) == b"0\n2\ntxn-topic 0 37\nwith.dots_and-dashes-7 12 0\n"


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpointFile(str(tmp_path), RECOVERY_POINT_FILE)
    offsets = {("a", 0): 0, ("b-1", 2): 2**62}
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets
    checkpoint.write({})
    assert checkpoint.read() == {}
    assert os.listdir(tmp_path) == [RECOVERY_POINT_FILE]


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert OffsetCheckpointFile(str(tmp_path), HIGH_WATERMARK_FILE).read() == {}


@pytest.mark.parametrize("data", [b"", b"0\n", b"0"])
def test_a_file_cut_before_its_count_holds_nothing(tmp_path: Path, data: bytes) -> None:
    """Kafka's cleaner creates an empty file and may never write to it."""
    (tmp_path / CLEANER_OFFSET_FILE).write_bytes(data)
    assert OffsetCheckpointFile(str(tmp_path), CLEANER_OFFSET_FILE).read() == {}


def test_spaces_and_line_ends_that_java_takes_are_taken() -> None:
    assert parse_offset_checkpoint(b"0\r\n1\r\ntopic  3\t-1\r\n", "x") == {("topic", 3): -1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1\n0\n", "line 1"),
        (b"zero\n0\n", "line 1"),
        (b"0\nmany\n", "line 2"),
        (b"0\n-1\n", "line 2"),
        (b"0\n1\ntopic 0\n", "line 3"),
        (b"0\n2\na 0 1\ntopic 0 1 2\n", "line 4"),
        (b"0\n1\ntopic x 1\n", "'x' is not a partition"),
        (b"0\n1\ntopic -1 1\n", "'-1' is not a partition"),
        (b"0\n1\ntopic 2147483648 1\n", "is not a partition"),
        (b"0\n1\ntopic 0 1_0\n", "'1_0' is not an offset"),
        (b"0\n1\ntopic 0 9223372036854775808\n", "is not an offset"),
        (b"0\n2\ntopic 0 1\n", "claims 2 entries on line 2 and has 1"),
        (b"0\n1\ntopic 0 1\n\n", "claims 1 entries on line 2 and has 2"),
        (b"0\n1\n\xff\xfe 0 1\n", "not UTF-8"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_line(data: bytes, said: str) -> None:
    with pytest.raises(CheckpointError, match="/data/checkpoint") as caught:
        parse_offset_checkpoint(data, "/data/checkpoint")
    assert said in str(caught.value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpointFile(str(tmp_path), RECOVERY_POINT_FILE)
    checkpoint.write({("a", 0): 1})
    (tmp_path / f"{RECOVERY_POINT_FILE}.tmp").mkdir()  # in the way of the new file
    with pytest.raises(OSError, match="tmp"):
        checkpoint.write({("a", 0): 2})
    assert checkpoint.read() == {("a", 0): 1}
