"""UpdateMetadata: how the image of a broker in a cluster follows what the controller sends.

A request names every live broker, and the partitions that have changed. It is applied in steps, one partition each; a
partition that is deleted has the leader -2. A full request names every topic: others were deleted while the broker was
cut off.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.tree import NO_LEADER, Endpoint
from tidelog.wire.messages.update_metadata import (
    FULL,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from tidelog.wire.primitives import NO_UUID

_LEADER_DURING_DELETE: Final = -2
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def apply_update(image: ClusterImage, request: UpdateMetadataRequest) -> Generator[None, None, list[str]]:
    """Apply a request; returns the names of the topics that are gone."""
    image.set_controller(request.controller_id, request.controller_epoch)
    _set_brokers(image, request.live_brokers)
    gone = _remove_unnamed(image, request) if request.type == FULL else []
    for name, topic_id, states in states_by_topic(request):
        topic = image.topic(name)
        if topic is None or (topic_id not in (NO_UUID, topic.topic_id)):
            topic = TopicImage(name, topic_id, [])
        partitions = list(topic.partitions)
        is_reshaped = topic is not image.topic(name)
        for state in states:
            if state.partition_index >= len(partitions):
                # Partitions in between are on their way, in another request.
                partitions += [_absent(index) for index in range(len(partitions), state.partition_index + 1)]
                is_reshaped = True
            if state.leader == _LEADER_DURING_DELETE:
                partitions[state.partition_index] = _absent(state.partition_index)
                is_reshaped = True
            elif is_reshaped:
                partitions[state.partition_index] = _partition(state)
            else:
                partitions[state.partition_index] = partition = _partition(state)
                image.set_partition(name, partition)
            yield
        if not is_reshaped:
            continue
        if any(partition.replicas for partition in partitions):
            image.set_topic(TopicImage(name, topic.topic_id, partitions))
        elif image.remove_topic(name) is not None:
            gone.append(name)
    return gone


def states_by_topic(
    request: UpdateMetadataRequest,
) -> Iterable[tuple[str, bytes, Iterable[UpdateMetadataPartitionState]]]:
    """The states of each topic, from whichever field the version has them in."""
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        ungrouped.setdefault(state.topic_name, []).append(state)
    for name, states in ungrouped.items():
        yield name, NO_UUID, states


def _remove_unnamed(image: ClusterImage, request: UpdateMetadataRequest) -> list[str]:
    named = {name for name, _, _ in states_by_topic(request)}
    gone = [topic.name for topic in image.topics() if topic.name not in named]
    for name in gone:
        image.remove_topic(name)
    return gone


def _set_brokers(image: ClusterImage, brokers: Iterable[UpdateMetadataBroker]) -> None:
    alive = {broker.id: _broker(broker) for broker in brokers}
    for broker_id in image.broker_ids():
        if broker_id not in alive:
            image.remove_broker(broker_id)
    for broker_id, broker in alive.items():
        before = image.broker(broker_id)
        if before is None or before[:3] != broker[:3]:
            image.set_broker(broker)


def _broker(broker: UpdateMetadataBroker) -> BrokerImage:
    endpoints = {
        endpoint.listener: Endpoint(
            endpoint.listener, endpoint.host, endpoint.port, _SECURITY_PROTOCOLS[endpoint.security_protocol]
        )
        for endpoint in broker.endpoints
    }
    if not endpoints and broker.v0_host:
        endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port)}
    return BrokerImage(broker.id, endpoints, broker.rack)


def _absent(index: int) -> PartitionImage:
    """A partition that is deleted, or of which nothing is known yet."""
    return PartitionImage(index, NO_LEADER, -1, (), ())


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    return PartitionImage(
        state.partition_index,
        state.leader,
        state.leader_epoch,
        tuple(state.replicas),
        tuple(state.isr),
        tuple(state.offline_replicas),
        state.zk_version,
    )
