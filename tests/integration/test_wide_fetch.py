"""Fetches of more partitions than are read in one step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    fetch_request,
    offset_for_timestamp,
    produce,
    produce_request,
)
from tests.integration.writers import wait_until
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.replication.wide_fetch import PARTITIONS_AT_ONCE
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic

TOPIC = "wide"
COUNT = 2 * PARTITIONS_AT_ONCE + 50
VERSIONS = (3, 4, 9, 11, 12)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    directory: Path = tmp_path_factory.mktemp("wide")
    with Inside(directory) as inside, RawClient(inside.port) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=COUNT, replication_factor=1)
        response = client.call(messages.CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert response.topics[0].error_code == ErrorCode.NONE
        yield inside


@pytest.fixture
def client(inside: Inside) -> Iterator[RawClient]:
    with RawClient(inside.port) as client:
        yield client


def ends(inside: Inside) -> dict[int, int]:
    return inside.on_loop(
        lambda: {
            index: inside.node.replica_manager.partition(TOPIC, index).log.log_end_offset for index in range(COUNT)
        }
    )


def waiting(inside: Inside) -> int:
    return inside.on_loop(lambda: len(inside.node.replica_manager.wide_fetches))


def values_in(partition: Any) -> list[bytes]:
    data = bytes(partition.records or b"")
    return [bytes(r.value or b"") for position, _ in iterate_batches(data) for r in iterate_records(data, position)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_partition_is_answered_in_its_place(inside: Inside, client: RawClient, version: int) -> None:
    before = ends(inside)
    changed = (0, PARTITIONS_AT_ONCE, COUNT - 1)
    for index in changed:
        produce(client, TOPIC, index, batch_of([b"value-%d" % index]))
    response = client.call(fetch_request(TOPIC, before), version)
    (topic,) = response.responses
    assert [partition.partition_index for partition in topic.partitions] == list(range(COUNT))
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.NONE}
    found = {partition.partition_index for partition in topic.partitions if partition.records}
    assert found == set(changed)
    if version >= 4:
        assert values_in(topic.partitions[-1]) == [b"value-%d" % (COUNT - 1)]
    assert waiting(inside) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_that_waits_is_answered_by_an_append_to_any_partition(
    inside: Inside, client: RawClient, version: int
) -> None:
    client.send(fetch_request(TOPIC, ends(inside), max_wait_ms=60_000), version)
    wait_until(lambda: waiting(inside) == 1, "the fetch waits")
    with RawClient(inside.port) as other:
        produce(other, TOPIC, PARTITIONS_AT_ONCE + 7, batch_of([b"late"]))
    (topic,) = client.answer(messages.FetchRequest, version).responses
    assert [each.partition_index for each in topic.partitions if each.records] == [PARTITIONS_AT_ONCE + 7]
    assert waiting(inside) == 0


def test_a_fetch_that_waits_is_answered_in_time(inside: Inside, client: RawClient) -> None:
    response = client.call(fetch_request(TOPIC, ends(inside), max_wait_ms=20), 12)
    assert not any(partition.records for partition in response.responses[0].partitions)


def test_requests_behind_a_fetch_that_waits_take_effect(inside: Inside, client: RawClient) -> None:
    """Their answers come behind its own, which they bring about."""
    offsets = ends(inside)
    client.send(fetch_request(TOPIC, offsets, max_wait_ms=60_000), 12)
    client.send(produce_request(TOPIC, {3: batch_of([b"behind"])}), 9)
    (topic,) = client.answer(messages.FetchRequest, 12).responses
    client.answer(messages.ProduceRequest, 9)
    assert values_in(topic.partitions[3]) == [b"behind"]
    assert offset_for_timestamp(client, TOPIC, 3, -1) == offsets[3] + 1


def test_a_session_of_many_partitions_is_sent_what_is_new(inside: Inside, client: RawClient) -> None:
    request = fetch_request(TOPIC, ends(inside), max_wait_ms=0)
    request.session_id, request.session_epoch = 0, 0
    first = client.call(request, 12)
    assert first.session_id
    assert len(first.responses[0].partitions) == COUNT
    following = messages.FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, session_id=first.session_id, session_epoch=1
    )
    client.send(following, 12)
    wait_until(lambda: waiting(inside) == 1, "the fetch waits")
    with RawClient(inside.port) as other:
        produce(other, TOPIC, 5, batch_of([b"news"]))
    (topic,) = client.answer(messages.FetchRequest, 12).responses
    assert [(each.partition_index, values_in(each)) for each in topic.partitions] == [(5, [b"news"])]


def test_a_client_that_leaves_is_not_waited_for(inside: Inside) -> None:
    with RawClient(inside.port) as leaving:
        leaving.send(fetch_request(TOPIC, ends(inside), max_wait_ms=600_000), 12)
        wait_until(lambda: waiting(inside) == 1, "the fetch waits")
    wait_until(lambda: waiting(inside) == 0, "it is given up")
    assert inside.on_loop(lambda: inside.node.replica_manager.fetch_purgatory.delayed) == 0


def test_an_error_of_one_partition_leaves_the_others_alone(inside: Inside, client: RawClient) -> None:
    offsets = ends(inside) | {COUNT + 5: 0}
    (topic,) = client.call(fetch_request(TOPIC, offsets, max_wait_ms=60_000), 12).responses
    codes = {each.partition_index: each.error_code for each in topic.partitions}
    assert codes.pop(COUNT + 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(codes.values()) == {ErrorCode.NONE}
