"""What the sink finds in a checkpoint: whose it is, and by which note a batch was planned."""

from pathlib import Path

import pytest

from tidelog.spark.sink.checkpoint import has_lost_commits, plan_of, query_id_of


def test_a_repeated_batch_has_the_same_plan_and_another_one_has_another(tmp_path: Path) -> None:
    notes = tmp_path / "offsets"
    notes.mkdir()
    (notes / "3").write_text('v1\n{}\n{"orders":{"0":5}}')
    plan = plan_of(str(tmp_path), 3)
    (notes / "4").write_text('v1\n{}\n{"orders":{"0":7}}')

    assert plan is not None
    assert plan_of(f"file://{tmp_path}", 3) == plan
    assert plan_of(str(tmp_path), 4) not in (None, plan)


@pytest.mark.parametrize("location", [None, "hdfs://host/x", "s3a://bucket/x", "/not/there", "file://[x", "file:///n"])
def test_what_cannot_be_read_says_nothing(location: str | None) -> None:
    assert plan_of(location, 0) is None
    assert location is None or query_id_of(location) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3"])
def test_notes_that_make_no_sense_say_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata").write_text(text)
    assert query_id_of(str(tmp_path)) is None


def test_commits_are_lost_where_there_are_offsets_without(tmp_path: Path) -> None:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    (tmp_path / "offsets" / "4").write_text("v1")
    assert has_lost_commits(str(tmp_path), 4)
    assert not has_lost_commits(str(tmp_path), 0), "the first batch has none before it"
    assert not has_lost_commits(str(tmp_path / "elsewhere"), 4), "what cannot be read is not judged"
    (tmp_path / "commits" / "3").write_text("v1")
    assert not has_lost_commits(tmp_path.as_uri(), 4)
