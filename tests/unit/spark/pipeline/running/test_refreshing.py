"""A refreshed table is read again when it is due, and the old one leaves memory first."""

from typing import Any

from tidelog.spark.pipeline import Pipeline, parquet, refreshed, topic
from tidelog.spark.pipeline.running.refreshing import RefreshedTables, has_refreshed

TABLE = refreshed(parquet("/customers"), every="10s")


class Rows:
    """A DataFrame, as far as it is kept and released."""

    def __init__(self, log: list[str], number: int) -> None:
        self.log = log
        self.number = number

    def persist(self) -> "Rows":
        self.log.append(f"keep {self.number}")
        return self

    def unpersist(self, blocking: bool) -> None:
        self.log.append(f"release {self.number}")


def test_a_table_is_read_once_in_its_time() -> None:
    log: list[str] = []
    now_s = 100.0
    tables = RefreshedTables(lambda: now_s)

    def read() -> Any:
        log.append("read")
        return Rows(log, log.count("read"))

    first: Any = tables.get("customers", TABLE, read)
    now_s = 109.9
    assert tables.get("customers", TABLE, read) is first
    now_s = 110.0
    assert tables.get("customers", TABLE, read) is not first
    assert log == ["read", "keep 1", "release 1", "read", "keep 2"]


def test_a_pipeline_knows_whether_a_table_is_refreshed() -> None:
    plain = {"a": parquet("/a")}
    assert not has_refreshed(Pipeline("p", source=topic("a"), sink=topic("b"), tables=plain))
    assert has_refreshed(Pipeline("p", source=topic("a"), sink=topic("b"), tables={**plain, "b": TABLE}))
