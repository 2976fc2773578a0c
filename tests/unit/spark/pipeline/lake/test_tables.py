"""Batches into Delta and Iceberg tables, with real tables and files and a stand-in for Spark's rows: no JVM."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyiceberg.catalog import load_catalog
from pyspark.sql.types import StringType, StructField, StructType

from tests.unit.spark.pipeline.lake.rows import KINDS, Rows
from tidelog.spark.pipeline import delta, iceberg
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake import delta as delta_module
from tidelog.spark.pipeline.lake import iceberg as iceberg_module
from tidelog.spark.pipeline.lake import tables
from tidelog.spark.pipeline.lake.batches import Batch, Committed, is_written
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.iceberg import transform_of

ORDERS = "id long, day string"
CHANGES = "id long, name string, lsn long, _deleted boolean required"
KIND: dict[str, Any] = {"delta": delta_module.DeltaLake, "iceberg": iceberg_module.IcebergTable}


@pytest.fixture(params=["delta", "iceberg"])
def kind(request):
    return request.param


def open_table(described) -> Any:
    return tables.open_table(described)


def endpoint(kind, tmp_path, **arguments):
    if kind == "delta":
        return delta(tmp_path / "table", **arguments)
    return iceberg("shop.orders", warehouse=tmp_path / "lake", **arguments)


def orders(ids, day="2026-01-01"):
    return Rows([(each, day) for each in ids], ORDERS)


def ids(table):
    return Counter(row["id"] for row in table.read().to_pylist())


def test_batches_add_up(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    assert table.append(orders([1, 2]), Batch("q", 0))
    assert table.append(orders([3]), Batch("q", 1, "00000000000002a"))
    assert ids(table) == Counter([1, 2, 3])
    assert table.committed("q") == Committed(1, "00000000000002a")
    assert table.committed("other") is None


def test_a_batch_that_is_there_is_skipped(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    table.append(orders([1]), Batch("q", 3, "a" * 15))
    assert not table.append(orders([1]), Batch("q", 3, "a" * 15))
    assert table.append(orders([2]), Batch("another", 0))
    assert ids(table) == Counter([1, 2])


def test_a_restored_checkpoint_is_refused(kind, tmp_path):
    """Its batch has another's number and other rows: skipping it would lose them."""
    table = open_table(endpoint(kind, tmp_path))
    table.append(orders([1]), Batch("q", 3, "a" * 15))
    for batch in (Batch("q", 3, "b" * 15), Batch("q", 2, "a" * 15)):
        with pytest.raises(PipelineError, match="restored or copied"):
            table.append(orders([2]), batch)
    assert ids(table) == Counter([1])


def test_files_without_a_commit_are_not_seen(kind, tmp_path, monkeypatch):
    table = open_table(endpoint(kind, tmp_path))
    table.append(orders([1]), Batch("q", 0))
    with monkeypatch.context() as crashing:
        crashing.setattr(KIND[kind], "_add", _die)
        with pytest.raises(OSError, match="went down"):
            table.append(orders([2]), Batch("q", 1))
    assert len([*tmp_path.rglob("*.parquet")]) == 2, "the data of both is there"
    assert ids(table) == Counter([1])
    assert table.append(orders([2]), Batch("q", 1))
    assert ids(table) == Counter([1, 2])


def _die(*_arguments):
    raise OSError("the machine went down")


def test_a_driver_that_was_taken_for_dead_adds_nothing(kind, tmp_path, monkeypatch):
    """It has written its files, and the new driver has committed the batch meanwhile."""
    slow, new = open_table(endpoint(kind, tmp_path)), open_table(endpoint(kind, tmp_path))
    slow.append(orders([1]), Batch("q", 0))
    add = KIND[kind]._add

    def overtaken(self, *arguments):
        monkeypatch.setattr(KIND[kind], "_add", add)
        assert new.append(orders([2]), Batch("q", 1))
        return add(self, *arguments)

    monkeypatch.setattr(KIND[kind], "_add", overtaken)
    assert not slow.append(orders([2]), Batch("q", 1))
    assert ids(slow) == Counter([1, 2])


