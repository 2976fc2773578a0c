"""Creates, extends and deletes topics: a request is checked against the image, planned, and written in one transaction.

Planning changes nothing; `validate_only` requests stop there. A rejected request raises `ApiError` with Kafka's text.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.errors import BadVersionError, NodeExistsError, NoNodeError
from tidelog.metadata.image import ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.placement import failure_domains, place_replicas
from tidelog.metadata.store import Create, Delete, Operation, Set, Store
from tidelog.metadata.topic_names import check_topic_name
from tidelog.metadata.tree import (
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    decode_topic,
    encode_config,
    encode_partition_state,
    encode_topic,
)
from tidelog.metadata.uuids import random_uuid
from tidelog.metadata.walk import create_if_missing, create_or_set, subtree
from tidelog.wire.errors import ApiError, ErrorCode

__all__ = [
    "NewPartitions",
    "NewTopic",
    "check_topic_name",
    "delete_topic",
    "mark_for_deletion",
    "plan_adopted_partitions",
    "plan_adopted_topic",
    "plan_partitions",
    "plan_topic",
    "topics_marked_for_deletion",
    "write_grown_assignment",
    "write_new_assignment",
    "write_partitions",
    "write_topic",
]

FROM_DEFAULT: Final = -1
PARTITIONS_PER_TOPIC_MAX: Final = 100_000
"""Tidelog's own limit: a count from a request must not decide how much memory a broker uses."""


class NewTopic(NamedTuple):
    """A topic that may be written. `states` has None where no replica is alive: the partition has no leader yet."""

    name: str
    topic_id: bytes
    replicas: tuple[tuple[int, ...], ...]
    states: tuple[PartitionState | None, ...]
    overrides: Mapping[str, str]

    def image(self) -> TopicImage:
        """The topic as it will be once written."""
        return TopicImage(self.name, self.topic_id, _images(0, self.replicas, self.states))


class NewPartitions(NamedTuple):
    """Partitions that may be added to a topic. `assignment` is the topic's as a whole, `version` what it replaces."""

    name: str
    first_index: int
    assignment: TopicAssignment
    states: tuple[PartitionState | None, ...]
    version: int

    def images(self) -> list[PartitionImage]:
        """The new partitions as they will be once written."""
        replicas = [partition.replicas for partition in self.assignment.partitions[self.first_index :]]
        return _images(self.first_index, replicas, self.states)


def plan_topic(
    name: str,
    partition_count: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]] | None,
    overrides: Mapping[str, str],
    image: ClusterImage,
    *,
    default_partition_count: int = 1,
    default_replication_factor: int = 1,
    start_index: int = 0,
    follower_shift: int = 0,
    controller_epoch: int = 1,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> NewTopic:
    """Check a request to create a topic and decide where its replicas go.

    -1 asks for the default count or factor. `assignments` says where replicas go instead of leaving it to us; as in
    Kafka, it may name brokers that are not there, as long as every partition has a replica on one that is.
    """
    if image.topic(name) is not None:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    if colliding := image.colliding_topics(name):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        )
    alive = image.broker_ids()
    if assignments:
        if partition_count != FROM_DEFAULT or replication_factor != FROM_DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        replicas = _check_manual_assignments(assignments, alive)
    else:
        count = default_partition_count if partition_count == FROM_DEFAULT else partition_count
        _check_partition_count(count)
        factor = default_replication_factor if replication_factor == FROM_DEFAULT else replication_factor
        replicas = place_replicas(
            alive,
            count,
            factor,
            start_index=start_index,
            follower_shift=follower_shift,
            racks=failure_domains({broker.broker_id: broker.location for broker in image.brokers()}),
        )
    states = _first_states(replicas, alive, controller_epoch)
    return NewTopic(name, random_uuid(random_bytes), tuple(replicas), states, overrides)


def plan_adopted_topic(
    name: str,
    topic_id: bytes,
    leader_epochs: Mapping[int, int],
    broker_id: int,
    *,
    overrides: Mapping[str, str] | None = None,
    controller_epoch: int = 1,
) -> NewTopic:
    """A topic that was found in the log directories but not in the tree, with the last leader epoch of each partition.

    Its id is kept. This broker leads every partition; one that was not found, below the highest that was, is empty.
    """
    count = max(leader_epochs) + 1
    replicas = ((broker_id,),) * count
    states = _adopted_states(range(count), leader_epochs, broker_id, controller_epoch)
    return NewTopic(name, topic_id, replicas, states, overrides or {})


