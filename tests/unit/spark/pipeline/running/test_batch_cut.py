"""A batch that took too long is planned again, smaller; any other is repeated as it was."""

import json
from pathlib import Path

import pytest

from tidelog.spark.pipeline.running.batch_cut import cut_planned_batch, note_failure
from tidelog.spark.sink.errors import explained
from tidelog.wire.errors import ApiError, ErrorCode

TOO_LONG = f"Python error: {explained(ApiError(ErrorCode.PRODUCER_FENCED), 'id', 1000, 2000)}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return tmp_path


def _plan(checkpoint: Path, batch_id: int, shown: dict, *, is_done: bool = False) -> None:
    (checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(shown)}")
    (checkpoint / "offsets" / f".{batch_id}.crc").write_text("")
    if is_done:
        (checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


def test_its_note_is_removed_and_the_limit_is_a_part_of_its_size(checkpoint: Path) -> None:
    _plan(checkpoint, 0, {"t": {"0": 100}}, is_done=True)
    _plan(checkpoint, 1, {"t": {"0": 300, "1": 200}})
    note_failure(str(checkpoint), TOO_LONG)

    assert cut_planned_batch(f"file://{checkpoint}") == 100
    assert sorted(each.name for each in (checkpoint / "offsets").iterdir()) == [".0.crc", "0"]
    assert cut_planned_batch(str(checkpoint)) is None, "once"


def test_the_first_batch_is_as_long_as_from_where_the_query_began(checkpoint: Path) -> None:
    _plan(checkpoint, 0, {"t": {"0": 1000}, "$from": {"t": {"0": 980}}, "$turn": 3})
    note_failure(str(checkpoint), TOO_LONG)
    assert cut_planned_batch(str(checkpoint)) == 5


def test_other_failures_and_batches_that_are_done_change_nothing(checkpoint: Path) -> None:
    _plan(checkpoint, 0, {"t": {"0": 100}})
    note_failure(str(checkpoint), "something else")
    assert cut_planned_batch(str(checkpoint)) is None
    _plan(checkpoint, 0, {"t": {"0": 100}}, is_done=True)
    note_failure(str(checkpoint), TOO_LONG)
    assert cut_planned_batch(str(checkpoint)) is None
    assert (checkpoint / "offsets" / "0").exists()


@pytest.mark.parametrize("elsewhere", ["s3a://bucket/c", "/not/there"])
def test_checkpoints_that_are_not_here_are_left_alone(elsewhere: str) -> None:
    note_failure(elsewhere, TOO_LONG)
    assert cut_planned_batch(elsewhere) is None