def test_an_empty_batch_is_remembered(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    assert table.append(orders([]), Batch("q", 0))
    assert ids(table) == Counter()
    assert not table.append(orders([]), Batch("q", 0))


def test_other_columns_are_refused(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    table.append(orders([1]), Batch("q", 0))
    with pytest.raises(PipelineError, match=rf"no column 'extra'.* as boolean: set merge_schema=True on {kind}\(…\)"):
        table.append(Rows([(2, "d", True)], ORDERS + ", extra boolean"), Batch("q", 1))
    with pytest.raises(PipelineError, match="has column 'day' as string, but the rows do not have it: set merge_sch"):
        table.append(Rows([(2,)], "id long"), Batch("q", 1))
    assert ids(table) == Counter([1])


def test_new_columns_are_added_and_missing_ones_are_null(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path, merge_schema=True, partition_by=["day"]))
    table.append(Rows([(1, "d", {"x": 1}, [{"x": 1}])], "id long, day string, at point, path points"), Batch("q", 0))
    assert not table.append(Rows([(1,)], "extra long"), Batch("q", 0)), "a repeated batch adds nothing"
    grown = "path places, extra boolean, id int, day string, at place"
    path = [{"x": 2, "name": "n"}]
    assert table.append(Rows([(path, True, 2, "e", {"x": 2, "name": "n"})], grown), Batch("q", 1))
    assert table.append(Rows([(3, "d", [])], "id short, day string, path points"), Batch("q", 2))
    rows = {row.pop("id"): row for row in table.read().to_pylist()}
    assert rows == {
        1: {"day": "d", "at": {"x": 1, "name": None}, "path": [{"x": 1, "name": None}], "extra": None},
        2: {"day": "e", "at": {"x": 2, "name": "n"}, "path": path, "extra": True},
        3: {"day": "d", "at": None, "path": [], "extra": None},
    }
    assert table.read().column_names[:4] == ["id", "day", "at", "path"], "in the order of the table, new ones behind"
    assert table.compact()["removed"] == 2
    assert ids(table) == Counter([1, 2, 3])


@pytest.mark.parametrize(
    ("column", "was", "rows"), [("id", "bigint", "id string"), ("at.x", "bigint", "id long, at other")]
)
def test_a_type_that_does_not_fit_is_refused_with_both_types(kind, tmp_path, column, was, rows, monkeypatch):
    monkeypatch.setitem(KINDS, "other", StructType([StructField("x", StringType())]))
    table = open_table(endpoint(kind, tmp_path, merge_schema=True))
    table.append(Rows([(1, {"x": 1})], "id long, at point"), Batch("q", 0))
    refused = rf"has column '{column}' as {was}, but the rows have it as string: merge_schema adds columns and does"
    with pytest.raises(PipelineError, match=refused):
        table.append(Rows([(2, {"x": "2"}) if "at" in rows else ("2",)], rows), Batch("q", 1))
    assert ids(table) == Counter([1])


def test_types_are_widened_where_the_format_can(kind, tmp_path):
    """Rows of a narrower type are cast, always; a column gets a wider type in Iceberg, if it is asked for."""
    for merges in (False, True):
        table = open_table(endpoint(kind, tmp_path / str(merges), merge_schema=merges))
        table.append(Rows([(1, 0.5)], "id int, amount float"), Batch("q", 0))
        table.append(Rows([(2, 1.5)], "id short, amount float"), Batch("q", 1))
        wider = Rows([(2**40, 0.1)], "id long, amount double")
        if kind == "iceberg" and merges:
            table.append(wider, Batch("q", 2))
            assert {row["id"]: row["amount"] for row in table.read().to_pylist()} == {1: 0.5, 2: 1.5, 2**40: 0.1}
        else:
            with pytest.raises(PipelineError, match=r"column 'id' as int, but the rows have it as bigint"):
                table.append(wider, Batch("q", 2))
            assert ids(table) == Counter([1, 2])


def test_changes_of_rows_add_columns_too(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path, merge_schema=True))
    changes = KeyedChanges(("id",), "lsn")
    table.merge(Rows([(1, "a", 10, False), (2, "b", 11, False)], CHANGES), Batch("q", 0), changes)
    grown = "id long, name string, lsn long, city string, _deleted boolean"
    table.merge(Rows([(1, "A", 20, "Rome", False), (3, "c", 21, "Oslo", False)], grown), Batch("q", 1), changes)
    table.merge(Rows([(3, 30, False)], "id long, lsn long, _deleted boolean"), Batch("q", 2), changes)
    rows = {row["id"]: (row["name"], row["city"]) for row in table.read().to_pylist()}
    assert rows == {1: ("A", "Rome"), 2: ("b", None), 3: (None, None)}


