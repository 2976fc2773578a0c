"""Tables read as streams: every added row once, compactions passed over, changes refused."""

import pickle
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.unit.spark.pipeline.lake.rows import Rows
from tests.unit.spark.pipeline.lake.test_tables import CHANGES, endpoint, kind, open_table, orders  # noqa: F401
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.table_source import TableSource, _files, table_options

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def files_of(described) -> Any:
    return _files(table_options(described))


def ids(files, found):
    rows = [row for batch in files.read(found, SCHEMA) for row in batch.to_pylist()]
    assert all(row["day"].startswith("day ") for row in rows)
    return Counter(row["id"] for row in rows)


def test_a_table_is_read_from_its_first_row_on(kind, tmp_path):  # noqa: F811 - the fixture
    described = endpoint(kind, tmp_path, partition_by=["day"])
    table, files = open_table(described), files_of(described)
    with pytest.raises(PipelineError, match="does not exist"):
        files.latest()
    for number in range(3):
        table.append(orders([number], f"day {number % 2}"), Batch("q", number))
    first = files.latest()
    assert ids(files, files.added(None, first)) == Counter(range(3))
    table.append(orders([3, 4], "day 1"), Batch("q", 3))
    table.compact()
    table.append(orders([5], "day 0"), Batch("q", 4))
    second = files.latest()
    assert ids(files, files.added(first, second)) == Counter([3, 4, 5])
    assert files.added(second, second) == []
    assert ids(files, files.added(None, second)) == Counter(range(6))


def test_changed_rows_are_refused_with_the_reason(kind, tmp_path):  # noqa: F811 - the fixture
    described = endpoint(kind, tmp_path)
    table, files = open_table(described), files_of(described)
    changes = KeyedChanges(("id",), "lsn")
    table.merge(Rows([(1, "a", 1, False), (2, "b", 2, False)], CHANGES), Batch("q", 0), changes)
    first = files.latest()
    table.merge(Rows([(1, "c", 3, False)], CHANGES), Batch("q", 1), changes)
    with pytest.raises(PipelineError, match="removes or changes rows"):
        files.added(first, files.latest())


def test_the_source_goes_on_from_a_version(kind, tmp_path):  # noqa: F811 - the fixture
    """The reader alone, as Spark calls it: no JVM."""
    described = endpoint(kind, tmp_path)
    table = open_table(described)
    table.append(orders([1, 2], "day 1"), Batch("q", 0))
    source = TableSource(table_options(described))
    schema = source.schema()
    assert schema.simpleString() == "struct<id:bigint,day:string>"

    def batch(reader, start):
        end = reader.latestOffset(start, ReadAllAvailable())
        found = [each for part in reader.partitions(start, end) for each in reader.read(part)]
        return end, Counter(row["id"] for each in found for row in each.to_pylist())

    reader = source.streamReader(schema)
    end, found = batch(reader, reader.initialOffset())
    assert found == Counter([1, 2])
    table.append(orders([3], "day 1"), Batch("q", 1))
    bounded = source.streamReader(schema)
    bounded.prepareForTriggerAvailableNow()
    table.append(orders([4], "day 1"), Batch("q", 2))
    assert batch(bounded, end)[1] == Counter([3]), "AvailableNow reads what was there at its start"
    assert batch(pickle.loads(pickle.dumps(reader)), end)[1] == Counter([3, 4])
