"""What the writer sends, and what it makes of the answers."""

from contextlib import contextmanager

import pytest

from tests.unit.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ApiError, ConnectionLost
from tidelog.client.partitioner import partition_for_key
from tidelog.client.writer import RecordWriter
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.compression import Codec
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import MetadataRequest, ProduceRequest, ProduceResponse
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    TopicProduceResponse,
)


class Log:
    """Stores what is produced, answers with each scripted error first, and then with success."""

    def __init__(self, *errors, partitions=3, hang_up=False):
        self.errors = list(errors)
        self.batches = {}
        self.partitions = partitions
        self.hang_up = hang_up
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: self.broker.metadata("t", self.partitions),
                ProduceRequest: self.produce,
            }
        )

    def produce(self, request):
        if self.hang_up:
            return None
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        stored = self.batches.setdefault(data.index, [])
        base = sum(header.record_count for batch in stored for _, header in iterate_batches(batch))
        if error == ErrorCode.NONE:
            stored.append(bytes(data.records))
        reply = PartitionProduceResponse(index=data.index, error_code=error, base_offset=base)
        if error == ErrorCode.INVALID_RECORD:
            reply.record_errors = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[reply])])

    def values(self, partition):
        return [
            record.value
            for batch in self.batches.get(partition, [])
            for position, _ in iterate_batches(batch)
            for record in iterate_records(batch, position)
        ]


@contextmanager
def writing(log, **options):
    with log.broker, ClusterClient(log.broker.address) as cluster, RecordWriter(cluster, "t", **options) as writer:
        yield writer


def test_keys_go_where_kafka_puts_them_and_keep_their_order():
    log = Log()
    with writing(log, batch_bytes=200) as writer:
        for number in range(100):
            writer.add(b"%d" % number, b"key-%d" % (number % 5))
    assert writer.acknowledged == 100
    for key in range(5):
        partition = partition_for_key(b"key-%d" % key, 3)
        numbers = [int(value) for value in log.values(partition) if int(value) % 5 == key]
        assert numbers == list(range(key, 100, 5))


def test_records_without_key_fill_whole_batches():
    log = Log(partitions=2)
    with writing(log, batch_bytes=1000) as writer:
        for _ in range(100):
            writer.add(bytes(88))
    sizes = [
        header.record_count for batches in log.batches.values() for b in batches for _, header in iterate_batches(b)
    ]
    assert sorted(sizes) == [10] * 10
    assert len(log.batches) == 2


def test_headers_timestamps_nulls_and_codec_are_kept():
    log = Log()
    with writing(log, codec=Codec.GZIP) as writer:
        writer.add(None, None, [("h", b"1"), ("n", None)], timestamp_ms=42, partition=1)
    (batch,) = log.batches[1]
    (record,) = iterate_records(batch)
    assert record[1:] == (42, None, None, (("h", b"1"), ("n", None)))
    assert next(iterate_batches(batch))[1].codec is Codec.GZIP
    assert writer.next_offsets == {1: 1}


def test_a_batch_refused_because_the_leader_moved_is_sent_again_in_its_place():
    log = Log(ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, partitions=1)
    with writing(log, batch_bytes=1) as writer:
        for number in range(5):
            writer.add(b"%d" % number)
    assert log.values(0) == [b"0", b"1", b"2", b"3", b"4"]
    assert writer.acknowledged == 5


def test_a_final_refusal_tells_the_brokers_reason():
    log = Log(ErrorCode.INVALID_RECORD)
    with log.broker as broker, ClusterClient(broker.address) as cluster:
        writer = RecordWriter(cluster, "t")
        writer.add(b"x", partition=2)
        with pytest.raises(ApiError, match="t-2 refused 1 records: no key") as caught:
            writer.flush()
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_lost_connection_says_what_is_known_and_what_is_in_doubt():
    log = Log(hang_up=True)
    with log.broker as broker, ClusterClient(broker.address) as cluster:
        writer = RecordWriter(cluster, "t")
        for _ in range(3):
            writer.add(b"x", partition=0)
        with pytest.raises(ConnectionLost, match="0 records are acknowledged, 3 may be stored or not"):
            writer.flush()


def test_an_error_inside_the_block_sends_nothing_more():
    log = Log()
    with log.broker as broker, ClusterClient(broker.address) as cluster:
        writer = RecordWriter(cluster, "t")
        writer.add(b"x")
        writer.__exit__(KeyError, KeyError(), None)
        assert broker.requests(ProduceRequest) == []