def plan_adopted_partitions(
    store: Store, name: str, leader_epochs: Mapping[int, int], broker_id: int, *, controller_epoch: int = 1
) -> NewPartitions:
    """Partitions of a known topic that were found in the log directories beyond those that the tree has."""
    data, stat = store.get(paths.topic(name))
    current = decode_topic(name, data)
    count = len(current.partitions)
    added = range(count, max(leader_epochs) + 1)
    return NewPartitions(
        name,
        count,
        TopicAssignment(current.topic_id, (*current.partitions, *(ReplicaAssignment((broker_id,)) for _ in added))),
        _adopted_states(added, leader_epochs, broker_id, controller_epoch),
        stat.version,
    )


def _adopted_states(
    indexes: range, leader_epochs: Mapping[int, int], broker_id: int, controller_epoch: int
) -> tuple[PartitionState, ...]:
    """A leader epoch may not fall: a log rejects records of an epoch below its last."""
    return tuple(
        PartitionState(broker_id, leader_epochs.get(index, 0), (broker_id,), controller_epoch) for index in indexes
    )


def write_topic(store: Store, topic: NewTopic) -> None:
    """Make a topic: its assignment, its settings and the state of its partitions, all or nothing."""
    try:
        write_topics(store, (topic,))
    except NodeExistsError:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.") from None


def write_topics(store: Store, topics: Sequence[NewTopic]) -> None:
    """Make topics that are not there, all of them or none."""
    operations: list[Operation] = []
    for topic in topics:
        assignment = TopicAssignment(topic.topic_id, tuple(map(ReplicaAssignment, topic.replicas)))
        operations += (
            create_or_set(store, paths.config("topics", topic.name), encode_config(topic.overrides)),
            Create(paths.topic(topic.name), encode_topic(assignment)),
            Create(paths.partitions(topic.name)),
            *_create_states(topic.name, 0, topic.states),
        )
    store.multi(operations)


def write_new_assignment(store: Store, topic: NewTopic) -> None:
    """Create a topic of a cluster: its settings and its replicas. The controller writes the partition states."""
    assignment = TopicAssignment(topic.topic_id, tuple(map(ReplicaAssignment, topic.replicas)))
    settings = create_or_set(store, paths.config("topics", topic.name), encode_config(topic.overrides))
    try:
        store.multi([settings, Create(paths.topic(topic.name), encode_topic(assignment))])
    except NodeExistsError:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.") from None


def write_grown_assignment(store: Store, new: NewPartitions) -> None:
    """Add partitions to a topic of a cluster: where their replicas are. The controller writes the partition states."""
    _replace_assignment(store, new, ())


def plan_partitions(
    store: Store,
    alive: Sequence[int],
    name: str,
    total_count: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    racks: Mapping[int, str | None] | None = None,
    controller_epoch: int = 1,
) -> NewPartitions:
    """Check a request to give a topic more partitions and decide on which of the brokers `alive` their replicas go."""
    try:
        data, stat = store.get(paths.topic(name))
    except NoNodeError:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.") from None
    current = decode_topic(name, data)
    if store.exists(paths.topic_deletion(name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if any(partition.adding or partition.removing for partition in current.partitions):
        raise ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for the topic '{name}'."
        )
    count = len(current.partitions)
    added = _check_increase(count, total_count)
    first_replicas = current.partitions[0].replicas
    if assignments is None:
        start_index = next((i for i, broker_id in enumerate(alive) if broker_id >= first_replicas[0]), 0)
        new = place_replicas(
            alive,
            added,
            len(first_replicas),
            start_index=start_index,
            follower_shift=start_index,
            first_partition=count,
            racks=racks,
        )
    else:
        new = _check_added_assignments(assignments, added, count, len(first_replicas), alive)
    return NewPartitions(
        name,
        count,
        TopicAssignment(current.topic_id, (*current.partitions, *map(ReplicaAssignment, new))),
        _first_states(new, alive, controller_epoch),
        stat.version,
    )


def write_partitions(store: Store, new: NewPartitions) -> None:
    """Add partitions to a topic, all or nothing."""
    _replace_assignment(store, new, _create_states(new.name, new.first_index, new.states))


def _replace_assignment(store: Store, new: NewPartitions, more: Sequence[Operation]) -> None:
    try:
        store.multi([Set(paths.topic(new.name), encode_topic(new.assignment), new.version), *more])
    except (NoNodeError, BadVersionError) as error:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"The topic '{new.name}' was changed meanwhile: {error.problem}."
        ) from error


