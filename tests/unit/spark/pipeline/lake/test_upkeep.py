"""Tables kept in order: what is no longer needed goes, what a reader, a branch or a running batch needs stays."""

import re
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.spark.pages import run_snippet
from tests.unit.spark.pipeline.lake.rows import Rows
from tests.unit.spark.pipeline.lake.test_tables import CHANGES, endpoint, ids, kind, open_table, orders  # noqa: F401
from tidelog.spark.pipeline import maintain
from tidelog.spark.pipeline.checks.lake import lake_problems
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.delta import statistics
from tidelog.spark.pipeline.lake.iceberg_upkeep import KnownSnapshot, expired, orphans
from tidelog.spark.pipeline.lake.tables import Upkeep, put_in_order

LONG_MS = 10_000_000_000
CHAIN = [KnownSnapshot(1, None, 10), KnownSnapshot(2, 1, 20), KnownSnapshot(3, 2, 30), KnownSnapshot(4, 3, 40)]


def test_old_snapshots_expire_but_not_the_heads_of_branches_and_tags():
    assert expired(CHAIN, [4], before_ms=35) == [1, 2, 3]
    assert expired(CHAIN, [4, 2], before_ms=35) == [1, 3]
    assert expired(CHAIN, [4], before_ms=100, keep_last=2) == [1, 2]
    assert expired(CHAIN[2:], [4], before_ms=100, keep_last=9) == []


def test_files_that_are_named_or_young_are_no_orphans():
    found = {"/t/data/a": 10, "/t/data/b": 10, "/t/data/c": 99, "bucket/t/data/d": 10}
    named = ["file:///t/data/a", "s3a://bucket/t/data/d"]
    assert orphans(found, named, before_ms=50) == ["/t/data/b"]


def test_what_nobody_needs_is_removed_and_rows_and_batches_stay(kind, tmp_path):  # noqa: F811 - the fixture
    table = open_table(endpoint(kind, tmp_path, partition_by=["day"]))
    for number in range(6):
        table.append(orders([number], f"day {number % 2}"), Batch("q", number))
    left = next(tmp_path.rglob("*.parquet")).with_name("left-by-a-dead-task.parquet")
    left.write_bytes(b"never committed")
    before = len([*tmp_path.rglob("*.parquet")])
    now_ms = int(time.time() * 1000)
    assert table.compact() == {"removed": 6, "added": 2}
    assert (table.expire(LONG_MS, now_ms), table.remove_orphans(LONG_MS, now_ms)) == (0, 0), "all is young"
    assert left.exists()
    later_ms = int(time.time() * 1000) + 60_000
    assert table.expire(0, later_ms) > 0
    assert table.remove_orphans(0, later_ms) > 0
    assert not left.exists()
    # A Delta table's checkpoints are Parquet files, too.
    assert len([each for each in tmp_path.rglob("*.parquet") if "_delta_log" not in str(each)]) == 2 < before
    assert ids(table) == Counter(range(6))
    assert not table.append(orders([5]), Batch("q", 5)), "the number of the last batch is still known"
    assert table.append(orders([6], "day 0"), Batch("q", 6))
    assert ids(table) == Counter(range(7))


def test_a_batch_that_has_written_its_files_can_still_commit_them(kind, tmp_path, monkeypatch):  # noqa: F811
    """They are named by no version yet, and young."""
    slow, keeper = (open_table(endpoint(kind, tmp_path)) for _ in range(2))
    slow.append(orders([1]), Batch("q", 0))
    add = type(slow)._add

    def kept_in_order(self, *arguments):
        now_ms = int(time.time() * 1000)
        keeper.compact()
        keeper.expire(3_600_000, now_ms)
        keeper.remove_orphans(3_600_000, now_ms)
        return add(self, *arguments)

    monkeypatch.setattr(type(slow), "_add", kept_in_order)
    assert slow.append(orders([2]), Batch("q", 1))
    assert ids(slow) == Counter([1, 2])


def test_a_reader_of_the_last_version_is_not_disturbed(tmp_path):
    described = endpoint("iceberg", tmp_path)
    table = open_table(described)
    for number in range(3):
        table.append(orders([number]), Batch("q", number))
    reading = table.opened().scan()
    planned = list(reading.plan_files())
    table.expire(0, int(time.time() * 1000) + 60_000)
    table.remove_orphans(0, int(time.time() * 1000) + 60_000)
    assert len(planned) == 3
    assert Counter(reading.to_arrow()["id"].to_pylist()) == Counter(range(3))


