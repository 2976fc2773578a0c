"""Arrow in, Arrow out: what holds of tables through our clients, with Tidelog's broker and with Kafka's."""

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import Producer as ConfluentProducer

from tests.integration.client_support import SECONDS, make_topic, read_all, run, unique
from tidelog.client import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from tidelog.client.arrow.schema import SCHEMA
from tidelog.client.errors import RecordTooLarge, SerializationFailed
from tidelog.client.partitioner import partition_for_key


def _rows(count):
    return pa.table(
        {
            "key": pa.array([None if i % 7 == 0 else b"key-%d" % (i % 50) for i in range(count)], pa.binary()),
            "value": pa.array([None if i % 11 == 0 else b"value-%d" % i for i in range(count)], pa.binary()),
        }
    )


def _read_table(servers, topic, count, partitions=1, columns=None, **settings):
    """`count` records as one table, in order of partition and offset where these columns are there."""
    consumer = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **settings)
    with consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        tables: list[Any] = []
        while sum(table.num_rows for table in tables) < count:
            tables.append(consumer.poll_arrow(SECONDS, columns))
            assert tables[-1].num_rows, f"{sum(table.num_rows for table in tables)} of {count} came"
    whole = pa.concat_tables(tables)
    return whole.sort_by([("partition", "ascending"), ("offset", "ascending")]) if columns is None else whole


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_table_comes_back_as_it_was_sent(servers, codec):
    topic, table = make_topic(servers), _rows(5_000)
    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        sent = producer.send_arrow(table, topic=topic).result(SECONDS)
    assert sent.record_count == 5_000
    assert sent.offsets == {0: (0, 4_999)}
    read = _read_table(servers, topic, 5_000)
    assert read.schema == SCHEMA
    assert read.select(["key", "value"]).equals(table)
    assert read["offset"].to_pylist() == list(range(5_000))
    assert set(read["topic"].to_pylist()) == {topic}
    assert set(read["timestampType"].to_pylist()) == {0}
    age = dt.datetime.now(dt.UTC) - read["timestamp"][0].as_py()
    assert dt.timedelta(0) <= age < dt.timedelta(minutes=5)


def test_other_clients_read_what_was_sent_where_keys_belong(servers):
    topic, table = make_topic(servers, partitions=3), _rows(2_000)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_arrow(table, topic=topic).result(SECONDS)
    found = read_all(servers, topic, 3, expected=2_000)
    assert sorted(str(message.value()) for message in found) == sorted(map(str, table["value"].to_pylist()))
    for message in found:
        if message.key() is not None:
            assert message.partition() == partition_for_key(message.key(), 3)


def test_partition_time_and_headers_come_from_columns(servers):
    topic = make_topic(servers, partitions=2)
    when = dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
    headers = [[{"key": "trace", "value": b"1"}, {"key": "none", "value": None}], None]
    table = pa.table(
        {
            "id": ["a", "b"],
            "body": ["erste", "zweite"],
            "where": pa.array([1, 0], pa.int16()),
            "when": pa.array([when, None], pa.timestamp("us", tz="UTC")),
            "meta": pa.array(headers, SCHEMA.field("headers").type),
        }
    )
    with Producer(bootstrap_servers=servers) as producer:
        sent = producer.send_arrow(
            table, topic=topic, key="id", value="body", partition="where", timestamp="when", headers="meta"
        )
        assert sent.result(SECONDS).offsets == {0: (0, 0), 1: (0, 0)}
    read = _read_table(servers, topic, 2, partitions=2).to_pylist()
    assert [(row["partition"], row["key"], row["value"]) for row in read] == [(0, b"b", b"zweite"), (1, b"a", b"erste")]
    assert read[1]["timestamp"] == when
    assert read[0]["timestamp"] > when
    assert [row["headers"] for row in read] == [None, headers[0]]


def test_records_of_other_clients_are_read_with_all_they_have(servers):
    topic = make_topic(servers)
    producer = ConfluentProducer({"bootstrap.servers": servers, "log_level": 0, "compression.type": "lz4"})
    for index in range(300):
        producer.produce(topic, b"%d" % index, key=None, headers=[("n", b"%d" % index)], timestamp=1_700_000_000_000)
    producer.flush(SECONDS)
    read = _read_table(servers, topic, 300)
    assert read["value"].to_pylist() == [b"%d" % index for index in range(300)]
    assert read["headers"].to_pylist() == [[{"key": "n", "value": b"%d" % index}] for index in range(300)]
    assert {when.timestamp() for when in read["timestamp"].to_pylist()} == {1_700_000_000}


