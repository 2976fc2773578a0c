"""`Cluster`: fetches without a position, and transactions that several clients share, against a broker."""

from collections.abc import Iterator

import pytest

from tests.unit.present import present
from tidelog.client import Producer, TopicPartition
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.cluster import Cluster, FetchLimits
from tidelog.client.errors import ApiError, BootstrapFailed, DeadlinePassed
from tidelog.records.batch import iterate_batches
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode

WHERE = TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders", partitions=2)
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=5_000) as connected:
        yield connected


def _send(broker: Broker, *values: bytes, partition: int = 0) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value, partition=partition)


def test_topics_that_are_not_there_are_left_out(cluster: Cluster) -> None:
    seen = cluster.look_at_topics(["orders", "no-such-topic"])
    assert list(seen.topics) == ["orders"]
    assert len(seen.topics["orders"].partitions) == 2
    assert seen.has_controller
    assert "orders" in cluster.look_at_topics().topics


def test_a_topic_that_does_not_exist_has_no_count(cluster: Cluster) -> None:
    assert cluster.partition_count("orders") == 2
    with pytest.raises(ApiError) as refused:
        cluster.partition_count("no-such-topic")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.partition_count("made-by-asking", may_create=True) > 0


def test_several_fetches_may_be_under_way(broker: Broker, cluster: Cluster) -> None:
    _send(broker, b"a")
    _send(broker, b"b")
    asked = [cluster.begin_fetch(WHERE, offset, FetchLimits(1_000_000)) for offset in (0, 1)]
    ends = [
        [header.next_offset for _, header in iterate_batches(memoryview(answer.result(10).records or b""))]
        for answer in asked
    ]
    assert ends == [[1, 2], [2]]


def test_a_fetch_raises_what_the_leader_answers(broker: Broker, cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        cluster.begin_fetch(WHERE, 77, FetchLimits(1_000_000)).result(10)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(ApiError) as refused:
        cluster.begin_fetch(TopicPartition("orders", 9), 0, FetchLimits(1_000_000)).result(10)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_are_read_between_offsets_and_without_what_was_aborted(broker: Broker, cluster: Cluster) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin()
            producer.send("orders", b"%d" % number, partition=number % 2)
            if number in (2, 3):
                producer.flush()
                producer.abort()
            else:
                producer.commit()
    ends = {
        where: place.offset
        for where, place in cluster.list_offsets({TopicPartition("orders", each): LATEST for each in (0, 1)}).items()
    }
    found = list(cluster.read(dict.fromkeys(ends, 0), ends, read_committed=True))
    assert sorted((record.partition, record.value) for record in found) == [(0, b"0"), (0, b"4"), (1, b"1"), (1, b"5")]
    everything = list(cluster.read(dict.fromkeys(ends, 0), ends))
    assert len(everything) == 6
    first = list(cluster.read(dict.fromkeys(ends, 0), dict.fromkeys(ends, 1)))
    assert sorted(present(record.value) for record in first) == [b"0", b"1"]


def test_a_read_that_nothing_ends_is_given_up(broker: Broker) -> None:
    _send(broker, b"a")
    with (
        Cluster(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=1_500) as impatient,
        pytest.raises(DeadlinePassed, match="orders-0: no records from offset 1 on, before the end 5"),
    ):
        list(impatient.read({WHERE: 0}, {WHERE: 5}))


def test_a_transaction_is_begun_filled_and_ended_by_three_clients(broker: Broker, cluster: Cluster) -> None:
    servers = broker.bootstrap_servers
    handle = cluster.begin_transaction("shared", 60_000)
    with Cluster(bootstrap_servers=servers) as task, Producer(bootstrap_servers=servers, joining=handle) as producer:
        task.add_to_transaction(handle, [WHERE])
        producer.send("orders", b"shared", partition=0)
    with Cluster(bootstrap_servers=servers) as driver:
        assert driver.partitions_in_transaction(handle) == {WHERE}
        driver.end_transaction(handle, is_commit=True)
    assert [record.value for record in cluster.read({WHERE: 0}, {WHERE: 2}, read_committed=True)] == [b"shared"]


def test_fencing_ends_a_transaction_and_leaves_its_successor_alone(broker: Broker, cluster: Cluster) -> None:
    first = cluster.begin_transaction("shared", 60_000)
    cluster.add_to_transaction(first, [WHERE])
    cluster.fence_transaction(first, 60_000)
    with pytest.raises(ApiError):
        cluster.add_to_transaction(first, [WHERE])

    second = cluster.begin_transaction("shared", 60_000)
    cluster.add_to_transaction(second, [WHERE])
    cluster.fence_transaction(first, 60_000)
    assert cluster.partitions_in_transaction(second) == {WHERE}
    with pytest.raises(ApiError) as refused:
        cluster.partitions_in_transaction(first)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_a_dead_address_fails_at_once() -> None:
    with pytest.raises(BootstrapFailed):
        Cluster(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=50)
