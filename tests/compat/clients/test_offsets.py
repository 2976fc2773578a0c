"""Offsets by time, first and last: ListOffsets in every version, and what clients make of it."""

from typing import Any

import pytest

from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import CODECS, Driver, Message
from tests.compat.clients.raw import RawConnection, produce
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
START_MS = 1_700_000_000_000


def list_offsets(
    broker: Broker, topic: str, timestamp: int, version: int = 9, **settings: Any
) -> ListOffsetsPartitionResponse:
    isolation_level = settings.pop("isolation_level", 0)
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **settings)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    with RawConnection(broker) as connection:
        (answer,) = connection.call(request, version, ListOffsetsResponse).topics
    (partition,) = answer.partitions
    return partition


def test_first_and_last_offsets(client: Driver, servers: str, topic: str) -> None:
    assert client.watermarks(servers, topic) == (0, 0)
    client.produce(servers, topic, numbered(7))
    assert client.watermarks(servers, topic) == (0, 7)


@pytest.mark.parametrize("codec", CODECS)
def test_a_time_is_found_inside_a_batch(client: Driver, codec: str, servers: str, topic: str) -> None:
    """Not the batch with the time counts but the record."""
    if not client.has_codec(codec):
        pytest.skip(f"{client.name} has no {codec} here")
    client.produce(servers, topic, numbered(100, timestamp=START_MS), codec=codec)
    client.produce(servers, topic, numbered(100, timestamp=START_MS + 1000), codec=codec)
    assert client.offset_for_time(servers, topic, 0) == 0
    assert client.offset_for_time(servers, topic, START_MS + 42) == 42
    assert client.offset_for_time(servers, topic, START_MS + 500) == 100
    assert client.offset_for_time(servers, topic, START_MS + 1099) == 199
    assert client.offset_for_time(servers, topic, START_MS + 1100) is None


def test_a_time_is_found_across_segments(client: Driver, servers: str, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"segment.bytes": 4096, "index.interval.bytes": 100})
    client.produce(servers, topic, numbered(400, timestamp=START_MS, size=100), batch_bytes=1000)
    for index in (0, 1, 137, 250, 399):
        assert client.offset_for_time(servers, topic, START_MS + index) == index


def test_times_that_do_not_count_up_find_the_first_at_or_after(client: Driver, servers: str, topic: str) -> None:
    times = [START_MS + 50, START_MS + 10, START_MS + 90, START_MS + 20]
    client.produce(servers, topic, [Message(b"v", timestamp=time) for time in times])
    assert client.offset_for_time(servers, topic, START_MS + 15) == 0
    assert client.offset_for_time(servers, topic, START_MS + 60) == 2


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_gives_first_and_last(version: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(5, timestamp=START_MS)))
    first = list_offsets(broker, topic, EARLIEST, version)
    last = list_offsets(broker, topic, LATEST, version)
    inside = list_offsets(broker, topic, START_MS + 3, version)
    assert (first.error_code, first.offset, first.timestamp) == (0, 0, -1)
    assert (last.error_code, last.offset, last.timestamp) == (0, 5, -1)
    assert (inside.error_code, inside.offset, inside.timestamp) == (0, 3, START_MS + 3)
    if version >= 4:
        assert (first.leader_epoch, last.leader_epoch, inside.leader_epoch) == (0, 0, 0)


def test_version_0_gives_a_list(broker: Broker, make_topic: MakeTopic) -> None:
    """Before offsets were indexed by time there were only the beginnings of segments, newest first."""
    topic = make_topic(**{"segment.bytes": 1024})
    with RawConnection(broker) as connection:
        for first in range(5):
            produce(connection, topic, batch(numbered(1, first=first, size=900)))
    assert list_offsets(broker, topic, LATEST, 0, max_num_offsets=1).old_style_offsets == [5]
    assert list_offsets(broker, topic, EARLIEST, 0, max_num_offsets=1).old_style_offsets == [0]
    assert list_offsets(broker, topic, LATEST, 0, max_num_offsets=100).old_style_offsets == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("version", [7, 8, 9])
def test_the_record_with_the_largest_time(version: int, broker: Broker, topic: str) -> None:
    """KIP-734. The largest time need not be the last."""
    times = (START_MS + 5, START_MS + 900, START_MS + 7)
    with RawConnection(broker) as connection:
        produce(connection, topic, batch([Message(b"v", timestamp=time) for time in times]))
        produce(connection, topic, batch([Message(b"v", timestamp=START_MS + 100)]))
    answer = list_offsets(broker, topic, MAX_TIMESTAMP, version)
    assert (answer.offset, answer.timestamp) == (1, START_MS + 900)


def test_of_records_stamped_on_arrival_the_first_has_the_largest_time(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"message.timestamp.type": "LogAppendTime"})
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(4)))
    assert list_offsets(broker, topic, MAX_TIMESTAMP).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (-6, 9)]
)
def test_a_question_that_a_version_does_not_know_is_unsupported(
    timestamp: int, version: int, broker: Broker, topic: str
) -> None:
    """Whatever else is wrong with it."""
    assert list_offsets(broker, topic, timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offsets(broker, "missing", timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_partition_has_no_largest_time(broker: Broker, topic: str) -> None:
    answer = list_offsets(broker, topic, MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


def test_tiers_that_do_not_exist(broker: Broker, topic: str) -> None:
    """Without tiered storage everything is local and nothing is tiered."""
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(5)))
    assert list_offsets(broker, topic, EARLIEST_LOCAL, 8).offset == 0
    assert list_offsets(broker, topic, LATEST_TIERED, 9).offset == -1


def test_read_committed_gives_the_last_stable_offset(broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        produce(connection, topic, batch(numbered(5)))
    assert list_offsets(broker, topic, LATEST, 9, isolation_level=1).offset == 5


def test_wrong_epochs_and_unknown_partitions_are_errors(broker: Broker, topic: str) -> None:
    assert list_offsets(broker, topic, LATEST, current_leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offsets(broker, "missing", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_named_twice_is_refused(broker: Broker, topic: str) -> None:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)] * 2
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    with RawConnection(broker) as connection:
        response = connection.call(request, 5, ListOffsetsResponse)
    codes = {partition.error_code for entry in response.topics for partition in entry.partitions}
    assert codes == {ErrorCode.INVALID_REQUEST}
