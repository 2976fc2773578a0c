"""The metadata tree as the controller uses it: bulk reads that leave watches, and writes that its epoch fences.

Every write carries a check of `/controller_epoch`'s version, so that a controller which was replaced without noticing
changes nothing: it gets a `ControllerMovedError`. Writes of one call are independent of each other, each with its own
outcome. A watch becomes an event of the controller; reading a node again sets its watch again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.context import LiveBroker
from tidelog.controller.partitions import Leadership
from tidelog.metadata import paths
from tidelog.metadata.errors import (
    BadVersionError,
    ControllerMovedError,
    MalformedNodeError,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from tidelog.metadata.producer_ids import take_block
from tidelog.metadata.store import (
    Check,
    Create,
    Delete,
    EventKind,
    Operation,
    Outcome,
    Set,
    Stat,
    Store,
    StoreRunner,
    Watcher,
    WatchEvent,
    join_path,
)
from tidelog.metadata.tree import (
    ProducerIdBlock,
    TopicAssignment,
    decode_broker,
    decode_config,
    decode_controller,
    decode_controller_epoch,
    decode_log_dir_event,
    decode_partition_state,
    decode_partitions,
    decode_reassignments,
    decode_topic,
    encode_controller,
    encode_controller_epoch,
    encode_features,
    encode_partition_state,
    encode_reassignments,
    encode_topic,
)
from tidelog.metadata.walk import create_if_missing, subtree
from tidelog.wire.partitions import TopicPartition

NO_CONTROLLER: Final = -1

Notify: TypeAlias = Callable[[str, EventKind], object]
"""Takes the path of a watched node and what happened to it."""

logger = logging.getLogger(__name__)


class ControllerEpoch(NamedTuple):
    """An election won: the epoch of the controller, and the version of its node."""

    epoch: int
    version: int


class Updates(NamedTuple):
    """What became of state nodes that were to be changed."""

    done: dict[TopicPartition, Leadership]
    """With the version that each node has now."""
    stale: list[TopicPartition]
    """Another writer changed the node first: read it again and decide again."""
    failed: dict[TopicPartition, StoreError]


class ControllerTree:
    """The tree, read and written by the controller of this broker."""

    def __init__(self, runner: StoreRunner, notify: Notify) -> None:
        self._runner = runner
        self._epoch_version = -1

        def on_event(event: WatchEvent) -> None:
            notify(event.path, event.kind)

        # One watcher for all nodes: a store calls a watcher once however often it was set on a node.
        self._watcher = runner.on_loop(on_event)

    def fence(self, epoch_version: int) -> None:
        """Fence every write from now on by this version of `/controller_epoch`."""
        self._epoch_version = epoch_version

    async def _write(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        fence = Check(paths.CONTROLLER_EPOCH, self._epoch_version)
        return await self._runner.run(_submit, operations, fence)

    async def _write_all(self, operations: Sequence[Operation]) -> None:
        """Write, and raise the first error; a node that is gone already counts as deleted."""
        for operation, outcome in zip(operations, await self._write(operations), strict=True):
            if isinstance(outcome, NoNodeError) and isinstance(operation, Delete):
                continue
            if isinstance(outcome, StoreError):
                raise outcome

    # --- election ---

    async def controller_id(self) -> int:
        """The broker that is controller, -1 if there is none. Watches for the next change."""
        return await self._runner.run(_controller_id, self._watcher)

    async def become_controller(self, broker_id: int, now_ms: int) -> ControllerEpoch:
        """Make `/controller` and raise the epoch, both or neither; `ControllerMovedError` if another was faster."""
        return await self._runner.run(_become_controller, broker_id, now_ms)

    async def delete_controller(self) -> None:
        """Give the controllership up, so that another broker takes it.

        One that this session has is given up even if its epoch is not known here.
        """
        if not await self._runner.run(_delete_own_controller):
            await self._write_all([Delete(paths.CONTROLLER)])

    async def ensure_features(self) -> None:
        """Make `/feature` unless it is there, as every controller of Kafka does."""
        await self._runner.run(create_if_missing, paths.FEATURES, encode_features())

    # --- brokers ---

    async def brokers(self) -> dict[int, LiveBroker]:
        """Every registered broker. Watches for brokers that come, go or change their registration."""
        return await self._runner.run(_brokers, self._watcher)

    async def broker(self, broker_id: int) -> LiveBroker | None:
        return await self._runner.run(_broker, broker_id, self._watcher)

    # --- topics ---

    async def topic_names(self) -> list[str]:
        """Watches for topics that come and go."""
        return await self._runner.run(_children_or_none, paths.TOPICS, self._watcher)

    async def topic_assignments(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        """Those that exist and can be read. Watches for changes, which are new partitions mostly."""
        return await self._runner.run(_topic_assignments, sorted(names), self._watcher)

    async def set_topic_assignment(self, name: str, assignment: TopicAssignment) -> None:
        await self._write_all([Set(paths.topic(name), encode_topic(assignment))])

    async def topic_overrides(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        return await self._runner.run(_topic_overrides, sorted(names))

    async def delete_topic(self, name: str) -> None:
        """Remove a topic, its settings and the request to delete it, which goes last: a new controller goes on."""
        for root in (paths.topic(name), paths.config("topics", name), paths.topic_deletion(name)):
            by_depth: dict[int, list[Operation]] = {}
            for path in await self._runner.run(subtree, root):
                by_depth.setdefault(path.count("/"), []).append(Delete(path))
            for _, deletions in sorted(by_depth.items(), reverse=True):
                await self._write_all(deletions)

    # --- states of partitions ---

    async def leaderships(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leadership]:
        """Those that have a state node that can be read."""
        return await self._runner.run(_leaderships, list(partitions))

    async def create_states(
        self, leaderships: Mapping[TopicPartition, Leadership]
    ) -> dict[TopicPartition, StoreError | None]:
        """Make the first state nodes of partitions; the error for each that could not be made."""
        topics = dict.fromkeys(partition.topic for partition in leaderships)
        # A controller that stopped half-way may have made the nodes above already.
        await self._write([Create(paths.partitions(topic)) for topic in topics])
        await self._write([Create(paths.partition(*partition)) for partition in leaderships])
        outcomes = await self._write(
            [
                Create(paths.partition_state(*partition), encode_partition_state(leadership.node()))
                for partition, leadership in leaderships.items()
            ]
        )
        return {
            partition: outcome if isinstance(outcome, StoreError) else None
            for partition, outcome in zip(leaderships, outcomes, strict=True)
        }

    async def update_states(self, leaderships: Mapping[TopicPartition, Leadership]) -> Updates:
        """Replace state nodes that still have the version that each leadership was read with."""
        outcomes = await self._write(
            [
                Set(
                    paths.partition_state(*partition),
                    encode_partition_state(leadership.node()),
                    leadership.partition_epoch,
                )
                for partition, leadership in leaderships.items()
            ]
        )
        updates = Updates({}, [], {})
        for (partition, leadership), outcome in zip(leaderships.items(), outcomes, strict=True):
            if isinstance(outcome, BadVersionError):
                updates.stale.append(partition)
            elif isinstance(outcome, StoreError):
                updates.failed[partition] = outcome
            else:
                assert isinstance(outcome, Stat), f"a write of {partition} returned {outcome!r}"
                updates.done[partition] = leadership._replace(partition_epoch=outcome.version)
        return updates

    # --- requests of tools, and notices of brokers ---

    async def topic_deletions(self) -> list[str]:
        """The topics that are to be deleted. Watches for more."""
        return await self._runner.run(_children_or_none, paths.DELETE_TOPICS, self._watcher)

    async def remove_topic_deletions(self, names: Iterable[str]) -> None:
        await self._write_all([Delete(paths.topic_deletion(name)) for name in sorted(names)])

    async def reassignments(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The target replicas in `/admin/reassign_partitions`; empty without the node. Watches for the node."""
        data = await self._runner.run(_data_or_none, paths.REASSIGNMENTS, self._watcher)
        if data is None:
            return {}
        try:
            return {TopicPartition(*key): target for key, target in decode_reassignments(data).items()}
        except MalformedNodeError:
            logger.exception("a request to reassign partitions is passed over")
            return {}

    async def set_reassignments(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """What is left of the reassignments in the node; without any, the node is deleted."""
        left: Operation = Delete(paths.REASSIGNMENTS)
        if targets:
            left = Set(paths.REASSIGNMENTS, encode_reassignments(targets))
        await self._write_all([left])

    async def preferred_elections(self) -> list[TopicPartition] | None:
        """The partitions in `/admin/preferred_replica_election`; None without the node. Watches for the node."""
        data = await self._runner.run(_data_or_none, paths.PREFERRED_ELECTION, self._watcher)
        if data is None:
            return None
        try:
            return [TopicPartition(*key) for key in decode_partitions(paths.PREFERRED_ELECTION, data)]
        except MalformedNodeError:
            logger.exception("a request to elect preferred leaders is passed over")
            return []

    async def remove_preferred_elections(self) -> None:
        await self._write_all([Delete(paths.PREFERRED_ELECTION)])

    async def isr_changes(self) -> tuple[list[str], list[TopicPartition]]:
        """The notices of changed ISRs, by path, and their partitions. Watches for more."""
        found = await self._runner.run(_notices, paths.ISR_CHANGES, self._watcher)
        partitions: dict[TopicPartition, None] = {}
        for path, data in found.items():
            try:
                partitions.update(dict.fromkeys(TopicPartition(*key) for key in decode_partitions(path, data)))
            except MalformedNodeError:
                logger.exception("a notice of changed ISRs is passed over")
        return list(found), list(partitions)

    async def log_dir_events(self) -> tuple[list[str], list[int]]:
        """The notices of failed log directories, by path, and the brokers that have them. Watches for more."""
        found = await self._runner.run(_notices, paths.LOG_DIR_EVENTS, self._watcher)
        brokers: set[int] = set()
        for path, data in found.items():
            try:
                brokers.add(decode_log_dir_event(path, data))
            except MalformedNodeError:
                logger.exception("a notice of a failed log directory is passed over")
        return list(found), sorted(brokers)

    async def remove_notices(self, notices: Iterable[str]) -> None:
        await self._write_all([Delete(path) for path in notices])

    async def take_producer_ids(self, broker_id: int) -> ProducerIdBlock:
        """The next block, for `broker_id`. Fenced by the node's own version alone, as in Kafka."""
        return await self._runner.run(take_block, broker_id)


# --- what runs on the store ---


def _submit(store: Store, operations: Sequence[Operation], fence: Check) -> list[Outcome]:
    return store.submit_all(operations, fence)


def _controller_id(store: Store, watcher: Watcher) -> int:
    # Two calls, as `get` leaves no watch on a node that does not exist.
    if store.exists(paths.CONTROLLER, watcher) is None:
        return NO_CONTROLLER
    try:
        return decode_controller(store.get(paths.CONTROLLER)[0])
    except NoNodeError:
        return NO_CONTROLLER


def _become_controller(store: Store, broker_id: int, now_ms: int) -> ControllerEpoch:
    create_if_missing(store, paths.CONTROLLER_EPOCH, encode_controller_epoch(0))
    data, stat = store.get(paths.CONTROLLER_EPOCH)
    epoch = decode_controller_epoch(data) + 1
    try:
        _, after = store.multi(
            [
                Create(paths.CONTROLLER, encode_controller(broker_id, now_ms), ephemeral=True),
                Set(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), stat.version),
            ]
        )
    except (NodeExistsError, BadVersionError) as error:
        known = _own_election(store, epoch)
        if known is not None:
            return known
        raise ControllerMovedError(f"another broker was elected before broker {broker_id}") from error
    assert isinstance(after, Stat), f"the epoch was set and its version is {after!r}"
    return ControllerEpoch(epoch, after.version)