def test_only_the_columns_that_are_asked_for_come(servers):
    topic, table = make_topic(servers), _rows(100)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_arrow(table, topic=topic).result(SECONDS)
    read = _read_table(servers, topic, 100, columns=["offset", "value"])
    assert read.column_names == ["offset", "value"]
    assert read["value"].to_pylist() == table["value"].to_pylist()


def test_a_poll_for_a_column_that_does_not_exist_moves_nothing(servers):
    topic = make_topic(servers)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_arrow(_rows(10), topic=topic).result(SECONDS)
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        with pytest.raises(ValueError, match="no column 'vlaue'"):
            consumer.poll_arrow(SECONDS, ["vlaue"])
        assert consumer.position(partition) == 0
        assert consumer.poll_arrow(SECONDS).num_rows == 10


def test_read_committed_leaves_out_what_was_aborted(servers):
    topic = make_topic(servers)
    with Producer(bootstrap_servers=servers, transactional_id=unique("arrow")) as producer:
        producer.init_transactions()
        for name, ends in (("kept", producer.commit), ("dropped", producer.abort), ("kept too", producer.commit)):
            producer.begin()
            producer.send_arrow(pa.table({"value": [name] * 10}), topic=topic).result(SECONDS)
            ends()
    committed = _read_table(servers, topic, 20, isolation_level="read_committed")
    assert set(committed["value"].to_pylist()) == {b"kept", b"kept too"}
    assert _read_table(servers, topic, 30).num_rows == 30


def test_the_asyncio_clients_do_the_same(servers):
    topic, table = make_topic(servers, partitions=2), _rows(3_000)

    async def through():
        async with AsyncProducer(bootstrap_servers=servers, compression_type="zstd") as producer:
            sent = await (await producer.send_arrow(table.to_batches()[0], topic, partition=1))
        async with AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            tables: list[Any] = []
            while sum(each.num_rows for each in tables) < 3_000:
                tables.append(await consumer.poll_arrow(SECONDS))
                assert tables[-1].num_rows
        return sent, pa.concat_tables(tables)

    sent, read = run(through())
    assert sent.offsets == {1: (0, 2_999)}
    assert read.select(["key", "value"]).equals(table)


def test_a_large_table_goes_in_pieces_within_the_memory_of_the_producer(servers):
    topic = make_topic(servers, partitions=2)
    table = pa.table({"value": pa.array([b"x" * 1_000] * 40_000)})
    with Producer(bootstrap_servers=servers, buffer_memory=4 * 1024 * 1024) as producer:
        sent = producer.send_arrow(table, topic=topic).result(2 * SECONDS)
    assert sent.record_count == 40_000
    assert sum(last + 1 for _, last in sent.offsets.values()) == 40_000
    assert set(sent.offsets) == {0, 1}, "rows without key are spread over the partitions"


def test_a_row_that_can_never_be_sent_is_refused(servers):
    topic = make_topic(servers)
    with Producer(bootstrap_servers=servers) as producer, pytest.raises(RecordTooLarge):
        producer.send_arrow(pa.table({"value": [b"x" * 2_000_000]}), topic=topic)


def _frames():
    rows = {"key": ["alice", None], "value": ["3 apples", "1 pear"]}
    return {"pandas": pd.DataFrame(rows), "polars": pl.DataFrame(rows)}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_go_in_and_come_out(servers, library):
    topic, frame = make_topic(servers), _frames()[library]
    with Producer(bootstrap_servers=servers) as producer:
        assert producer.send_arrow(frame, topic).result(SECONDS).record_count == 2
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read = getattr(consumer, f"poll_{library}")(SECONDS, ["key", "value"], text=True)
    assert type(read) is type(frame)
    assert read.equals(frame)


def test_frames_go_in_and_come_out_under_asyncio(servers):
    topic = make_topic(servers)

    async def main():
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            await (await producer.send_arrow(_frames()["polars"], topic))
        async with AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            return await consumer.poll_polars(SECONDS, ["value"])

    assert run(main())["value"].to_list() == [b"3 apples", b"1 pear"]


def test_values_that_are_no_text_are_not_lost_when_text_is_asked_for(servers):
    topic = make_topic(servers)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"\xff\xfe").result(SECONDS)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(pa.ArrowInvalid):
            consumer.poll_pandas(SECONDS, text=True)
        assert consumer.poll_pandas(SECONDS)["value"].tolist() == [b"\xff\xfe"]


def test_what_is_no_table_is_refused_by_name(servers):
    with Producer(bootstrap_servers=servers) as producer, pytest.raises(SerializationFailed, match="not dict"):
        producer.send_arrow({"value": [b"a"]}, make_topic(servers))
