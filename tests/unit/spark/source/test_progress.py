"""What is read out of Spark's progress reports."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.present import present
from tidelog.spark.source.progress import ProgressListener, lag_of, partition_offsets, read_progress


def report(batch_id=7, name="enrich", **more):
    return {
        "id": "id-1",
        "runId": "run-1",
        "name": name,
        "timestamp": "2026-11-15T12:00:00.250Z",
        "batchId": batch_id,
        "batchDuration": 120,
        "numInputRows": 300,
        "inputRowsPerSecond": 1500.0,
        "processedRowsPerSecond": 2500.0,
        "durationMs": {"triggerExecution": 119},
        "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100}, {"numRowsTotal": 6, "memoryUsedBytes": 50}],
        "sources": [{"endOffset": {"orders": {"0": 90, "1": 10}}, "latestOffset": {"orders": {"0": 100, "1": 10}}}],
        **more,
    }


def event(progress):
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress)))


def test_everything_a_view_shows_is_in_the_report():
    progress = read_progress(report())
    assert (progress.name, progress.batch_id, progress.input_rows, progress.batch_ms) == ("enrich", 7, 300, 120)
    assert (progress.input_rows_per_second, progress.processed_rows_per_second) == (1500.0, 2500.0)
    assert (progress.lag_records, progress.state_rows, progress.state_bytes) == (10, 11, 150)
    assert progress.timestamp_ms == 1_794_744_000_250


def test_a_query_without_name_goes_by_its_id():
    assert read_progress(report(name=None)).name == "id-1"


@pytest.mark.parametrize("rate", ["NaN", None, float("nan"), float("inf"), -1.0])
def test_rates_that_are_no_numbers_count_as_none(rate):
    progress = read_progress(report(inputRowsPerSecond=rate, processedRowsPerSecond=rate))
    assert (progress.input_rows_per_second, progress.processed_rows_per_second) == (0.0, 0.0)


def test_a_report_that_lacks_nearly_everything_is_read():
    progress = read_progress({"id": "id-1", "sources": None, "stateOperators": None, "durationMs": None})
    assert (progress.lag_records, progress.batch_ms, progress.timestamp_ms) == (None, 0, 0)


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": None}], None),
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": "null"}], None),
        ([{"endOffset": 17, "latestOffset": 20}], None),
        ([{"endOffset": None, "latestOffset": {"t": {"0": 5}}}], 5),
        ([{"endOffset": '{"t": {"0": 3}}', "latestOffset": '{"t": {"0": 5, "1": 4}}'}], 6),
        ([{"endOffset": {"t": {"0": 9}}, "latestOffset": {"t": {"0": 5}}}], 0),
        (
            [
                {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 2}}},
                {"endOffset": {"u": {"0": 1}}, "latestOffset": {"u": {"0": 4}}},
                {"endOffset": 1, "latestOffset": None},
            ],
            4,
        ),
    ],
)
def test_lag_is_what_is_there_and_not_read(sources, lag):
    assert lag_of(sources) == lag


def test_where_a_query_began_is_no_topic():
    """Our first offsets carry it, nested one deeper than offsets are."""
    assert partition_offsets({"$from": {"t": {"0": 1}}, "t": {"0": 5}}) == {("t", 0): 5}
    assert partition_offsets("no JSON") is None


def test_queries_are_found_by_name_and_by_id():
    seen: list[Any] = []
    listener = ProgressListener(seen.append)
    assert listener.latest("enrich") is None
    listener.onQueryProgress(event(report(1)))
    listener.onQueryProgress(event(report(2)))
    assert listener.latest("enrich") == listener.latest("id-1") == seen[-1]
    assert [each.batch_id for each in listener.history("enrich")] == [1, 2]


def test_a_name_stands_for_the_query_that_started_last():
    listener = ProgressListener()
    listener.onQueryProgress(event(report(1)))
    listener.onQueryStarted(cast(Any, SimpleNamespace(id="id-2", name="enrich")))
    assert listener.latest("enrich") is None
    assert present(listener.latest("id-1")).batch_id == 1


def test_history_is_bounded():
    listener = ProgressListener(history_max=3)
    for batch_id in range(10):
        listener.onQueryProgress(event(report(batch_id)))
    assert [each.batch_id for each in listener.history("enrich")] == [7, 8, 9]


def test_an_error_is_kept_until_the_query_starts_again():
    listener = ProgressListener()
    listener.onQueryStarted(cast(Any, SimpleNamespace(id="id-1", name="enrich")))
    listener.onQueryTerminated(cast(Any, SimpleNamespace(id="id-1", exception="boom")))
    assert listener.error("enrich") == "boom"
    listener.onQueryStarted(cast(Any, SimpleNamespace(id="id-1", name="enrich")))
    assert listener.error("enrich") is None
