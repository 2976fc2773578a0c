"""Well-formed requests that ask for far too much: the broker answers or closes, serves others, and keeps its memory.

The requests are those of `benchmarks.hostile`, which also measures how long others wait; no time is asserted here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pytest

from benchmarks.hostile.measuring import Memory, send
from benchmarks.hostile.rendering import Target
from benchmarks.hostile.requests import HostileRequest, generated, named
from tests.integration.raw_client import RawClient, batch_of, describe_topic, fetch_request, produce_request
from tests.integration.siege import CALM_TOPIC, Bystander
from tidelog.broker.handlers._answers import REPEATS_MAX
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    create_topics,
    incremental_alter_configs,
    join_group,
    list_offsets,
    offset_commit,
    offset_fetch,
)
from tidelog.wire.messages.metadata import MetadataRequest

VICTIM = "victim"
GROWN_BYTES_MAX = 100_000_000
SMALL_BYTES = 30_000
"""Above what is read at once, so that requests are read, carried out and answered in slices."""
ANSWER_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
    with Broker(config, process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        broker.create_topic(VICTIM, 1)
        yield broker


def attack(broker: Broker, requests: Iterable[HostileRequest]) -> None:
    """Send each request; nothing may be left without an answer, and a bystander is served all the while."""
    with RawClient(broker.port) as client:
        target = Target(VICTIM, describe_topic(client, VICTIM).topic_id)
    bystander = Bystander(broker.port)
    bystander.start()
    try:
        for request in requests:
            frame = request.render(target)
            memory = Memory(broker.pid)
            memory.begin()
            fate, _ = send(("127.0.0.1", broker.port), frame, ANSWER_SECONDS_MAX)
            grown = memory.end()
            assert fate in ("answered", "closed"), request.name
            assert grown < max(GROWN_BYTES_MAX, 4 * len(frame)), f"{request.name}: memory grew by {grown} bytes"
        bystander.check_progress()
    finally:
        bystander.stop()
    failures = broker.logs.count("Traceback")
    assert not failures, broker.logs[broker.logs.index("Traceback") :][:5000]


def newest(requests: Iterable[HostileRequest]) -> list[HostileRequest]:
    """Of each API the newest version."""
    found = list(requests)
    versions = {request.api: max(each.version for each in found if each.api == request.api) for request in found}
    return [request for request in found if request.version == versions[request.api]]


def test_many_elements_of_every_list(broker: Broker) -> None:
    """Every list of every API, filled with one element again and again, with distinct ones, and with empty ones."""
    words = (", the same", ", distinct", ", empty")
    attack(broker, [request for request in newest(generated(SMALL_BYTES)) if request.kind.endswith(words)])


def test_long_names_counts_without_elements_and_tags(broker: Broker) -> None:
    words = (", long", ", beyond", ", claimed", ", claimed tags", ", tags", ", one large tag")
    attack(broker, [request for request in newest(generated(SMALL_BYTES)) if request.kind.endswith(words)])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_version_and_the_largest_requests(broker: Broker) -> None:
    attack(broker, generated(versions="all"))
    attack(broker, named())


# --- single findings ---


def test_a_group_that_is_named_ten_thousand_times_is_answered_a_few_times(broker: Broker) -> None:
    """It took 35 seconds and 4.9 GB."""
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    with RawClient(broker.port) as client:
        client.call(messages.FindCoordinatorRequest(coordinator_keys=["g"]))
        commit_everything(client, "g")
        response = client.call(messages.OffsetFetchRequest(groups=[group] * 10_000), 8)
        assert [found.group_id for found in response.groups] == ["g"] * (1 + REPEATS_MAX)
        assert [topic.name for topic in response.groups[0].topics] == [VICTIM]


def commit_everything(client: RawClient, group_id: str) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topic = offset_commit.OffsetCommitRequestTopic(name=VICTIM, partitions=[partition])
    request = messages.OffsetCommitRequest(group_id=group_id, topics=[topic], retention_time_ms=2**63 - 1)
    response = client.call(request, 4)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_a_commit_of_many_partitions_is_answered_for_each(broker: Broker) -> None:
    """More than are committed in one step: results come in the order of the request."""
    partitions = [
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in range(1_700)
    ]
    topics = [
        offset_commit.OffsetCommitRequestTopic(name=name, partitions=partitions) for name in (VICTIM, "not-there")
    ]
    with RawClient(broker.port) as client:
        response = client.call(messages.OffsetCommitRequest(group_id="many", topics=topics), 9)
        assert [topic.name for topic in response.topics] == [VICTIM, "not-there"]
        for topic in response.topics:
            assert [partition.partition_index for partition in topic.partitions] == list(range(1_700))
        codes = [partition.error_code for partition in response.topics[0].partitions]
        assert codes == [ErrorCode.NONE] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1_699
        wanted = offset_fetch.OffsetFetchRequestTopic(name=VICTIM, partition_indexes=list(range(1_700)))
        found = client.call(messages.OffsetFetchRequest(group_id="many", topics=[wanted]), 7)
        assert [partition.committed_offset for partition in found.topics[0].partitions] == [7] + [-1] * 1_699


def test_errors_that_quote_long_values_leave_other_results_alone(broker: Broker) -> None:
    """The reply did not fit into its string, and the connection was closed."""
    settings = [incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="x" * 32_760)]
    good = [incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000")]
    resources = [
        incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=VICTIM, configs=settings),
        incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=CALM_TOPIC, configs=good),
    ]
    topic = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    topic.configs = [create_topics.CreatableTopicConfig(name="retention.ms", value="x" * 32_760)]
    with RawClient(broker.port) as client:
        request = messages.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
        codes = [response.error_code for response in client.call(request).responses]
        assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
        created = client.call(messages.CreateTopicsRequest(topics=[topic], validate_only=True)).topics[0]
        assert created.error_code == ErrorCode.INVALID_CONFIG
        assert len(created.error_message) < 2_000


def test_a_member_with_a_long_client_id_joins(broker: Broker) -> None:
    """Its member id, which begins with the client id, did not fit into the reply."""
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"m")
    request = messages.JoinGroupRequest(
        group_id="long", session_timeout_ms=6_000, rebalance_timeout_ms=1_000, protocol_type="consumer"
    )
    request.protocols = [protocol]
    with RawClient(broker.port, client_id="c" * 32_760) as client:
        response = client.call(request, 3)
        assert response.error_code == ErrorCode.NONE
        assert [member.member_id for member in response.members] == [response.member_id]


def test_a_produce_of_many_partitions_is_staged_in_steps_and_answered_whole(broker: Broker) -> None:
    """The request behind it on the same connection sees all of it."""
    count = 350
    broker.create_topic("wide", count)
    batches: dict[int, bytes | None] = {index: batch_of([b"value"]) for index in range(count)}
    batches[7] = None
    with RawClient(broker.port) as client:
        for version in (3, 8, 9, 11):
            client.send(produce_request("wide", batches), version)
            client.send(offsets_request("wide", count), 5)
            response = client.answer(messages.ProduceRequest, version)
            (topic,) = response.responses
            assert [partition.index for partition in topic.partition_responses] == list(range(count))
            codes = {partition.index: partition.error_code for partition in topic.partition_responses}
            assert codes == dict.fromkeys(range(count), ErrorCode.NONE) | {7: ErrorCode.INVALID_RECORD}
            base_offset = topic.partition_responses[0].base_offset
            ends = [each.offset for each in client.answer(messages.ListOffsetsRequest, 5).topics[0].partitions]
            assert ends == [0 if index == 7 else base_offset + 1 for index in range(count)]


def offsets_request(topic: str, count: int) -> messages.ListOffsetsRequest:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]
    return messages.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=partitions)]
    )


def test_a_produce_of_more_partitions_than_a_request_may_have_is_refused(broker: Broker) -> None:
    """A million empty partitions took 8 seconds and 860 MB. As many as a broker may have are answered."""
    batches: dict[int, bytes | None] = dict.fromkeys(range(10_000))
    for version in (7, 9):
        with RawClient(broker.port) as client:
            response = client.call(produce_request(VICTIM, batches), version)
            assert len(response.responses[0].partition_responses) == len(batches)
            client.send(produce_request(VICTIM, dict.fromkeys(range(20_000))), version)
            assert client.is_closed_by_peer()


def test_a_fetch_of_more_partitions_than_a_request_may_have_is_refused(broker: Broker) -> None:
    for version in (4, 11, 12):
        with RawClient(broker.port) as client:
            response = client.call(fetch_request(VICTIM, dict.fromkeys(range(10_000), 0)), version)
            assert len(response.responses[0].partitions) == 10_000
            client.send(fetch_request(VICTIM, dict.fromkeys(range(20_000), 0)), version)
            assert client.is_closed_by_peer()


def test_a_frame_that_is_too_large_for_its_api_is_refused_before_it_has_arrived(broker: Broker) -> None:
    """Ninety megabytes of names were received, and then refused."""
    header = struct.pack(">ihhih", 90_000_000, MetadataRequest.api_key, 12, 1, -1)
    with RawClient(broker.port) as client:
        client.socket.sendall(header + bytes(70_000))
        assert client.is_closed_by_peer()
    assert "it announced a request of 90000000 bytes, the limit of its API is 8388608" in broker.logs


def test_a_large_produce_is_read_whatever_its_size(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        response = client.call(produce_request(VICTIM, {0: batch_of([bytes(5_000_000)])}), 9)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
