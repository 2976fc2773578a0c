"""How many partitions one request may name: all that a broker of 10,000 partitions has, and not much more."""

from __future__ import annotations

import pytest

from tidelog.wire import fetch as hot_fetch
from tidelog.wire import produce as hot_produce
from tidelog.wire.errors import WireError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS = 10_000


def fetch_partitions(version: int, topics: int, partitions: int) -> int:
    """How many partitions are read from a request that names so many."""
    named = [
        FetchTopic(
            topic=f"t{topic}",
            topic_id=topic.to_bytes(16, "big"),
            partitions=[
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
                for index in range(partitions // topics)
            ],
        )
        for topic in range(topics)
    ]
    body = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1, topics=named).encode(version)
    spans = hot_fetch.decode_request(body, 0, len(body), version)
    return sum(len(each) for _, each in spans.topics)


def produce_partitions(version: int, topics: int, partitions: int) -> int:
    named = [
        TopicProduceData(
            name=f"t{topic}",
            partition_data=[PartitionProduceData(index=index, records=b"") for index in range(partitions // topics)],
        )
        for topic in range(topics)
    ]
    body = bytearray(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1, topic_data=named).encode(version))
    return len(hot_produce.decode_request(body, 0, len(body), version).partitions)


@pytest.mark.parametrize("topics", [1, 100, 2_500])
@pytest.mark.parametrize("version", [4, 11, 17])
def test_a_client_or_a_follower_may_read_ten_thousand_partitions_at_once(version: int, topics: int) -> None:
    assert fetch_partitions(version, topics, PARTITIONS) == PARTITIONS


@pytest.mark.parametrize("topics", [1, 100, 1_000])
@pytest.mark.parametrize("version", [3, 8, 11])
def test_a_client_may_write_to_ten_thousand_partitions_at_once(version: int, topics: int) -> None:
    assert produce_partitions(version, topics, PARTITIONS) == PARTITIONS


@pytest.mark.parametrize("topics", [1, 10_000])
@pytest.mark.parametrize("read", [fetch_partitions, produce_partitions])
def test_a_request_for_twice_as_many_is_refused(read: object, topics: int) -> None:
    assert callable(read)
    with pytest.raises(WireError, match="more topics and partitions than allowed"):
        read(11, topics, 2 * PARTITIONS)