def _own_election(store: Store, epoch: int) -> ControllerEpoch | None:
    """The epoch, if the election was ours after all: the reply to our first try was lost with the connection."""
    (controller, current) = store.get_many([paths.CONTROLLER, paths.CONTROLLER_EPOCH])
    if controller is None or current is None or controller[1].ephemeral_owner != store.session_id:
        return None
    return ControllerEpoch(epoch, current[1].version) if decode_controller_epoch(current[0]) == epoch else None


def _delete_own_controller(store: Store) -> bool:
    """Whether the controller was of this session."""
    while True:
        # In this order: an election of another broker in between changes the version.
        epoch, controller = store.exists(paths.CONTROLLER_EPOCH), store.exists(paths.CONTROLLER)
        if epoch is None or controller is None or controller.ephemeral_owner != store.session_id:
            return False
        try:
            store.multi([Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            continue
        return True


def _brokers(store: Store, watcher: Watcher) -> dict[int, LiveBroker]:
    names = store.children(paths.BROKER_IDS, watcher)
    ids = [int(name) for name in names if name.isascii() and name.isdigit()]
    nodes = store.get_many([paths.broker(broker_id) for broker_id in ids], watcher)
    found = {}
    for broker_id, node in zip(ids, nodes, strict=True):
        broker = None if node is None else _decode_broker(broker_id, *node)
        if broker is not None:
            found[broker_id] = broker
    return found


def _broker(store: Store, broker_id: int, watcher: Watcher) -> LiveBroker | None:
    (node,) = store.get_many([paths.broker(broker_id)], watcher)
    return None if node is None else _decode_broker(broker_id, *node)


def _decode_broker(broker_id: int, data: bytes, stat: Stat) -> LiveBroker | None:
    try:
        return LiveBroker(decode_broker(broker_id, data), stat.czxid)
    except MalformedNodeError:
        logger.exception("broker %d is passed over", broker_id)
        return None


def _topic_assignments(store: Store, names: Sequence[str], watcher: Watcher) -> dict[str, TopicAssignment]:
    found = {}
    nodes = store.get_many([paths.topic(name) for name in names], watcher)
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue  # deleted meanwhile
        try:
            found[name] = decode_topic(name, node[0])
        except MalformedNodeError:
            logger.exception("topic %s is passed over", name)
    return found


def _topic_overrides(store: Store, names: Sequence[str]) -> dict[str, dict[str, str]]:
    nodes = store.get_many([paths.config("topics", name) for name in names])
    found = {}
    for name, node in zip(names, nodes, strict=True):
        try:
            found[name] = {} if node is None else decode_config("topics", name, node[0])
        except MalformedNodeError:
            logger.exception("the settings of topic %s are passed over", name)
            found[name] = {}
    return found


def _leaderships(store: Store, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership]:
    nodes = store.get_many([paths.partition_state(*partition) for partition in partitions])
    found = {}
    for partition, node in zip(partitions, nodes, strict=True):
        if node is None:
            continue
        data, stat = node
        try:
            found[partition] = Leadership.of(decode_partition_state(*partition, data), stat.version)
        except MalformedNodeError:
            logger.exception("the state of partition %s is passed over", partition)
    return found


def _children_or_none(store: Store, path: str, watcher: Watcher | None) -> list[str]:
    try:
        return store.children(path, watcher)
    except NoNodeError:
        return []


def _data_or_none(store: Store, path: str, watcher: Watcher) -> bytes | None:
    if store.exists(path, watcher) is None:
        return None
    try:
        return store.get(path)[0]
    except NoNodeError:
        return None


def _notices(store: Store, root: str, watcher: Watcher) -> dict[str, bytes]:
    names = _children_or_none(store, root, watcher)
    found = [join_path(root, name) for name in names]
    nodes = store.get_many(found)
    return {path: node[0] for path, node in zip(found, nodes, strict=True) if node is not None}
