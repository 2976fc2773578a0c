"""`spark.readStream.format("tidelog")` against a broker."""

import json

import pytest
from pyspark.errors import StreamingQueryException

from tests.integration.spark.source_support import Collected, make_topic, send, streaming, wait_until
from tidelog.client import Admin, NewPartitions, TopicPartition
from tidelog.client import Producer as TidelogProducer
from tidelog.testing import Broker

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


def test_available_now_reads_in_limited_batches_and_shows_its_offsets(spark, servers, tmp_path):
    topic = make_topic(servers, partitions=2)
    send(servers, topic, range(80), 0)
    send(servers, topic, range(80, 100), 1)
    collected = Collected()
    stream = streaming(
        spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50", commitGroupId="watched"
    )
    query = collected.run(stream, tmp_path)
    assert {batch: len(rows) for batch, rows in collected.batches.items()} == {0: 50, 1: 50}
    assert collected.all == list(range(100))
    last = [each.sources[0] for each in query.recentProgress if each.numInputRows][-1]
    end = {name: offsets for name, offsets in json.loads(last.endOffset).items() if not name.startswith("$")}
    assert end == json.loads(last.latestOffset) == {topic: {"0": 80, "1": 20}}
    with Admin(bootstrap_servers=servers) as admin:
        committed = admin.list_consumer_group_offsets("watched")
    # Spark reports a batch when the next one is planned, and so never the last.
    assert {each: found.offset for each, found in committed.items()} == {
        TopicPartition(topic, 0): 40,
        TopicPartition(topic, 1): 10,
    }


def test_a_restart_goes_on_with_new_records_partitions_and_topics(spark, servers, tmp_path):
    first = make_topic(servers, prefix="matched")
    send(servers, first, range(10))
    options = {"subscribePattern": "^matched-.*", "startingOffsets": "earliest"}
    collected = Collected()
    collected.run(streaming(spark, servers, **options), tmp_path)
    assert collected.all == list(range(10))
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions({first: NewPartitions(2)})
    send(servers, first, range(10, 12), 1)
    send(servers, make_topic(servers, prefix="matched"), range(12, 15))
    again = Collected()
    again.run(streaming(spark, servers, **options), tmp_path)
    assert again.all == list(range(10, 15))
    nothing = Collected()
    nothing.run(streaming(spark, servers, **options), tmp_path)
    assert nothing.batches == {}


@pytest.mark.long
def test_a_first_batch_that_failed_is_repeated_from_where_the_query_began(spark, servers, tmp_path):
    """Spark keeps no initial offset. "latest" has moved on when it asks again, and records would be passed over."""
    topic = make_topic(servers)
    send(servers, topic, range(100))
    options = {"subscribe": topic, "startingOffsets": "latest"}
    failing = Collected()
    failing.failing_batch = 0
    query = failing.start(streaming(spark, servers, **options), tmp_path, processingTime="0 seconds")
    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.awaitTermination(60)
    send(servers, topic, range(100, 105))
    collected = Collected()
    collected.run(streaming(spark, servers, **options), tmp_path)
    assert collected.all == list(range(100, 105))


@pytest.mark.long
def test_an_idle_query_makes_no_batches_and_open_transactions_hold_it_back(spark, servers, tmp_path):
    topic = make_topic(servers)
    collected = Collected()
    stream = streaming(
        spark, servers, subscribe=topic, startingOffsets="earliest", kafka__isolation__level="read_committed"
    )
    with TidelogProducer(bootstrap_servers=servers, transactional_id=f"writer-of-{topic}") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(topic, b"1").result(20)
        query = collected.start(stream, tmp_path, processingTime="0 seconds")
        try:
            query.processAllAvailable()
            assert collected.all == []
            batches = len(collected.batches)
            query.processAllAvailable()
            assert len(collected.batches) == batches
            producer.commit()
            wait_until(lambda: collected.all == [1], "what was committed is read", query)
        finally:
            query.stop()


@pytest.mark.long
def test_lost_offsets_stop_a_stream_or_are_passed_over(spark, servers, tmp_path):
    topic = make_topic(servers)
    send(servers, topic, range(20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    collected = Collected()
    collected.run(streaming(spark, servers, **options), tmp_path)
    send(servers, topic, range(20, 40))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 35})
    with pytest.raises(StreamingQueryException, match=f"15 offsets are lost in {topic}-0: offsets 20 to 34; they"):
        collected.run(streaming(spark, servers, **options), tmp_path)
    collected.run(streaming(spark, servers, failOnDataLoss="false", **options), tmp_path)
    assert collected.all == [*range(20), *range(35, 40)]


def test_a_refused_option_is_what_the_error_says(spark, servers, tmp_path):
    """And not what Spark's runner stumbles over when a reader could not be made."""
    stream = streaming(spark, servers, subscribe="orders", endingOffsets="latest")
    with pytest.raises(StreamingQueryException) as caught:
        Collected().run(stream, tmp_path)
    said = str(caught.value).split("SQLSTATE")[0].strip().splitlines()
    assert said[-1].endswith("OptionError: option 'endingOffsets' cannot be set here: a stream has no end")
    assert "UnboundLocalError" not in str(caught.value)


@pytest.mark.long
def test_a_broker_that_restarts_is_waited_for(spark, tmp_path):
    with Broker(process=True) as broker:
        topic = make_topic(broker.bootstrap_servers)
        send(broker.bootstrap_servers, topic, range(10))
        collected = Collected()
        stream = streaming(spark, broker.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
        query = collected.start(stream, tmp_path, processingTime="0 seconds")
        try:
            wait_until(lambda: collected.all == list(range(10)), "the first records", query)
            broker.kill()
            broker.restart()
            send(broker.bootstrap_servers, topic, range(10, 20))
            wait_until(lambda: collected.all == list(range(20)), "records after the restart", query)
        finally:
            query.stop()
