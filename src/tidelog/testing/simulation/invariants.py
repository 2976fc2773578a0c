"""What must hold at every moment of a simulated cluster, seen from inside its brokers.

After every event the broker that has just run is looked at:

    one leader per epoch      two brokers never lead a partition in the same leader epoch
    one controller per epoch  two brokers are never the active controller of the same epoch
    committed stays           the leader of the newest epoch has everything that was ever committed, and so has every
                              in-sync replica that it counts
    watermarks                log start ≤ high watermark ≤ log end
    one owner                 two members of a consumer group never have one partition (clients check classic groups)

At every read and write that they concern:

    fenced fetches            a fetch that names a leader epoch is served by a partition in that very epoch
    fenced controllers        the state of a partition is written by the controller of the newest epoch
    never early               a leader delivers delayed records at a time that its clock has reached

And now and then, and at the end, whether all replicas hold the same bytes below their high watermarks, and whether the
state of every coordinator is what its log replays to (`coordinator_state`), and whether delayed records were delivered
as their log says (`delayed_state`). `max` of what a leader ever committed
outlives the leader: this is what clients were shown.

The steps of the protocol that are seen on the way are counted, and faults can be aimed at them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import pairwise
from typing import Any, Final, TypeGuard

from tidelog.controller.tree import ControllerTree
from tidelog.metadata import paths
from tidelog.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.metadata.store import Create, Operation, Outcome, Set
from tidelog.metadata.tree import decode_controller_epoch
from tidelog.records.errors import CorruptRecordError
from tidelog.replication import fetch as replica_fetch
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import Partition
from tidelog.storage.cleaner.jobs import JobDone
from tidelog.storage.cleaner.manager import Cleaning, LogCleaner
from tidelog.storage.cleaner.planning import Candidate
from tidelog.storage.log import Log
from tidelog.testing.memory_store import MemoryTree
from tidelog.testing.simulation import coordinator_state, delayed_state
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC, CommittedLog, Delivery
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.planted import replaced
from tidelog.testing.simulation.processes import BrokerProcess

Key = tuple[str, bytes, int]
"""A topic, its id and the number of a partition."""

Seen = tuple[int, int, int, int, bool, Sequence[int]]
"""Log end, high watermark, log start, leader epoch, whether it leads, in-sync replicas."""

_UNSEEN: Final[Seen] = (0, 0, 0, -1, False, ())


class Step(Enum):
    """What a broker has just done. The value is its name in the table of what happened."""

    LEADER_ELECTED = "leaders elected by the controller"
    ISR_SHRANK = "ISR shrunk"
    ISR_GREW = "ISR expanded"
    TRUNCATED = "logs truncated"
    UNCOMMITTED = "appends before their commit"
    CONTROLLER_ELECTED = "controllers elected"
    CONTROLLER_WRITES = "partition states written by the controller"
    TRANSACTION_PREPARED = "transactions prepared"
    GROUP_REBALANCES = "group rebalances"
    DELAYED_COMPACTED = "changes of delayed records compacted away"


class Invariants:
    """Watches the brokers of one simulation."""

    def __init__(self, brokers: list[BrokerProcess]) -> None:
        self.violations: list[str] = []
        self.steps: Counter[Step] = Counter()
        self.just_seen: list[Step] = []
        """The steps of the last event."""
        self._by_name = {broker.name: broker for broker in brokers}
        self._leaders: dict[tuple[Key, int], int] = {}
        self._newest_epoch: dict[Key, int] = {}
        self._committed: dict[Key, int] = {}
        self._controllers: dict[int, int] = {}
        self._compared: dict[tuple[Key, int, int], int] = {}
        self._last_seen: dict[Partition, Seen] = {}
        self._delayed: dict[Key, CommittedLog] = {}
        """What was committed about delayed records."""
        self._known_at_delivery: dict[Key, dict[Delivery, int]] = {}
        """The high watermark of a leader when it decided on a delivery."""
        self._is_controller_writing = False
        """Whether a controller has a write under way that was begun in this event."""

    def check(self, name: str) -> None:
        """Look at the broker that has just run: at those of its partitions that have changed since the last time."""
        if self.just_seen:
            self.just_seen = []
        broker = self._by_name.get(name)
        if broker is None or not broker.is_serving:
            return
        last_seen = self._last_seen
        for partition in broker.partitions():
            positions = partition.log.positions
            seen = (
                positions.log_end_offset,
                positions.high_watermark,
                positions.log_start_offset,
                partition.leader_epoch,
                partition.is_leader,
                partition.replica_set.isr,
            )
            before = last_seen.get(partition, _UNSEEN)
            if before != seen:
                last_seen[partition] = seen
                self._check_partition(broker, partition)
                self._find_steps(broker, partition, before, seen)
        self._check_controller(broker)

    def _saw(self, step: Step) -> None:
        self.steps[step] += 1
        self.just_seen.append(step)

    def _find_steps(self, broker: BrokerProcess, partition: Partition, before: Seen, seen: Seen) -> None:
        end_before, _, _, epoch_before, did_lead, isr_before = before
        end, high_watermark, _, epoch, leads, isr = seen
        if end < end_before:
            self._saw(Step.TRUNCATED)
        if not leads:
            return
        if epoch != epoch_before:
            self._saw(Step.LEADER_ELECTED)
        elif did_lead and len(isr) != len(isr_before):
            self._saw(Step.ISR_GREW if len(isr) > len(isr_before) else Step.ISR_SHRANK)
        if end > end_before:
            if end > high_watermark:
                self._saw(Step.UNCOMMITTED)
            if partition.topic == TRANSACTIONS_TOPIC and coordinator_state.prepared_transactions(broker):
                self._saw(Step.TRANSACTION_PREPARED)
            if partition.topic == OFFSETS_TOPIC:
                self._check_groups(broker)

    def _check_groups(self, broker: BrokerProcess) -> None:
        if coordinator_state.has_rebalancing_group(broker):
            self._saw(Step.GROUP_REBALANCES)
            for what in coordinator_state.double_owners(broker):
                self._violated(f"two owners: {what}")

    def _check_partition(self, broker: BrokerProcess, partition: Partition) -> None:
        log = partition.log
        high_watermark, end_offset = log.high_watermark, log.log_end_offset
        if not log.log_start_offset <= high_watermark <= end_offset:
            self._violated(
                f"watermarks: {broker.name} has {partition.topic}-{partition.index} from {log.log_start_offset} to "
                f"{end_offset}, with the high watermark {high_watermark}"
            )
        key, epoch = _key(partition), partition.leader_epoch
        if not partition.is_leader:
            self._check_follower(broker, partition, key)
            return
        leader = self._leaders.get((key, epoch))
        if leader is None:
            self._leaders[key, epoch] = broker.broker_id
            self._newest_epoch[key] = max(epoch, self._newest_epoch.get(key, -1))
        elif leader != broker.broker_id:
            self._violated(
                f"two leaders: broker-{leader} and {broker.name} lead {partition.topic}-{partition.index} "
                f"in epoch {epoch}"
            )
        committed = self._committed.get(key, 0)
        if epoch == self._newest_epoch[key]:
            if end_offset < committed:
                self._violated(
                    f"lost: {broker.name} leads {partition.topic}-{partition.index} in epoch {epoch} and ends at "
                    f"{end_offset}, {committed} was committed"
                )
            self._check_in_sync_replicas(partition, max(committed, high_watermark), epoch)
        if high_watermark > committed:
            self._committed[key] = high_watermark

    def _check_follower(self, broker: BrokerProcess, partition: Partition, key: Key) -> None:
        """A follower that its leader counts as in sync has what was committed, also when it has just truncated."""
        epoch = partition.leader_epoch
        leader_id = self._leaders.get((key, epoch))
        leader = None if leader_id is None else self._by_name[f"broker-{leader_id}"]
        if leader is None or not leader.is_serving or epoch != self._newest_epoch[key]:
            return
        theirs = leader.find_partition(partition.topic, partition.index)
        if theirs is not None and theirs.is_leader and theirs.leader_epoch == epoch and broker.broker_id in theirs.isr:
            self._check_in_sync_replicas(theirs, self._committed.get(key, 0), epoch)

    def _check_in_sync_replicas(self, partition: Partition, committed: int, epoch: int) -> None:
        """Every replica that may become the next leader has all committed records."""
        for replica in partition.isr:
            broker = self._by_name.get(f"broker-{replica}")
            if broker is None or not broker.is_serving:
                continue
            theirs = broker.find_partition(partition.topic, partition.index)
            if theirs is None or theirs.topic_id != partition.topic_id or theirs.leader_epoch != epoch:
                continue
            if theirs.log.log_end_offset < committed:
                self._violated(
                    f"lost: broker-{replica} is in sync for {partition.topic}-{partition.index} in epoch {epoch} and "
                    f"ends at {theirs.log.log_end_offset}, {committed} was committed"
                )

    def _check_controller(self, broker: BrokerProcess) -> None:
        epoch = broker.active_controller_epoch()
        if epoch is None:
            return
        controller = self._controllers.get(epoch)
        if controller is None:
            self._controllers[epoch] = broker.broker_id
            self._saw(Step.CONTROLLER_ELECTED)
        elif controller != broker.broker_id:
            self._violated(f"two controllers: broker-{controller} and {broker.name} are active in epoch {epoch}")
        if self._is_controller_writing:
            self._is_controller_writing = False
            self._saw(Step.CONTROLLER_WRITES)

    # --- fences ---

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at every read of a fetch, at what a controller is about to write, and at deliveries."""
        read: Any = replica_fetch._read
        write = ControllerTree._write

        def watched(partition: Partition, fetch: Any, *limits: Any) -> Any:
            reply = read(partition, fetch, *limits)
            if fetch.current_leader_epoch not in (-1, partition.leader_epoch):
                self._violated(
                    f"stale fetch: {partition.topic}-{partition.index} is in leader epoch {partition.leader_epoch} and "
                    f"serves a fetch of epoch {fetch.current_leader_epoch}"
                )
            return reply

        async def watched_write(tree: ControllerTree, operations: Sequence[Operation]) -> list[Outcome]:
            self._is_controller_writing = any(_is_state(operation) for operation in operations)
            return await write(tree, operations)

        deliver = DelayedPartition.deliver

        def watched_delivery(delayed: DelayedPartition, now_ms: int) -> bool:
            self._check_delivery(delayed.partition, now_ms)
            return deliver(delayed, now_ms)

        begin, finish = LogCleaner._begin, LogCleaner._finish

        def watched_begin(cleaner: LogCleaner, candidate: Candidate) -> None:
            self._before_compaction(candidate.log)
            begin(cleaner, candidate)

        def watched_finish(cleaner: LogCleaner, cleaning: Cleaning, done: JobDone) -> None:
            finish(cleaner, cleaning, done)
            if cleaning.log.topic == DELAYED_TOPIC and done.bytes_written < done.bytes_read:
                self._saw(Step.DELAYED_COMPACTED)

        with (
            replaced(LogCleaner, "_begin", watched_begin),
            replaced(LogCleaner, "_finish", watched_finish),
            replaced(replica_fetch, "_read", watched),
            replaced(ControllerTree, "_write", watched_write),
            replaced(DelayedPartition, "deliver", watched_delivery),
        ):
            yield

    def _before_compaction(self, log: Log) -> None:
        for broker in self._by_name.values():
            partition = broker.find_partition(log.topic, log.partition) if broker.is_alive else None
            if partition is not None and partition.log is log and partition.topic == DELAYED_TOPIC:
                self._committed_of(partition)

    def _committed_of(self, partition: Partition) -> CommittedLog:
        committed = self._delayed.setdefault(_key(partition), CommittedLog())
        committed.extend(partition.log)
        return committed

    def waiting_values(self, partition: Partition) -> list[bytes | None]:
        """The values of the delayed records that wait in a partition, by the committed part of its log."""
        known = self._known_at_delivery.get(_key(partition), {})
        return self._committed_of(partition).replayed(partition.log.high_watermark, known).values()

    def _check_delivery(self, partition: Partition, now_ms: int) -> None:
        """A leader is about to deliver what is due by `now_ms`, if anything is."""
        log = partition.log
        known = self._known_at_delivery.setdefault(_key(partition), {})
        known[partition.leader_epoch, log.log_end_offset] = log.high_watermark
        for broker in self._by_name.values():
            is_here = broker.is_alive and broker.find_partition(partition.topic, partition.index) is partition
            if is_here and now_ms > broker.clock.wall_ms():
                self._violated(f"early: {broker.name} delivers what is due by {now_ms}, a time to come")

    def check_write(self, tree: MemoryTree, operations: Sequence[Operation]) -> None:
        """Look at a write to the metadata tree that has taken effect."""
        for operation in operations:
            if _is_state(operation):
                epoch = _controller_epoch(operation.data)
                newest = decode_controller_epoch(tree.node(paths.CONTROLLER_EPOCH).data)
                if epoch < newest:
                    self._violated(
                        f"replaced controller: {operation.path} is written by the controller of epoch {epoch}, "
                        f"epoch {newest} has begun"
                    )

    # --- at rest ---

    def check_at_rest(self, *, from_start: bool = False) -> None:
        """What takes too long to be looked at after every event."""
        for broker in self._by_name.values():
            if broker.is_serving:
                for difference in coordinator_state.differences(broker):
                    self._violated(f"replay: {broker.name} {difference}")
                for partition in broker.partitions():
                    if partition.topic == DELAYED_TOPIC:
                        self._check_delayed(broker, partition)
        self._compare_logs(from_start=from_start)

    def _check_delayed(self, broker: BrokerProcess, partition: Partition) -> None:
        known = self._known_at_delivery.get(_key(partition), {})
        committed = self._committed_of(partition)
        for difference in delayed_state.differences(broker, partition, committed, known):
            self._violated(f"delayed: {broker.name} has {partition.topic}-{partition.index}: {difference}")

    def _compare_logs(self, *, from_start: bool) -> None:
        """Compare the replicas of every partition, byte for byte, below the lowest of their high watermarks."""
        replicas: dict[Key, list[tuple[int, Log]]] = {}
        for broker in self._by_name.values():
            if broker.is_serving:
                for partition in broker.partitions():
                    replicas.setdefault(_key(partition), []).append((broker.broker_id, partition.log))
        for key, logs in replicas.items():
            for (first, log), (second, other) in pairwise(logs):
                try:
                    self._compare(key, first, log, second, other, from_start=from_start)
                except CorruptRecordError as error:
                    self._violated(f"corrupt: {key[0]}-{key[2]} on broker-{first} or broker-{second}: {error}")

    def _compare(self, key: Key, first: int, log: Log, second: int, other: Log, *, from_start: bool) -> None:
        start = max(log.log_start_offset, other.log_start_offset)
        if key in self._delayed:
            # Each replica is compacted by itself, below the last floor.
            start = max(start, self._delayed[key].floor)
        known = (key, first, second)
        if not from_start:
            start = max(start, self._compared.get(known, 0))
        end = min(log.high_watermark, other.high_watermark)
        for ours, theirs in zip(read_batches(log, start, end), read_batches(other, start, end), strict=False):
            if ours != theirs:
                self._violated(
                    f"logs differ: {key[0]}-{key[2]} on broker-{first} and broker-{second} between {start} and {end}"
                )
                return
        self._compared[known] = max(end, start)

    def _violated(self, what: str) -> None:
        if what not in self.violations and len(self.violations) < 20:
            self.violations.append(what)


def _is_state(operation: Operation) -> TypeGuard[Create | Set]:
    """Whether it writes the state of a partition: its leader and its in-sync replicas."""
    return isinstance(operation, Create | Set) and operation.path.endswith("/state")


def _controller_epoch(state: bytes) -> int:
    """The epoch of the controller that wrote the state of a partition."""
    epoch = json.loads(state)["controller_epoch"]
    assert isinstance(epoch, int), f"the controller epoch is a number: {epoch!r}"
    return epoch


def _key(partition: Partition) -> Key:
    return partition.topic, partition.topic_id, partition.index
