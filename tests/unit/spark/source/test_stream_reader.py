"""Spark's names on the reader of streams."""

import inspect
import pickle

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tests.unit.spark.source.fakes import SERVERS
from tidelog.spark.options import OptionError
from tidelog.spark.source.batch_reader import BatchReader
from tidelog.spark.source.columns import full_schema
from tidelog.spark.source.stream_reader import StreamReader

SCHEMA = full_schema({})
OPTIONS = {**SERVERS, "subscribe": "t"}


def _reader(**options):
    return StreamReader(SCHEMA, {**OPTIONS, **options})


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"maxBytesPerTrigger": "5"}, ReadMaxBytes(5)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
    ],
)
def test_spark_gets_the_limit(options, limit):
    assert _reader(**options).getDefaultReadLimit() == limit


def test_spark_sees_admission_control_and_available_now():
    """It looks for parameters of `latestOffset`, and for the mixin; without them batches would be unlimited."""
    reader = _reader()
    assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]
    assert isinstance(reader, SupportsTriggerAvailableNow)


def test_a_reader_travels_to_tasks_without_its_connections():
    reader = _reader()
    assert reader._here.plan is reader._here.plan
    copy = pickle.loads(pickle.dumps(reader))
    assert copy._driver is None
    assert copy._settings == reader._settings


def test_making_and_stopping_a_reader_sends_nothing():
    """Spark makes several for each query."""
    reader = _reader()
    reader.stop()
    reader._here.plan.report()
    reader.stop()
    assert reader._driver is None


def test_filters_are_not_taken_because_spark_refuses_readers_that_take_them():
    """`pushFilters` may be overridden only while an internal setting is on; else every query fails."""
    assert BatchReader.pushFilters is DataSourceReader.pushFilters


def test_bad_options_are_refused_before_the_cluster_is_asked():
    with pytest.raises(OptionError):
        _reader(startingOffsets="x")
    with pytest.raises(OptionError):
        BatchReader(SCHEMA, {**OPTIONS, "startingOffsets": "latest"})
