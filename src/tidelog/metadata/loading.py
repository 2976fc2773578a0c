"""From the tree to the image, in one go: what a broker does when it starts."""

from collections.abc import Iterator
from contextlib import suppress

from tidelog.metadata import paths
from tidelog.metadata.errors import MalformedNodeError, NoNodeError
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.store import NodeData, Store
from tidelog.metadata.tree import (
    PartitionState,
    TopicAssignment,
    decode_broker,
    decode_config,
    decode_controller,
    decode_controller_epoch,
    decode_partition_state,
    decode_topic,
)
from tidelog.wire.primitives import NO_UUID


def load_image(store: Store, cluster_id: str) -> ClusterImage:
    """The cluster as the tree has it now. A node that cannot be read raises, with its path, rather than be left out."""
    image = ClusterImage(cluster_id)
    with suppress(NoNodeError):
        controller_id = decode_controller(store.get(paths.CONTROLLER)[0])
        image.set_controller(controller_id, decode_controller_epoch(store.get(paths.CONTROLLER_EPOCH)[0]))
    broker_ids = _broker_ids(store)
    for broker_id, node in zip(broker_ids, store.get_many(list(map(paths.broker, broker_ids))), strict=True):
        if node is not None:
            data, stat = node
            image.set_broker(BrokerImage.of(decode_broker(broker_id, data), stat.czxid))
    configured = store.children(f"{paths.CONFIG}/topics")
    configs = store.get_many([paths.config("topics", name) for name in configured])
    for name, node in zip(configured, configs, strict=True):
        if node is not None:
            image.set_overrides(name, decode_config("topics", name, node[0]))
    names = store.children(paths.TOPICS)
    topics = zip(names, store.get_many(list(map(paths.topic, names))), strict=True)
    assignments = {name: decode_topic(name, node[0]) for name, node in topics if node is not None}
    # All of them at once: a remote store is asked a few times, however many topics there are.
    states = iter(
        store.get_many(
            [
                paths.partition_state(name, index)
                for name, assignment in assignments.items()
                for index in range(len(assignment.partitions))
            ]
        )
    )
    # In a small cluster ten thousand partitions have a handful of different states between them.
    known_states: dict[bytes, PartitionState] = {}
    for name, assignment in assignments.items():
        image.set_topic(_load_topic(name, assignment, states, known_states))
    return image


def _broker_ids(store: Store) -> list[int]:
    names = store.children(paths.BROKER_IDS)
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) <= 10):
            raise MalformedNodeError(f"{paths.BROKER_IDS}/{name}", "malformed node: its name is not a broker id")
    return [int(name) for name in names]


def _load_topic(
    name: str,
    assignment: TopicAssignment,
    states: Iterator[NodeData | None],
    known_states: dict[bytes, PartitionState],
) -> TopicImage:
    """A topic with the states of its partitions, which are the next of `states`."""
    partitions = []
    for index, (replicas, node) in enumerate(zip(assignment.partitions, states, strict=False)):
        if node is None:
            partitions.append(PartitionImage.of(index, replicas, None))
            continue
        data, stat = node
        state = known_states.get(data)
        if state is None:
            state = known_states[data] = decode_partition_state(name, index, data)
        partitions.append(PartitionImage.of(index, replicas, state, stat.version))
    return TopicImage(name, assignment.topic_id or NO_UUID, partitions)
