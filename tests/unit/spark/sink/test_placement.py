"""Rows are placed by their keys alone, for one topic or for several in one DataFrame."""

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from tidelog.client.partitioner import partition_for_key
from tidelog.spark.options import OptionError, Options
from tidelog.spark.sink import placement
from tidelog.spark.sink.settings import SinkSettings, read_batch_settings

COUNTS = {"a": 3, "b": 7}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> SinkSettings:
    monkeypatch.setattr(placement, "partition_count", lambda _, topic: COUNTS[topic])
    return read_batch_settings(Options({"kafka.bootstrap.servers": "localhost:9092"}))


def test_keys_go_where_kafka_sends_them(settings: SinkSettings) -> None:
    chosen = placement.choose_partitions(settings, pa.array(["x", "y", "z"]), "a")

    assert chosen.type == pa.int32()
    assert chosen.to_pylist() == [partition_for_key(key, 3) for key in (b"x", b"y", b"z")]


def test_rows_without_key_are_spread_over_all_partitions(settings: SinkSettings) -> None:
    chosen = placement.choose_partitions(settings, pa.nulls(10_000, pa.binary()), "b")

    assert set(chosen.to_pylist()) == set(range(7))


def test_each_topic_has_its_own_count(settings: SinkSettings) -> None:
    keys = pa.array([b"x", b"x", None, b"y"])
    topics = pa.array(["a", "b", None, "b"])

    assert placement.choose_partitions_by_topic(settings, keys, topics).to_pylist() == [
        partition_for_key(b"x", 3),
        partition_for_key(b"x", 7),
        None,
        partition_for_key(b"y", 7),
    ]


class NotHereError(AnalysisException):
    """What Declarative Pipelines answer to whoever asks a table for its columns."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def getCondition(self) -> str:
        return "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


class TableOfPipeline:
    """A DataFrame that must not be asked."""

    @property
    def columns(self) -> list[str]:
        raise NotHereError


def test_where_columns_cannot_be_asked_for_the_user_is_told_to_name_them() -> None:
    with pytest.raises(OptionError, match=r"name them, as columns=\['key', 'value'\]"):
        placement.place_rows(TableOfPipeline(), topic="a", bootstrap_servers="localhost:9092")  # type: ignore[arg-type]
