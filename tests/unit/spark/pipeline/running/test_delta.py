"""Batches into a Delta table, with real tables and files and a stand-in for Spark's rows: no JVM."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.running import delta as delta_module
from tidelog.spark.pipeline.running.delta import append_batch

SCHEMA = StructType([StructField("id", LongType()), StructField("day", StringType())])


class Rows:
    """What `append_batch` uses of a DataFrame: two tasks, the second without rows."""

    def __init__(self, ids, day="2026-01-01", schema=SCHEMA):
        self.schema = schema
        self._batch = pa.RecordBatch.from_pydict({"id": list(ids), "day": [day] * len(ids)}) if ids else None

    def mapInArrow(self, function, _schema):
        batches = [] if self._batch is None else [self._batch]
        made = [*function(iter(batches)), *function(iter([]))]
        rows = [SimpleNamespace(**row) for each in made for row in each.to_pylist()]
        return SimpleNamespace(collect=lambda: rows)


def ids(table: Path) -> list[int]:
    return sorted(DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist())


def test_batches_add_up(tmp_path):
    assert append_batch(cast(Any, Rows([1, 2])), str(tmp_path), application="q", version=0)
    assert append_batch(cast(Any, Rows([3])), str(tmp_path), application="q", version=1)
    assert ids(tmp_path) == [1, 2, 3]
    assert DeltaTable(str(tmp_path)).transaction_version("q") == 1


def test_a_batch_that_is_there_is_passed_over(tmp_path):
    append_batch(cast(Any, Rows([1])), str(tmp_path), application="q", version=3)
    assert not append_batch(cast(Any, Rows([1])), str(tmp_path), application="q", version=3)
    assert not append_batch(cast(Any, Rows([1])), str(tmp_path), application="q", version=2)
    assert append_batch(cast(Any, Rows([2])), str(tmp_path), application="another", version=0)
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize("is_first", [True, False])
def test_files_without_a_commit_are_not_seen(tmp_path, monkeypatch, is_first):
    if not is_first:
        append_batch(cast(Any, Rows([1])), str(tmp_path), application="q", version=0)
    with monkeypatch.context() as crashing:
        crashing.setattr(delta_module, "commit_files", _die)
        with pytest.raises(OSError, match="went down"):
            append_batch(cast(Any, Rows([2])), str(tmp_path), application="q", version=1)
    assert len(list(tmp_path.rglob("*.parquet"))) == (1 if is_first else 2)
    append_batch(cast(Any, Rows([2])), str(tmp_path), application="q", version=1)
    assert ids(tmp_path) == ([2] if is_first else [1, 2])


def _die(*_arguments):
    raise OSError("the machine went down")


def test_an_empty_batch_is_remembered_too(tmp_path):
    assert append_batch(cast(Any, Rows([])), str(tmp_path), application="q", version=0)
    assert ids(tmp_path) == []
    assert not append_batch(cast(Any, Rows([])), str(tmp_path), application="q", version=0)


@pytest.mark.parametrize("day", ["2026-01-01", "a/b=c d%20", "", "..", None, "ümlaut"])
def test_rows_are_read_back_from_any_partition(tmp_path, day):
    append_batch(cast(Any, Rows([1, 2], day)), str(tmp_path), application="q", version=0, partition_by=["day"])
    append_batch(cast(Any, Rows([3], "other")), str(tmp_path), application="q", version=1, partition_by=["day"])
    found = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    # Delta has no empty text as the value of a partition: it means null.
    assert sorted((row["id"], row["day"]) for row in found) == [(1, day or None), (2, day or None), (3, "other")]
    assert all(path.is_relative_to(tmp_path) for path in tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.parent.glob("part-*"))


def test_other_columns_are_refused(tmp_path):
    append_batch(cast(Any, Rows([1])), str(tmp_path), application="q", version=0)
    wider = StructType([*SCHEMA.fields, StructField("extra", BooleanType())])
    with pytest.raises(PipelineError, match="column 'extra' as None, but the rows have it as"):
        append_batch(cast(Any, Rows([2], schema=wider)), str(tmp_path), application="q", version=1)
    assert ids(tmp_path) == [1]
