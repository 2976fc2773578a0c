"""What a checkpoint says, from files as Spark writes them."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline.running.checkpoints import (
    has_no_batches,
    local_path,
    parse_offsets,
    planned_watermark_ms,
    read_position,
    read_positions,
    why_unwritable,
)

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"$from": {"orders": {"0": 0}}, "orders": {"0": 7, "1": 9}}'


def _checkpoint(root: Path, offsets: dict[int, str], commits: list[int]) -> str:
    for directory in ("offsets", "commits"):
        (root / directory).mkdir()
    for batch, text in offsets.items():
        (root / "offsets" / str(batch)).write_text(text)
    for batch in commits:
        (root / "commits" / str(batch)).write_text("v1\n{}")
    (root / "commits" / ".9.crc").write_text("")
    (root / "metadata").write_text('{"id":"abc"}')
    return str(root)


def test_the_last_batch_that_is_done_counts(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, {0: OFFSETS, 1: OFFSETS.replace("7", "8"), 2: OFFSETS}, [0, 1])
    position = read_position(path)
    assert position is not None
    assert (position.batch_id, position.query_id) == (1, "abc")
    assert position.offsets == {"orders": {0: 8, 1: 9}}


def test_a_new_query_has_no_position(tmp_path: Path) -> None:
    assert read_position(str(tmp_path)) is None
    assert read_position(_checkpoint(tmp_path, {0: OFFSETS}, [])) is None


def test_a_checkpoint_elsewhere_cannot_be_looked_into() -> None:
    assert read_position("s3://bucket/checkpoint") is None


def test_paths_are_written_as_spark_writes_them() -> None:
    assert local_path("a/b") == Path("a/b")
    assert local_path("file:/a/b") == local_path("file:///a/b") == local_path("/a/b") == Path("/a/b")
    assert local_path("hdfs:/a/b") is None


def test_a_place_where_no_checkpoint_can_be_made_is_named(tmp_path: Path) -> None:
    assert why_unwritable(str(tmp_path / "new" / "checkpoint")) is None
    assert why_unwritable("s3://bucket/checkpoint") is None
    (tmp_path / "file").write_text("")
    assert why_unwritable(f"file://{tmp_path}/file/checkpoint") == f"{tmp_path}/file is not a directory"


def test_of_several_queries_the_one_that_is_behind_counts(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = _checkpoint(tmp_path / "one", {0: OFFSETS, 1: OFFSETS}, [0, 1])
    two = _checkpoint(tmp_path / "two", {0: OFFSETS.replace("7", "5")}, [0])
    position = read_positions([one, two])
    assert position is not None
    assert (position.batch_id, position.offsets) == (0, {"orders": {0: 5, 1: 9}})
    assert read_positions([one, str(tmp_path / "three")]) is None


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(parse_offsets(text), dict)
    assert isinstance(parse_offsets("v1\n{}\n" + text), dict)


def test_the_watermark_of_the_planned_batch_is_in_its_note(tmp_path: Path) -> None:
    notes = tmp_path / "offsets"
    notes.mkdir()
    assert planned_watermark_ms(str(tmp_path)) is None
    (notes / "9").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{}')
    assert planned_watermark_ms(str(tmp_path)) is None, "there is none yet"
    (notes / "10").write_text('v1\n{"batchWatermarkMs":1700000000000}\n{}')
    assert planned_watermark_ms(tmp_path.as_uri()) == 1_700_000_000_000
    (notes / "11").write_text("v1\n")
    assert planned_watermark_ms(str(tmp_path)) is None
    assert planned_watermark_ms("s3a://bucket/checkpoint") is None


def test_a_query_without_batches_is_seen(tmp_path: Path) -> None:
    assert not has_no_batches(str(tmp_path)), "it is new"
    (tmp_path / "metadata").write_text('{"id":"x"}')
    assert has_no_batches(str(tmp_path))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    assert not has_no_batches(str(tmp_path))
