"""Writing: which columns decide what, and that each row arrives once when nothing fails."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.connectors import Connector
from tests.compat.spark_connector.topics import consumed, numbered, produce
from tests.unit.present import present
from tidelog.client.partitioner import partition_for_key
from tidelog.testing import Broker


def _frame(connector: Connector, *columns: str, count: int = 12) -> DataFrame:
    return connector.spark.range(count).coalesce(1).selectExpr(*columns)


def test_keys_decide_the_partition_as_they_do_in_kafka(
    connector: Connector, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic("keys", 3)
    connector.write(_frame(connector, "'key ' || id as key", "'value ' || id as value"), {"topic": topic})
    rows = consumed(servers, topic, 3)
    assert sorted(present(row.value) for row in rows) == sorted(b"value %d" % number for number in range(12))
    assert all(row.partition == partition_for_key(row.key, 3) for row in rows if row.key)


def test_a_column_can_name_the_partition(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic("partitions", 3)
    frame = _frame(connector, "'same key' as key", "cast(id as string) as value", "cast(id % 3 as int) as partition")
    connector.write(frame.repartition(1), {"topic": topic})
    assert {int(row.value or b"") % 3 == row.partition for row in consumed(servers, topic, 3)} == {True}


def test_a_column_can_name_the_topic(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    """The option wins over the column."""
    first, second = make_topic("first"), make_topic("second")
    frame = _frame(connector, f"if(id < 4, '{first}', '{second}') as topic", "cast(id as string) as value")
    connector.write(frame, {})
    assert (len(consumed(servers, first, 1)), len(consumed(servers, second, 1))) == (4, 8)
    connector.write(frame, {"topic": first})
    assert (len(consumed(servers, first, 1)), len(consumed(servers, second, 1))) == (16, 8)


def test_headers_and_nulls_arrive(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic("nulls")
    headers = "array(named_struct('key', 'a', 'value', X'01'), named_struct('key', 'a', 'value', cast(null as binary)))"
    frame = _frame(
        connector,
        "if(id = 0, null, cast('k' as binary)) as key",
        "if(id = 1, null, X'00ff') as value",
        f"if(id = 2, null, {headers}) as headers",
        count=3,
    )
    connector.write(frame, {"topic": topic, "includeHeaders": "true"})
    rows = {(row.key, row.value, row.headers) for row in consumed(servers, topic, 1)}
    both = (("a", b"\x01"), ("a", None))
    assert rows == {(None, b"\x00\xff", both), (b"k", None, both), (b"k", b"\x00\xff", None)}


def test_producer_settings_are_passed_on(
    connector: Connector, broker: Broker, servers: str, make_topic: MakeTopic
) -> None:
    """A codec shows in the size of the log."""
    topic = make_topic("settings")
    frame = _frame(connector, "repeat('x', 1000) as value", count=50)
    connector.write(frame, {"topic": topic, "kafka.compression.type": "zstd", "kafka.acks": "1"})
    assert [row.value for row in consumed(servers, topic, 1)] == [b"x" * 1000] * 50
    (log,) = Path(broker.data_dir, f"{topic}-0").glob("*.log")
    assert log.stat().st_size < 5_000


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_is_written(
    connector: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path, mode: str
) -> None:
    """With the modes that both know; what is counted so far goes out again whole in complete mode."""
    origin, target = make_topic("origin", 2), make_topic("target", 1)
    produce(servers, origin, numbered(10, 2))
    options = {"subscribe": origin, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    frame = connector.stream_frame(options).selectExpr("key", "value")
    if mode == "complete":
        frame = frame.groupBy().count().selectExpr("cast(count as string) as value")
    connector.write_stream(frame.coalesce(1), {"topic": target}, tmp_path, mode)
    values = sorted(row.value or b"" for row in consumed(servers, target, 1, "read_committed"))
    assert values == (sorted(b"value %d" % n for n in range(10)) if mode == "append" else [b"10", b"6"])


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["1 as value"], {"topic": "t"}),
        (["'v' as other"], {"topic": "t"}),
        (["'v' as value"], {}),
        (["'v' as value", "cast(null as string) as topic"], {}),
        (["'v' as value", "7 as key"], {"topic": "t"}),
        (["'v' as value", "'0' as partition"], {"topic": "t"}),
        (["'v' as value", "'h' as headers"], {"topic": "t", "includeHeaders": "true"}),
        (["'v' as value"], {"topic": "t", "kafka.key.serializer": "x"}),
        (["'v' as value"], {"topic": "t", "kafka.value.serializer": "x"}),
    ],
    ids=["value type", "no value", "no topic", "null topic", "key type", "partition type", "headers type", "ks", "vs"],
)
def test_rows_that_cannot_be_sent_are_refused(
    connector: Connector, columns: list[str], options: dict[str, object]
) -> None:
    with pytest.raises(Exception, match=r"(?i)value|topic|key|partition|headers"):
        connector.write(_frame(connector, *columns, count=1), options)
