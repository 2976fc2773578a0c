"""`write_each_batch` is a batch write under a name that stays the same over restarts of the query."""

from typing import Any

import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.sink.each_batch import write_each_batch
from tidelog.spark.sink.placement import mark_placed

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


class FakeRows:
    """A DataFrame of a query, as far as a write needs it; it notes with which options it is written."""

    def __init__(self, query_id: str | None, *, is_connect: bool = False) -> None:
        self.written: dict[str, str] = {}
        self.sparkSession = self if is_connect else FakeSession(query_id)
        self.write = self
        mark_placed(self)  # type: ignore[arg-type]

    def format(self, name: str) -> "FakeRows":
        assert name == "tidelog"
        return self

    def options(self, **options: str) -> "FakeRows":
        self.written = options
        return self

    def mode(self, name: str) -> "FakeRows":
        assert name == "append"
        return self

    def save(self) -> None:
        return None


class FakeSession:
    def __init__(self, query_id: str | None) -> None:
        self._query_id = query_id
        self._sc = self

    def getLocalProperty(self, name: str) -> str | None:
        return self._query_id if name == "sql.streaming.queryId" else None


def written(query_id: str | None = "q", *, is_connect: bool = False, **options: Any) -> dict[str, str]:
    rows = FakeRows(query_id, is_connect=is_connect)
    write_each_batch(**{**SERVERS, **options})(rows, 7)  # type: ignore[arg-type]
    return rows.written


def test_batches_are_written_exactly_once_unless_less_is_asked_for() -> None:
    assert written(topic="out")["delivery"] == "exactly-once"
    assert written(topic="out", delivery="at-least-once")["delivery"] == "at-least-once"


def test_the_name_is_of_the_query_and_the_topic() -> None:
    assert written(topic="out")["transactionalId"] == written(topic="out")["transactionalId"]
    assert written(topic="out")["transactionalId"] != written(topic="other")["transactionalId"]
    assert written("q", topic="out")["transactionalId"] != written("other", topic="out")["transactionalId"]
    assert written(topic="out", transactionalId="mine")["transactionalId"] == "mine"


def test_options_may_be_values() -> None:
    assert written(topic="out", includeHeaders=True)["includeHeaders"] == "true"


def test_outside_of_a_query_the_promise_is_not_given() -> None:
    """Without its id, a batch that is run again would not be recognised."""
    with pytest.raises(OptionError, match="outside of foreachBatch"):
        written(None, topic="out")
    with pytest.raises(OptionError, match="outside of foreachBatch"):
        written(None, topic="out", transactionalId="mine")

    assert written(None, topic="out", delivery="at-least-once")


def test_in_spark_connect_a_name_stands_for_the_query() -> None:
    with pytest.raises(OptionError, match=r"unknown in Spark Connect.*set transactionalId"):
        written(None, is_connect=True, topic="out")

    named = written(None, is_connect=True, topic="out", transactionalId="mine")
    assert (named["transactionalId"], named["batchNumber"]) == ("mine", "7")
    assert "batchNumber" not in written(None, is_connect=True, topic="out", delivery="at-least-once")


def test_the_cluster_is_asked_for_at_once() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        write_each_batch(topic="out")