def test_the_rule_of_a_table_is_carried_out_on_a_thread_and_errors_stay_there(kind, tmp_path, caplog, monkeypatch):  # noqa: F811
    table = open_table(endpoint(kind, tmp_path))
    for number in range(4):
        table.append(orders([number]), Batch("q", number))
    upkeep = Upkeep(table, maintain(every="0s", target_mb=1, keep="1h", orphans_after="1h"))
    upkeep.start_if_due()
    assert upkeep._thread is not None
    upkeep._thread.join(60)
    assert len([each for each in tmp_path.rglob("*.parquet") if "_delta_log" not in str(each)]) == 5
    monkeypatch.setattr(table, "compact", None)
    again = Upkeep(table, maintain(every="0s"))
    again.start_if_due()
    assert again._thread is not None
    again._thread.join(60)
    assert "was not put in order" in caplog.text
    assert ids(table) == Counter(range(4))


def test_a_table_that_does_not_exist_yet_is_in_order(kind, tmp_path):  # noqa: F811 - the fixture
    done = put_in_order(open_table(endpoint(kind, tmp_path)), maintain(every="1h"), int(time.time() * 1000))
    assert set(done.values()) == {0}


def test_rows_of_files_are_sorted(kind, tmp_path):  # noqa: F811 - the fixture
    import pyarrow.parquet as pq

    described = endpoint(kind, tmp_path, sort_by="id", partition_by=["day"])
    table = open_table(described)
    table.append(orders([3, 1, 2], "a"), Batch("q", 0))
    table.append(orders([9, 7, 8], "b"), Batch("q", 1))
    files = [pq.read_table(each, partitioning=None)["id"].to_pylist() for each in tmp_path.rglob("*.parquet")]
    assert sorted(files) == [[1, 2, 3], [7, 8, 9]]
    with pytest.raises(PipelineError, match="sort_by has 'idd', but the rows have id, day"):
        open_table(endpoint(kind, tmp_path, sort_by="idd")).append(orders([1]), Batch("q", 2))


def test_readers_can_pass_files_of_a_delta_table_over(tmp_path):
    table = open_table(endpoint("delta", tmp_path))
    table.append(orders([1, 5], "a"), Batch("q", 0))
    table.append(Rows([(9, None)], "id long, day string"), Batch("q", 1))
    actions = pa.table(table.opened().get_add_actions(flatten=True)).to_pylist()
    found = {(each["min.id"], each["max.id"], each["min.day"], each["null_count.day"]) for each in actions}
    assert found == {(1, 5, "a", 0), (9, 9, None, 1)}
    long = pa.table({"text": ["x" * 33], "score": [0.5], "many": [[1]]})
    assert statistics(long) == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {"text": 0, "score": 0}}


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (maintain(every="1 fortnight"), "maintain(every=…)"),
        (maintain(every="1h", keep="10m"), "keep='10m') must be at least 1h"),
        (maintain(every="1h", orphans_after="x"), "maintain(orphans_after=…)"),
        (maintain(every="1h", target_mb=0), "target_mb=0"),
    ],
)
def test_mistakes_about_maintenance_are_found_before_the_start(kind, tmp_path, rule, problem):  # noqa: F811
    assert [text for text in lake_problems(endpoint(kind, tmp_path, maintain=rule)) if problem in text]
    both = endpoint(kind, tmp_path, maintain=maintain(every="1h"), compact_every="1h")
    assert [text for text in lake_problems(both) if "give one of the two" in text]
    assert not [*lake_problems(endpoint(kind, tmp_path, maintain=maintain(every="1h")))]


def test_a_merged_table_is_kept_in_order_as_well(kind, tmp_path):  # noqa: F811 - the fixture
    table, rule = open_table(endpoint(kind, tmp_path)), KeyedChanges(("id",), "lsn")
    for number in range(4):
        table.merge(Rows([(number % 2, f"n{number}", number, False)], CHANGES), Batch("q", number), rule)
    later_ms = int(time.time() * 1000) + 60_000
    table.compact()
    table.expire(0, later_ms)
    table.remove_orphans(0, later_ms)
    assert {row["id"]: row["name"] for row in table.read().to_pylist()} == {0: "n2", 1: "n3"}


def test_the_sinks_of_the_page_are_sound():
    page = Path(__file__).parents[5] / "docs" / "pipelines" / "maintenance.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    sinks = [run_snippet(each)["sink"] for each in blocks]
    assert len(sinks) == 2
    assert sinks[0].maintenance == maintain(every="1h")
    assert not [problem for each in sinks for problem in lake_problems(each)]
