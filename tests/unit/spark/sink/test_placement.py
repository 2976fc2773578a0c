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
    """What Declarative Pipelines answer when a table is asked for its columns."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def getCondition(self) -> str:
        return "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


class TableOfPipeline:
    """A DataFrame that must not be asked."""

    @property
    def columns(self) -> list[str]:
        raise NotHereError


def test_where_columns_cannot_be_asked_for_the_user_must_name_them() -> None:
    with pytest.raises(OptionError, match=r"name them: columns=\['key', 'value'\]"):
        placement.place_rows(TableOfPipeline(), topic="a", bootstrap_servers="localhost:9092")  # type: ignore[arg-type]


class FakeFrame:
    """As much of a DataFrame as says how many tasks it may have."""

    def __init__(self, master: str, cores: int, shuffle_partitions: int, *, streams: bool = True) -> None:
        self.sparkSession = self
        self.isStreaming = streams
        self._sc = self.conf = self
        self.master, self.defaultParallelism = master, cores
        self._shuffle_partitions = shuffle_partitions

    def get(self, name: str) -> str:
        assert name == "spark.sql.shuffle.partitions"
        return str(self._shuffle_partitions)


@pytest.mark.parametrize(
    ("frame", "partitions", "wanted", "tasks"),
    [
        (FakeFrame("local[2]", 2, 200), 12, None, 2),
        (FakeFrame("yarn", 2, 200), 12, None, 12),
        (FakeFrame("k8s://host", 2, 8), 12, None, 8),
        (FakeFrame("yarn", 2, 200), 12, 3, 3),
        (FakeFrame("yarn", 2, 200), None, None, 200),
        (FakeFrame("yarn", 2, 200, streams=False), 12, None, 2),
        (FakeFrame("yarn", 64, 200, streams=False), 12, None, 12),
        (FakeFrame("yarn", 64, 8, streams=False), 12, None, 8),
    ],
)
def test_on_a_cluster_batches_follow_the_executors_and_streams_the_shuffle(frame, partitions, wanted, tasks) -> None:
    """A query is often defined before its executors are there."""
    assert placement._task_count(frame, wanted, partitions) == tasks


def test_what_was_placed_is_known_as_such() -> None:
    frame = FakeFrame("local[2]", 2, 2)
    assert not placement.is_placed(frame)  # type: ignore[arg-type]
    assert placement.is_placed(placement.mark_placed(frame))  # type: ignore[arg-type]
