"""Write, audit, publish: rows on a branch of an Iceberg table, which readers do not see before it is published."""

import time
from collections import Counter

import pytest

from tests.unit.spark.pipeline.lake.rows import Rows
from tests.unit.spark.pipeline.lake.test_tables import CHANGES, ids, open_table, orders
from tidelog.cli.app import main
from tidelog.spark.pipeline import iceberg
from tidelog.spark.pipeline.checks.lake import lake_problems
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.history import History
from tidelog.spark.pipeline.lake.iceberg_reading import IcebergFiles


def described(tmp_path, **more):
    return iceberg("shop.orders", warehouse=tmp_path / "lake", **more)


@pytest.mark.parametrize("has_rows", [False, True])
def test_readers_see_a_branch_when_it_is_published(tmp_path, has_rows):
    shown, audited = open_table(described(tmp_path)), open_table(described(tmp_path, branch="audit"))
    if has_rows:
        shown.append(orders([1]), Batch("before", 0))
    before = Counter([1] if has_rows else [])
    audited.append(orders([2]), Batch("q", 0))
    assert not audited.append(orders([2]), Batch("q", 0)), "a repeated batch is skipped"
    audited.append(orders([3]), Batch("q", 1))
    assert audited.compact()["removed"] == (3 if has_rows else 2)
    assert (ids(shown), ids(audited)) == (before, before + Counter([2, 3]))
    _, now_id = audited.publish(tag="monday")
    assert ids(shown) == before + Counter([2, 3])
    assert IcebergFiles(described(tmp_path)).latest() == now_id
    with pytest.raises(PipelineError, match="'monday' already"):
        audited.publish(tag="monday")
    audited.append(orders([4]), Batch("q", 2))
    assert ids(shown) == before + Counter([2, 3])
    later_ms = int(time.time() * 1000) + 60_000
    audited.expire(0, later_ms)
    audited.remove_orphans(0, later_ms)
    assert ids(audited) == before + Counter([2, 3, 4])
    assert Counter(shown.opened().scan().use_ref("monday").to_arrow()["id"].to_pylist()) == before + Counter([2, 3])


def test_a_branch_that_lacks_what_readers_have_seen_is_not_published(tmp_path):
    shown, audited = open_table(described(tmp_path)), open_table(described(tmp_path, branch="audit"))
    shown.append(orders([1]), Batch("before", 0))
    with pytest.raises(PipelineError, match="no branch 'audit' to publish"):
        audited.publish()
    audited.append(orders([2]), Batch("q", 0))
    shown.append(orders([3]), Batch("before", 1))
    with pytest.raises(PipelineError, match="is not part of the branch 'audit'"):
        audited.publish()
    assert ids(shown) == Counter([1, 3])


def test_changes_are_merged_on_a_branch(tmp_path):
    shown, audited = open_table(described(tmp_path)), open_table(described(tmp_path, branch="audit"))
    rule = KeyedChanges(("id",), "lsn")
    shown.merge(Rows([(1, "a", 1, False), (2, "b", 2, False)], CHANGES), Batch("before", 0), rule)
    audited.merge(Rows([(1, "A", 3, False), (2, None, 4, True)], CHANGES), Batch("q", 0), rule)
    names = {row["id"]: row["name"] for row in audited.read().to_pylist()}
    assert names == {1: "A"}
    truncated = CHANGES + ", _truncates boolean required"
    audited.merge(Rows([(None, None, 5, False, True)], truncated), Batch("q", 1), rule)
    assert audited.read().num_rows == 0
    assert {row["id"]: row["name"] for row in shown.read().to_pylist()} == {1: "a", 2: "b"}


def test_versions_are_kept_on_a_branch(tmp_path):
    shown, audited = open_table(described(tmp_path)), open_table(described(tmp_path, branch="audit"))
    rule = History(("id",), "lsn")
    shown.keep(Rows([(1, "a", 1, False)], CHANGES), Batch("before", 0), rule)
    audited.keep(Rows([(1, "b", 2, False)], CHANGES), Batch("q", 0), rule)
    assert sorted((row["name"], row["valid_to"]) for row in audited.read().to_pylist()) == [("a", 2), ("b", None)]
    assert [(row["name"], row["valid_to"]) for row in shown.read().to_pylist()] == [("a", None)]


def test_a_branch_must_be_another_than_what_readers_see(tmp_path):
    for name in ("main", ""):
        assert [text for text in lake_problems(described(tmp_path, branch=name)) if "branch=" in text]


def test_the_command_publishes_the_branch_of_a_pipeline(tmp_path, capsys):
    file = tmp_path / "orders.py"
    table = f"iceberg('shop.orders', warehouse={str(tmp_path / 'lake')!r}, branch='audit')"
    definition = "from tidelog.spark.pipeline import Pipeline, iceberg, topic\n"
    file.write_text(definition + f"pipeline = Pipeline('orders', source=topic('orders'), sink={table})\n")
    open_table(described(tmp_path, branch="audit")).append(orders([1]), Batch("q", 0))
    assert main(["pipeline", "publish", str(file), "--tag", "first"]) == 0
    assert "readers see snapshot" in capsys.readouterr().out
    assert ids(open_table(described(tmp_path))) == Counter([1])
    assert main(["pipeline", "publish", str(file)]) == 0
    assert "nothing that readers do not see" in capsys.readouterr().out
    file.write_text(file.read_text().replace(", branch='audit'", ""))
    assert main(["pipeline", "publish", str(file)]) == 1
    assert "writes to no branch" in capsys.readouterr().err
