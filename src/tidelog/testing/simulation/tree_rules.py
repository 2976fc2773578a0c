"""What may never be written to the metadata tree, looked at after every write.

fenced controllers     the state of a partition is written by the controller of the newest epoch
new epoch, new leader  another leader comes with a higher leader epoch, and no epoch is lower than the one before
clean elections        a new leader was in sync (no seed allows unclean elections)
leader in sync         a leader is among its in-sync replicas
eligible replicas      no controller adds a broker to an ISR that it knows to be gone or about to stop
lasting topic ids      a topic keeps its id
blocks once            a block of producer ids begins behind the one before it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.store import Create, Delete, Operation, Set
from tidelog.metadata.tree import (
    NO_LEADER,
    PartitionState,
    ReplicaAssignment,
    decode_controller_epoch,
    decode_partition_state,
    decode_producer_id_block,
    decode_topic,
)
from tidelog.testing.memory_store import MemoryTree
from tidelog.testing.simulation.processes import BrokerProcess

_STATE: Final = "/state"

DELETION: Final = "deletion"
MOVE: Final = "move"
"""What begins with a write: the deletion of a topic, the reassignment of a partition."""


def is_state(operation: Operation) -> bool:
    """Whether it writes the state of a partition: its leader and its in-sync replicas."""
    return isinstance(operation, Create | Set) and operation.path.endswith(_STATE)


class Growth(NamedTuple):
    """A replica that has just become one of the in-sync replicas, by the tree."""

    topic: str
    partition: int
    leader: int
    added: int


class TreeRules:
    """The states of partitions as they were last written, and the rules for what follows them."""

    def __init__(self, brokers: Iterable[BrokerProcess], violated: Callable[[str], None]) -> None:
        self.states: dict[tuple[str, int], PartitionState] = {}
        self.last_growth: Growth | None = None
        self.has_grown = False
        """Whether `last_growth` is new."""
        self._brokers = brokers
        self._violated = violated
        self.seen: list[str] = []
        """What has begun with the last writes; the reader clears it."""
        self._topic_ids: dict[str, bytes] = {}
        self._written_isr: dict[tuple[str, int], dict[int, Sequence[int]]] = {}
        """The in-sync replicas of a partition in each version of its state."""
        self._last_producer_id = -1
        self._moving: dict[tuple[str, int], set[int]] = {}
        """The replicas that have been in sync since the reassignment of a partition began."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The topic that has an id."""
        return next((name for name, known in self._topic_ids.items() if known == topic_id), None)

    def written_isr(self, partition: tuple[str, int], version: int) -> Sequence[int] | None:
        """The in-sync replicas that were written with a version of a partition's state."""
        return self._written_isr.get(partition, {}).get(version)

    def check(self, tree: MemoryTree, operations: Sequence[Operation]) -> None:
        """Look at a write that has taken effect."""
        for operation in operations:
            path = operation.path
            if is_state(operation):
                self._check_state(tree, path)
            elif isinstance(operation, Delete) and path.endswith(_STATE):
                self.states.pop(_partition_of(path), None)
                self._written_isr.pop(_partition_of(path), None)
            elif path == paths.PRODUCER_ID_BLOCK and isinstance(operation, Set):
                self._check_block(tree)
            elif path.startswith(f"{paths.TOPICS}/") and path.count("/") == 3:
                self._check_topic(tree, operation)
            elif isinstance(operation, Create) and path.startswith(f"{paths.DELETE_TOPICS}/"):
                self.seen.append(DELETION)

    def _check_state(self, tree: MemoryTree, path: str) -> None:
        topic, index = _partition_of(path)
        state = decode_partition_state(topic, index, tree.node(path).data)
        before = self.states.get((topic, index))
        self._written_isr.setdefault((topic, index), {})[tree.node(path).version] = state.isr
        if (topic, index) in self._moving:
            self._moving[topic, index].update(state.isr)
        self.states[topic, index] = state
        newest = decode_controller_epoch(tree.node(paths.CONTROLLER_EPOCH).data)
        if state.controller_epoch < newest:
            self._violated(
                f"replaced controller: {path} is written by the controller of epoch {state.controller_epoch}, "
                f"epoch {newest} has begun"
            )
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self._violated(f"leader out of sync: broker-{state.leader} leads {topic}-{index}, in sync are {state.isr}")
        if before is not None:
            self._check_succession((topic, index), before, state)

    def _check_succession(self, key: tuple[str, int], before: PartitionState, after: PartitionState) -> None:
        name = f"{key[0]}-{key[1]}"
        is_new_leader = after.leader != before.leader
        if after.leader_epoch < before.leader_epoch or (is_new_leader and after.leader_epoch == before.leader_epoch):
            self._violated(
                f"leader epoch: {name} goes from broker-{before.leader} in epoch {before.leader_epoch} to "
                f"broker-{after.leader} in epoch {after.leader_epoch}"
            )
        if is_new_leader and after.leader != NO_LEADER and after.leader not in before.isr:
            self._violated(f"unclean election: broker-{after.leader} leads {name}, in sync were {before.isr}")
        added = [each for each in after.isr if each not in before.isr]
        if added and not is_new_leader:
            self.last_growth, self.has_grown = Growth(*key, after.leader, added[0]), True
        for broker_id in added:
            if not self._is_eligible(broker_id, after.controller_epoch):
                self._violated(f"ineligible: broker-{broker_id} joins the ISR of {name} while it is gone or stops")

    def _is_eligible(self, broker_id: int, controller_epoch: int) -> bool:
        for broker in self._brokers:
            if broker.active_controller_epoch() == controller_epoch:
                return broker_id in broker.controller_context().live_broker_ids()
        return True

    def _check_block(self, tree: MemoryTree) -> None:
        block = decode_producer_id_block(tree.node(paths.PRODUCER_ID_BLOCK).data)
        if block.first <= self._last_producer_id:
            self._violated(
                f"blocks once: broker-{block.broker_id} takes the producer ids from {block.first}, those up to "
                f"{self._last_producer_id} are taken"
            )
        self._last_producer_id = max(block.last, self._last_producer_id)

    def _check_topic(self, tree: MemoryTree, operation: Operation) -> None:
        name = operation.path.rpartition("/")[2]
        if isinstance(operation, Delete):
            self._topic_ids.pop(name, None)
            return
        topic_id, partitions = decode_topic(name, tree.node(operation.path).data)
        for index, assignment in enumerate(partitions):
            self._check_move(name, index, assignment)
        known = self._topic_ids.get(name)
        if known is not None and topic_id != known:
            self._violated(f"topic id: {name} had {known.hex()} and has {topic_id.hex() if topic_id else 'none'}")
        if topic_id is not None:
            self._topic_ids[name] = topic_id

    def _check_move(self, topic: str, index: int, assignment: ReplicaAssignment) -> None:
        key = topic, index
        if assignment.is_being_reassigned:
            if key not in self._moving:
                self.seen.append(MOVE)
                state = self.states.get(key)
                self._moving[key] = set(() if state is None else state.isr)
            return
        were_in_sync = self._moving.pop(key, None)
        if were_in_sync is not None and not were_in_sync.issuperset(assignment.replicas):
            self._violated(
                f"hasty move: {topic}-{index} has moved to {assignment.replicas}, in sync were {were_in_sync}"
            )


def _partition_of(path: str) -> tuple[str, int]:
    _, _, _, topic, _, index, _ = path.split("/")
    return topic, int(index)


def unfinished(tree: MemoryTree) -> Iterator[str]:
    """Work of controllers that is half-done: topics to be deleted, partitions on the move."""
    for path, node in list(tree.nodes.items()):
        if path.startswith(f"{paths.DELETE_TOPICS}/"):
            yield f"{path} is still to be deleted"
        elif path.startswith(f"{paths.TOPICS}/") and path.count("/") == 3:
            name = path.rpartition("/")[2]
            if any(each.is_being_reassigned for each in decode_topic(name, node.data).partitions):
                yield f"{name} is still being reassigned"
