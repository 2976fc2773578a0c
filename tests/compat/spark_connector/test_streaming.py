"""Streams: where they begin, how much a micro-batch takes, where they go on, and what they do about lost records."""

import json
import time
from pathlib import Path

import pytest

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.connectors import Connector, Row, finish, offsets_in, rows_of
from tests.compat.spark_connector.topics import EPOCH_MS, delete_records, expected_rows, numbered, produce

PARTITIONS = 3
COUNT = 30


@pytest.fixture(scope="module")
def topic(servers: str, make_topic: MakeTopic) -> str:
    """Thirty records in three partitions, a second apart."""
    name = make_topic("stream", PARTITIONS)
    produce(servers, name, numbered(COUNT, PARTITIONS))
    return name


@pytest.fixture(scope="module")
def rows(topic: str) -> list[Row]:
    return expected_rows(topic, numbered(COUNT, PARTITIONS))


def test_available_now_takes_as_much_a_batch_as_allowed(
    connector: Connector, topic: str, rows: list[Row], tmp_path: Path
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 12}
    streamed = connector.stream(options, tmp_path)
    assert streamed.rows == rows
    assert streamed.sizes == [12, 12, 6]
    assert streamed.checkpoint == [{topic: dict.fromkeys("012", end)} for end in (4, 8, 10)]
    assert [end for _, end in streamed.progress if end][:3] == streamed.checkpoint


def test_a_stream_goes_on_from_its_checkpoint(
    connector: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """New records come once, the old ones not again; a partition that came meanwhile is read from its beginning."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = make_topic("goes-on", 2)
    produce(servers, topic, numbered(6, 2))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert len(connector.stream(options, tmp_path).rows) == 6
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    produce(servers, topic, numbered(6, 3, start=6))
    again = connector.stream({**options, "startingOffsets": "latest"}, tmp_path)
    assert [(row.partition, row.offset) for row in again.rows] == [(0, 3), (0, 4), (1, 3), (1, 4), (2, 0), (2, 1)]
    assert again.checkpoint == [{topic: {"0": 3, "1": 3}}, {topic: {"0": 5, "1": 5, "2": 2}}]
    assert connector.stream(options, tmp_path).rows == []


def test_a_stream_begins_at_a_time(connector: Connector, topic: str, rows: list[Row], tmp_path: Path) -> None:
    options = {"subscribe": topic, "startingTimestamp": EPOCH_MS + 20_000}
    assert connector.stream(options, tmp_path).rows == [
        row for row in rows if row.timestamp_us // 1000 >= EPOCH_MS + 20_000
    ]


def test_a_stream_begins_at_the_end_by_default(
    connector: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """What was there before the query began is not read; what comes later is, also by the next run."""
    topic = make_topic("latest", 1)
    produce(servers, topic, numbered(5))
    assert connector.stream({"subscribe": topic}, tmp_path).rows == []
    produce(servers, topic, numbered(5, start=5))
    assert [row.offset for row in connector.stream({"subscribe": topic}, tmp_path).rows] == [5, 6, 7, 8, 9]


def test_a_stream_that_runs_takes_what_comes(
    connector: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Without AvailableNow, with two topics by one pattern."""
    topics = [make_topic(f"runs-{connector.name}", 1) for _ in range(2)]
    name = f"runs_{connector.name}"
    frame = connector.stream_frame({"subscribePattern": f"runs-{connector.name}.*", "startingOffsets": "earliest"})
    query = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path)).start()
    try:
        for start in (0, 3):
            for topic in topics:
                produce(servers, topic, numbered(3, start=start))
            _wait_for_rows(connector, name, 2 * (start + 3))
    finally:
        query.stop()
    read = rows_of(connector.spark.table(name))
    assert read == sorted(row for topic in topics for row in expected_rows(topic, numbered(6)))


def _wait_for_rows(connector: Connector, table: str, count: int) -> None:
    deadline = time.monotonic() + 30
    while connector.spark.table(table).count() < count:
        assert time.monotonic() < deadline, f"{table} has fewer than {count} rows"
        time.sleep(0.05)


@pytest.mark.parametrize("is_fatal", [True, False], ids=["fatal", "passed over"])
def test_records_deleted_before_they_were_read_are_data_loss(
    connector: Connector, servers: str, make_topic: MakeTopic, tmp_path: Path, is_fatal: bool
) -> None:
    topic = make_topic("lost")
    produce(servers, topic, numbered(4))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": json.dumps(is_fatal)}
    assert len(connector.stream(options, tmp_path).rows) == 4
    produce(servers, topic, numbered(6, start=4))
    delete_records(servers, topic, 0, 7)
    if is_fatal:
        with pytest.raises(Exception, match=r"(?s)" + topic):
            connector.stream(options, tmp_path)
    else:
        assert [row.offset for row in connector.stream(options, tmp_path).rows] == [7, 8, 9]


def test_a_stream_of_more_tasks_reads_the_same(
    connector: Connector, topic: str, rows: list[Row], tmp_path: Path
) -> None:
    tasks: list[int] = []
    frame = connector.stream_frame({"subscribe": topic, "startingOffsets": "earliest", "minPartitions": 6})
    writer = frame.writeStream.foreachBatch(lambda batch, _: tasks.append(batch.rdd.getNumPartitions()))
    finish(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
    assert tasks == [6]
    assert offsets_in(tmp_path) == [{topic: dict.fromkeys("012", 10)}]