def test_a_batch_is_appended_while_another_query_adds_columns(kind, tmp_path, monkeypatch):
    """Its files lack the column: their rows are null there."""
    slow, other = (open_table(endpoint(kind, tmp_path, merge_schema=True)) for _ in range(2))
    slow.append(orders([1]), Batch("q", 0))
    add = KIND[kind]._add

    def overtaken(self, *arguments):
        monkeypatch.setattr(KIND[kind], "_add", add)
        assert other.append(Rows([(9, "d", True)], ORDERS + ", extra boolean"), Batch("other", 0))
        return add(self, *arguments)

    monkeypatch.setattr(KIND[kind], "_add", overtaken)
    assert slow.append(orders([2]), Batch("q", 1))
    assert {row["id"]: row["extra"] for row in slow.read().to_pylist()} == {1: None, 2: None, 9: True}


@pytest.mark.parametrize("day", ["a/b=c d%20", "..", None])
def test_rows_are_read_back_from_any_partition(kind, tmp_path, day):
    table = open_table(endpoint(kind, tmp_path, partition_by=["day"]))
    table.append(orders([1, 2], day), Batch("q", 0))
    table.append(orders([3], "other"), Batch("q", 1))
    assert sorted((row["id"], row["day"]) for row in table.read().to_pylist()) == [(1, day), (2, day), (3, "other")]
    assert not [*tmp_path.parent.glob("part-*")]


def test_iceberg_partitions_by_transforms(tmp_path):
    table = open_table(endpoint("iceberg", tmp_path, partition_by=["bucket(4, id)", "truncate(4, day)"]))
    table.append(orders(range(8)), Batch("q", 0))
    assert ids(table) == Counter(range(8))
    assert len([*tmp_path.rglob("*.parquet")]) > 1
    assert transform_of("day(created)") == ("created", "day")
    assert transform_of("country") == ("country", "identity")


@pytest.mark.parametrize(("first", "later"), [((), ["day"]), (["day"], ()), (["day"], ["id"])])
def test_rows_go_into_the_partitions_that_the_table_was_created_with(kind, tmp_path, first, later):
    open_table(endpoint(kind, tmp_path, partition_by=first)).append(orders([1], "2026-01-01"), Batch("q", 0))
    table = open_table(endpoint(kind, tmp_path, partition_by=later))
    table.append(orders([2], "2026-01-02"), Batch("q", 1))
    assert {row["id"]: row["day"] for row in table.read().to_pylist()} == {1: "2026-01-01", 2: "2026-01-02"}


def test_a_partition_by_that_the_rows_do_not_have_is_refused(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path, partition_by=["dya"]))
    with pytest.raises(PipelineError, match=r"partition_by.*'dya'"):
        table.append(orders([1]), Batch("q", 0))


@pytest.mark.parametrize("keep_deleted", [None, "deleted"])
def test_the_last_change_of_a_key_wins(kind, tmp_path, keep_deleted):
    table = open_table(endpoint(kind, tmp_path))
    changes = KeyedChanges(("id",), "lsn", keep_deleted)
    schema = CHANGES.replace("_deleted", keep_deleted or "_deleted")

    def merge(number, *rows):
        return table.merge(Rows(rows, schema), Batch("q", number), changes)

    assert merge(0, (1, "a", 10, False), (2, "b", 11, False), (3, "c", 12, False))
    assert merge(1, (1, "A", 20, False), (2, None, 21, True), (4, None, 22, True))
    assert not merge(1, (1, "twice", 20, False)), "a batch that is repeated changes nothing"
    assert merge(2, (1, "late", 15, False), (3, "late", 12, True))
    rows = {row["id"]: row for row in table.read().to_pylist()}
    alive = {key: row["name"] for key, row in rows.items() if keep_deleted is None or not row[keep_deleted]}
    assert alive == {1: "A"}
    if keep_deleted is not None:
        assert merge(3, (2, "older than its deletion", 13, False))
        rows = {row["id"]: row for row in table.read().to_pylist()}
        assert rows[2][keep_deleted]


