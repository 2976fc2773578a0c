"""`spark.read.format("tidelog")` against a broker."""

import datetime as dt
import sys

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from tests.integration.spark.source_support import START_MS, make_topic, reading, send, values, wait_until
from tidelog.client import Admin, TopicPartition
from tidelog.client import Producer as TidelogProducer
from tidelog.spark.source.columns import full_schema

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def numbered(servers):
    """A hundred records in two partitions."""
    topic = make_topic(servers, partitions=2)
    for partition in (0, 1):
        send(servers, topic, range(partition, 100, 2), partition)
    return topic


def test_records_are_rows_with_headers(spark, servers):
    topic = make_topic(servers)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, b"v", b"k", headers=[("a", b"1"), ("a", None)], timestamp=START_MS)
    producer.produce(topic, None, b"k", timestamp=START_MS + 1)
    producer.flush()
    frame = reading(spark, servers, subscribe=topic, includeHeaders="true")
    assert frame.schema == full_schema({"includeHeaders": "true"})
    first, second = frame.orderBy("offset").collect()
    moment = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC).astimezone().replace(tzinfo=None)
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    assert first.timestamp == moment
    assert [(each.key, each.value and bytes(each.value)) for each in first.headers] == [("a", b"1"), ("a", None)]
    assert (second.value, second.headers) == (None, None)


def test_a_schema_chooses_columns_and_sql_can_read(spark, servers, numbered):
    chosen = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    frame = spark.read.format("tidelog").schema(chosen)
    frame = frame.option("kafka.bootstrap.servers", servers).option("subscribe", numbered).load()
    assert frame.columns == ["offset", "value"]
    assert frame.agg(F.sum(F.col("value").cast("string").cast("int"))).first()[0] == sum(range(100))
    given = f"`kafka.bootstrap.servers` '{servers}', subscribe '{numbered}'"
    spark.sql(f"CREATE TEMPORARY VIEW numbered USING tidelog OPTIONS ({given})")
    assert spark.sql("SELECT count(*) FROM numbered WHERE partition = 1").first()[0] == 50


def test_offsets_and_splits(spark, servers, numbered):
    frame = reading(
        spark,
        servers,
        assign=f'{{"{numbered}":[0,1]}}',
        startingOffsets=f'{{"{numbered}":{{"0":10,"1":-2}}}}',
        endingOffsets=f'{{"{numbered}":{{"0":20,"1":-1}}}}',
        minPartitions="6",
    )
    assert frame.rdd.getNumPartitions() == 6
    rows = frame.select("partition", "offset", "value").collect()
    assert sorted(row.offset for row in rows if row.partition == 0) == list(range(10, 20))
    assert sorted(row.offset for row in rows if row.partition == 1) == list(range(50))


@pytest.mark.long
def test_times(spark, servers, numbered):
    frame = reading(
        spark,
        servers,
        subscribe=numbered,
        startingTimestamp=str(START_MS + 40_000),
        endingTimestamp=str(START_MS + 50_000),
    )
    assert sorted(values(frame.collect())) == list(range(40, 50))


def test_aborted_transactions_are_hidden_and_open_ones_end_the_batch(spark, servers):
    topic = make_topic(servers)
    with TidelogProducer(bootstrap_servers=servers, transactional_id=f"writer-of-{topic}") as producer:
        producer.init_transactions()
        for number, ends in enumerate((producer.commit, producer.abort, None)):
            producer.begin()
            for each in range(10):
                producer.send(topic, b"%d" % (number * 10 + each)).result(20)
            if ends is not None:
                ends()
        committed = reading(spark, servers, subscribe=topic, kafka__isolation__level="read_committed")
        assert sorted(values(committed.collect())) == list(range(10))
        everything = reading(spark, servers, subscribe=topic)
        assert sorted(values(everything.collect())) == list(range(30))
        producer.abort()


@pytest.mark.long
def test_gaps_of_compaction_are_no_loss(spark, servers):
    topic = make_topic(servers, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    send(servers, topic, range(300), key=lambda number: b"k%d" % (number % 7))
    with Admin(bootstrap_servers=servers) as admin:
        admin.compact_topic(topic)
        wait_until(lambda: all(each.is_over for each in admin.compact_topic(topic, only_status=True)), "compaction")
    rows = reading(spark, servers, subscribe=topic, maxRecordsPerPartition="50").collect()
    latest = {bytes(row.key): int(row.value) for row in sorted(rows, key=lambda row: row.offset)}
    assert latest == {b"k%d" % (number % 7): number for number in range(293, 300)}
    assert len(rows) < 300


def test_lost_offsets_are_an_error_or_skipped(spark, servers):
    topic = make_topic(servers)
    send(servers, topic, range(20))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":5}}}}'}
    with pytest.raises(PySparkException, match=f"10 offsets are lost in {topic}-0: offsets 5 to 14; they were deleted"):
        reading(spark, servers, **options).collect()
    assert sorted(values(reading(spark, servers, failOnDataLoss="false", **options).collect())) == list(range(15, 20))


def test_a_limit_ends_tasks_early_and_the_next_query_is_not_confused(spark, servers):
    """The answer that was on its way must not be taken for that to the next question."""
    topic = make_topic(servers)
    send(servers, topic, range(20_000))
    frame = reading(spark, servers, subscribe=topic, kafka__max__partition__fetch__bytes="20000")
    assert len(frame.limit(5).collect()) == 5
    assert frame.count() == 20_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "no-such-topic"}, "the cluster has no topic 'no-such-topic'"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "'startingOffsets' is latest"),
        ({"subscribe": "t", "kafka__security__protocol": "SSH"}, "security.protocol"),
    ],
)
def test_mistakes_are_explained(spark, servers, options, said):
    with pytest.raises(PySparkException, match=said):
        reading(spark, servers, **options).collect()


def test_workers_run_the_python_that_started_the_session(spark):
    """Spark takes `python3` from the PATH by default, and that one need not have Arrow."""
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first() == sys.executable


def test_an_empty_topic_has_no_rows(spark, servers):
    assert reading(spark, servers, subscribe=make_topic(servers, partitions=2)).count() == 0


@pytest.mark.long
def test_a_frame_reads_the_same_offsets_each_time_and_loading_again_sees_more(spark, servers):
    """Spark plans a Python source once for each `load()`; its own connector looks for the end with every action."""
    topic = make_topic(servers)
    send(servers, topic, range(3), 0)
    frame = reading(spark, servers, subscribe=topic)
    assert frame.count() == 3
    send(servers, topic, range(3, 5), 0)
    assert frame.count() == 3
    assert reading(spark, servers, subscribe=topic).count() == 5