def mark_for_deletion(store: Store, name: str) -> None:
    """Mark a topic for deletion. If the broker stops before its files are deleted, the next start continues."""
    if store.exists(paths.topic(name)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    create_if_missing(store, paths.topic_deletion(name))


def topics_marked_for_deletion(store: Store) -> list[str]:
    return store.children(paths.DELETE_TOPICS)


def delete_topic(store: Store, name: str) -> None:
    """Remove a topic, its settings and its deletion mark, all or nothing. Does nothing if the topic is gone."""
    roots = (paths.topic(name), paths.config("topics", name), paths.topic_deletion(name))
    store.multi([Delete(path) for root in roots for path in subtree(store, root)])


def _check_partition_count(count: int) -> None:
    if count <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if count > PARTITIONS_PER_TOPIC_MAX:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"Number of partitions {count} is above {PARTITIONS_PER_TOPIC_MAX}."
        )


def _check_increase(count: int, total_count: int) -> int:
    if total_count < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {count} partitions, which is higher than the requested {total_count}.",
        )
    if total_count == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partitions.")
    _check_partition_count(total_count)
    return total_count - count


def _check_manual_assignments(
    assignments: Mapping[int, Sequence[int]], alive: Collection[int]
) -> list[tuple[int, ...]]:
    if sorted(assignments) != list(range(len(assignments))):
        raise _invalid_assignment("partitions should be a consecutive 0-based integer sequence")
    replicas = [tuple(assignments[index]) for index in range(len(assignments))]
    if len({len(each) for each in replicas}) != 1:
        raise _invalid_assignment("All partitions should have the same number of replicas")
    for index, each in enumerate(replicas):
        _check_replicas(index, each)
        if not set(each).intersection(alive):
            raise _invalid_assignment(
                f"Partition {index} is assigned to brokers {list(each)}, none of which is alive; {sorted(alive)} are."
            )
    return replicas


def _check_added_assignments(
    assignments: Sequence[Sequence[int]], added: int, first_index: int, factor: int, alive: Collection[int]
) -> list[tuple[int, ...]]:
    unknown = sorted({replica for replicas in assignments for replica in replicas}.difference(alive))
    if unknown:
        raise _invalid_assignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(assignments) != added:
        raise _invalid_assignment(
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
        )
    replicas = [tuple(each) for each in assignments]
    for index, each in enumerate(replicas, first_index):
        _check_replicas(index, each)
        if len(each) != factor:
            raise _invalid_assignment(
                f"Inconsistent replication factor between partitions, partition 0 has {factor} "
                f"while partition {index} has {len(each)}."
            )
    return replicas


def _check_replicas(index: int, replicas: tuple[int, ...]) -> None:
    if not replicas:
        raise _invalid_assignment(f"Cannot have replication factor of 0 for partition id {index}.")
    if len(set(replicas)) != len(replicas):
        raise _invalid_assignment(f"Duplicate replica assignment found for partition id {index}: {list(replicas)}")
    if min(replicas) < 0:
        raise _invalid_assignment(f"Partition id {index} is assigned to the negative broker id {min(replicas)}.")


def _invalid_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _first_states(
    replicas: Sequence[tuple[int, ...]], alive: Collection[int], controller_epoch: int
) -> tuple[PartitionState | None, ...]:
    """The first replica that is alive leads, and those alive are in sync: an empty log is easily copied."""
    states = []
    for each in replicas:
        isr = tuple(replica for replica in each if replica in alive)
        states.append(PartitionState(isr[0], 0, isr, controller_epoch) if isr else None)
    return tuple(states)


def _create_states(name: str, first_index: int, states: Sequence[PartitionState | None]) -> list[Operation]:
    operations: list[Operation] = []
    for index, state in enumerate(states, first_index):
        if state is not None:
            operations.append(Create(paths.partition(name, index)))
            operations.append(Create(paths.partition_state(name, index), encode_partition_state(state)))
    return operations


def _images(
    first_index: int, replicas: Sequence[tuple[int, ...]], states: Sequence[PartitionState | None]
) -> list[PartitionImage]:
    return [
        PartitionImage.of(index, ReplicaAssignment(each), state, -1 if state is None else 0)
        for index, (each, state) in enumerate(zip(replicas, states, strict=True), first_index)
    ]
