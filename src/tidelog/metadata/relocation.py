"""Replicas that have moved, with their records, to another broker of the same machine while both were stopped.

The assignments and states in the tree follow. Every step may be repeated: what has followed already stays as it is.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError, StoreError
from tidelog.metadata.store import Operation, Set, Store
from tidelog.metadata.tree import (
    NO_LEADER,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    decode_partition_state,
    decode_topic,
    encode_partition_state,
    encode_topic,
)
from tidelog.wire.partitions import PartitionKey


def relocate_replicas(store: Store, moved: Mapping[PartitionKey, tuple[int, int]]) -> None:
    """Let partitions have their replica on another broker: `(old, new)` by partition. Topics that are gone are left.

    A new leader epoch begins, so that what the old place was asked to do is refused by the new one.
    """
    by_topic: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for (topic, index), ids in moved.items():
        by_topic[topic][index] = ids
    for topic, partitions in by_topic.items():
        _relocate_topic(store, topic, partitions)


def _relocate_topic(store: Store, topic: str, moved: Mapping[int, tuple[int, int]]) -> None:
    try:
        data, stat = store.get(paths.topic(topic))
    except NoNodeError:
        return
    topic_id, assignments = decode_topic(topic, data)
    known = [index for index in moved if index < len(assignments)]
    _change_states(store, topic, {index: moved[index] for index in known})
    changed = list(assignments)
    for index in known:
        changed[index] = _replaced(changed[index], *moved[index])
    if tuple(changed) != assignments:
        store.set(paths.topic(topic), encode_topic(TopicAssignment(topic_id, tuple(changed))), stat.version)


def _change_states(store: Store, topic: str, moved: Mapping[int, tuple[int, int]]) -> None:
    nodes = store.get_many([paths.partition_state(topic, index) for index in moved])
    operations: list[Operation] = []
    for (index, ids), node in zip(moved.items(), nodes, strict=True):
        if node is not None:
            state = decode_partition_state(topic, index, node[0])
            after = _moved_state(state, *ids)
            if after != state:
                operations.append(
                    Set(paths.partition_state(topic, index), encode_partition_state(after), node[1].version)
                )
    _submit(store, operations)


def _moved_state(state: PartitionState, old: int, new: int) -> PartitionState:
    if old not in state.isr and state.leader != old:
        return state
    isr = tuple(new if each == old else each for each in state.isr)
    leads = state.leader == old or (state.leader == NO_LEADER and isr == (new,))
    return state._replace(leader=new if leads else state.leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def _replaced(assignment: ReplicaAssignment, old: int, new: int) -> ReplicaAssignment:
    if old not in assignment.replicas or new in assignment.replicas:
        return assignment
    return ReplicaAssignment(*(tuple(new if each == old else each for each in ids) for ids in assignment))


def lead_alone(store: Store, broker_id: int) -> None:
    """Let a broker that is alone from now on lead what it has: no controller is left that would elect it."""
    for topic in store.children(paths.TOPICS):
        assignments = decode_topic(topic, store.get(paths.topic(topic))[0]).partitions
        wanted = [paths.partition_state(topic, index) for index in range(len(assignments))]
        operations: list[Operation] = []
        for index, node in enumerate(store.get_many(wanted)):
            state = None if node is None else decode_partition_state(topic, index, node[0])
            if node is not None and state is not None and state.leader == NO_LEADER and broker_id in state.isr:
                led = state._replace(leader=broker_id, leader_epoch=state.leader_epoch + 1)
                operations.append(Set(wanted[index], encode_partition_state(led), node[1].version))
        _submit(store, operations)


def _submit(store: Store, operations: Sequence[Operation]) -> None:
    if operations:
        for outcome in store.submit_all(operations):
            if isinstance(outcome, StoreError):
                raise outcome
