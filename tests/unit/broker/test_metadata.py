"""Metadata names only leaders whose addresses it gives, whatever the image goes through meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.broker.open_access import OPEN_TO_ALL
from tests.unit.steps import Pauses, served
from tidelog.broker.handlers import metadata
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.tree import Endpoint
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponsePartition

CLIENTS, BROKERS = "CLIENTS", "BROKERS"


def image_led_by(leader_id: int) -> ClusterImage:
    """Broker 1 serves clients, broker 2 only other brokers."""
    image = ClusterImage("cluster")
    image.set_broker(BrokerImage(1, {CLIENTS: Endpoint(CLIENTS, "one", 9092)}))
    image.set_broker(BrokerImage(2, {BROKERS: Endpoint(BROKERS, "two", 9093)}))
    image.set_topic(TopicImage("t", bytes(15) + b"1", [PartitionImage(0, leader_id, 0, (1, 2, 3), (1, 2, 3))]))
    return image


def partition_in(image: ClusterImage, slices: Pauses, version: int = 12) -> tuple[list[int], MetadataResponsePartition]:
    """The brokers and the partition of a response."""
    context: Any = SimpleNamespace(
        node=SimpleNamespace(image=image, config=SimpleNamespace(auto_create_topics_enable=False)),
        session=SimpleNamespace(listener=CLIENTS),
        **OPEN_TO_ALL,
        pause=slices.pause,
        api_version=version,
    )
    response = served(metadata.handle(MetadataRequest(topics=None), context))
    return [broker.node_id for broker in response.brokers], response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("leader_id", "version", "code"),
    [
        (1, 12, ErrorCode.NONE),
        (2, 12, ErrorCode.LISTENER_NOT_FOUND),
        (2, 5, ErrorCode.LEADER_NOT_AVAILABLE),
        (3, 12, ErrorCode.LEADER_NOT_AVAILABLE),
        (-1, 12, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_a_leader_that_the_client_cannot_reach_is_not_named(leader_id: int, version: int, code: ErrorCode) -> None:
    brokers, partition = partition_in(image_led_by(leader_id), Pauses(), version)
    assert brokers == [1]
    assert (partition.error_code, partition.leader_id) == (code, 1 if leader_id == 1 else -1)


def test_brokers_and_leaders_of_a_response_agree_although_the_leader_is_gone_meanwhile() -> None:
    """kafka-python's producer never sends again after it was given a leader without an address."""
    image = image_led_by(1)

    class Change(Pauses):
        async def pause(self) -> None:
            image.remove_broker(1)

    brokers, partition = partition_in(image, Change())
    assert (brokers, partition.leader_id) == ([1], 1)