def test_changes_of_columns_with_structs_and_arrays_are_merged(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    changes = KeyedChanges(("id",), "lsn")
    schema = "id long, lsn long, home point, seen points, _deleted boolean required"

    def merge(number, *rows):
        return table.merge(Rows([(*row, False) for row in rows], schema), Batch("q", number), changes)

    merge(0, (1, 10, {"x": 1}, [{"x": 2}]), (2, 11, None, []))
    merge(1, (1, 20, {"x": 3}, []), (2, 5, {"x": 9}, [{"x": 9}]))
    rows = {row["id"]: (row["home"], row["seen"]) for row in table.read().to_pylist()}
    assert rows == {1: ({"x": 3}, []), 2: (None, [])}


def test_a_change_without_a_key_is_refused(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    with pytest.raises(PipelineError, match="no value in the column 'id'"):
        table.merge(Rows([(None, "a", 1, False)], CHANGES), Batch("q", 0), KeyedChanges(("id",), "lsn"))


def test_keys_of_several_columns(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path))
    changes = KeyedChanges(("id", "name"), "lsn")
    first = [(number % 3, f"n{number % 5}", number, False) for number in range(15)]
    table.merge(Rows(first, CHANGES), Batch("q", 0), changes)
    table.merge(Rows([(0, "n0", 100, True), (1, "n1", 101, False)], CHANGES), Batch("q", 1), changes)
    found = {(row["id"], row["name"]): row["lsn"] for row in table.read().to_pylist()}
    expected = {(one, name): lsn for one, name, lsn, _ in first} | {(1, "n1"): 101}
    del expected[0, "n0"]
    assert found == expected


def test_compaction_keeps_rows_and_batches(kind, tmp_path):
    table = open_table(endpoint(kind, tmp_path, partition_by=["day"]))
    for number in range(6):
        table.append(orders([number], f"day {number % 2}"), Batch("q", number))
    assert table.compact() == {"removed": 6, "added": 2}
    assert table.compact()["removed"] == 0
    assert ids(table) == Counter(range(6))
    assert not table.append(orders([5]), Batch("q", 5))
    assert table.append(orders([6]), Batch("q", 6))
    assert ids(table) == Counter(range(7))


def test_a_batch_is_appended_while_its_table_is_compacted(tmp_path, monkeypatch):
    """The commit of the compaction is repeated on top of the batch's."""
    table, live = (open_table(endpoint("iceberg", tmp_path)) for _ in range(2))
    for number in range(3):
        table.append(orders([number]), Batch("q", number))
    replace = iceberg_module.IcebergTable._replace

    def overtaken(self, old, new):
        monkeypatch.setattr(iceberg_module.IcebergTable, "_replace", replace)
        assert live.append(orders([3]), Batch("q", 3))
        return replace(self, old, new)

    monkeypatch.setattr(iceberg_module.IcebergTable, "_replace", overtaken)
    assert table.compact() == {"removed": 3, "added": 1}
    assert ids(table) == Counter(range(4))


def test_what_a_table_has_decides_about_a_batch():
    assert not is_written(Batch("q", 0), None, "t")
    assert not is_written(Batch("q", 5), Committed(4), "t")
    assert is_written(Batch("q", 5, "a"), Committed(5, "a"), "t")
    assert is_written(Batch("q", 5), Committed(5, "a"), "t"), "an unknown plan is taken for the same"


def test_a_column_that_has_no_nulls_in_the_first_batch_may_have_them_later(kind, tmp_path):
    """Spark says so of constants and counters; the steps may change."""
    table = open_table(endpoint(kind, tmp_path))
    table.append(Rows([(1, "eu")], "id long, region string required"), Batch("q", 0))
    table.append(Rows([(2, None)], "id long, region string"), Batch("q", 1))
    assert {row["id"]: row["region"] for row in table.read().to_pylist()} == {1: "eu", 2: None}
    assert table.read().schema.field("region").nullable


def test_a_null_in_a_required_column_of_the_table_is_refused(kind, tmp_path):
    described = endpoint(kind, tmp_path)
    table = open_table(described)
    create_required(kind, described)
    table.append(Rows([(1, "eu", 10)], "id long, region string, lsn long"), Batch("q", 0))
    with pytest.raises(PipelineError, match=r"'region'.*NOT NULL.*1 of the rows.*fail_when\('region is null'"):
        table.append(Rows([(2, None, 11)], "id long, region string, lsn long"), Batch("q", 1))
    changes = "id long, region string, lsn long, _deleted boolean required"
    table.merge(Rows([(1, "us", 12, False)], changes), Batch("q", 2), KeyedChanges(("id",), "lsn"))
    assert table.read().to_pylist() == [{"id": 1, "region": "us", "lsn": 12}]


def create_required(kind, described):
    region = pa.field("region", pa.string(), nullable=False)
    columns = pa.schema([pa.field("id", pa.int64()), region, pa.field("lsn", pa.int64())])
    if kind == "delta":
        DeltaTable.create(described.path, Schema.from_arrow(columns))
        return
    catalog = load_catalog("default", **iceberg_module.catalog_properties(described))
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", columns)
