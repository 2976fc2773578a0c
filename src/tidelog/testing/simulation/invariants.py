"""What must hold at every moment of a simulated cluster, seen from inside its brokers.

After every event the broker that has just run is looked at:

    one leader per epoch      two brokers never lead a partition in the same leader epoch
    one controller per epoch  two brokers are never the active controller of the same epoch
    committed stays           the leader of the newest epoch has everything that was ever committed, and so has every
                              replica that it or the tree counts as in sync
    watermarks                log start ≤ high watermark ≤ log end; the high watermark falls with a truncation alone
    min ISR                   nothing is committed while fewer replicas than `min.insync.replicas` are in sync
    one owner                 two members of a consumer group never have one partition (clients check classic groups)

At every read and write that they concern:

    fenced fetches            a fetch that names a leader epoch is served by a partition in that very epoch
    never early               a leader delivers delayed records at a time that its clock has reached

What is written to the metadata tree is looked at by `tree_rules`, what replicas know of each other by `replica_rules`,
what coordinators answer by `coordinator_watch`, what clients believe by `client_watch`.

And now and then, and at the end, whether all replicas hold the same bytes below their high watermarks, what the logs
say about epochs and sequences (`log_audit`), whether the state of every coordinator is what its log replays to
(`coordinator_state`), and whether delayed records were delivered as their log says (`delayed_state`). `max` of what a
leader ever committed outlives the leader: this is what clients were shown.

The steps of the protocol that are seen on the way are counted, and faults can be aimed at them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from itertools import pairwise
from typing import Any, Final

from tidelog.controller.tree import ControllerTree
from tidelog.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.metadata.store import Operation, Outcome
from tidelog.records.batch import iterate_records
from tidelog.records.errors import CorruptRecordError
from tidelog.replication import fetch as replica_fetch
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import Partition
from tidelog.storage.cleaner.jobs import JobDone
from tidelog.storage.cleaner.manager import Cleaning, LogCleaner
from tidelog.storage.cleaner.planning import Candidate
from tidelog.storage.log import Log
from tidelog.testing.simulation import coordinator_state, delayed_state
from tidelog.testing.simulation.client_watch import watching_clients
from tidelog.testing.simulation.coordinator_watch import watching_coordinators
from tidelog.testing.simulation.coverage import consumer_state, counting_states
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC, CommittedLog, Delivery
from tidelog.testing.simulation.log_audit import LogAudit
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.replacing import replaced
from tidelog.testing.simulation.replica_rules import ReplicaRules
from tidelog.testing.simulation.tree_rules import MOVE, TreeRules, is_state
from tidelog.wire.errors import ApiError, ErrorCode

Key = tuple[str, bytes, int]
"""A topic, its id and the number of a partition."""

Seen = tuple[int, int, int, int, bool, Sequence[int], int]
"""Log end, high watermark, log start, leader epoch, whether it leads, in-sync replicas, how often it was truncated."""

_UNSEEN: Final[Seen] = (0, 0, 0, -1, False, (), 0)


class Step(Enum):
    """What a broker has just done. The value is its name in the table of what happened."""

    LEADER_ELECTED = "leaders elected by the controller"
    ISR_SHRANK = "ISR shrunk"
    ISR_GREW = "ISR expanded"
    ISR_GROWN = "ISR expanded in the tree"
    TRUNCATED = "logs truncated"
    UNCOMMITTED = "appends before their commit"
    COMMITTED = "high watermarks moved by leaders"
    CONTROLLER_ELECTED = "controllers elected"
    MOVE_BEGUN = "reassignments begun"
    DELETION_BEGUN = "deletions begun"
    CONTROLLER_WRITES = "partition states written by the controller"
    TRANSACTION_PREPARED = "transactions prepared"
    GROUP_REBALANCES = "group rebalances"
    DELAYED_COMPACTED = "changes of delayed records compacted away"


class Invariants:
    """Watches the brokers of one simulation."""

    def __init__(self, brokers: list[BrokerProcess]) -> None:
        self.violations: list[str] = []
        self.steps: Counter[Step] = Counter()
        self.states: Counter[str] = Counter()
        """The states of the protocol that were reached."""
        self.refusals: Counter[str] = Counter()
        """The errors that brokers have met or answered, by name: what the protocol has for each case."""
        self.just_seen: list[Step] = []
        """The steps of the last event."""
        self.tree = TreeRules(brokers, self.violated)
        self._logs = LogAudit(self.violated)
        self._by_name = {broker.name: broker for broker in brokers}
        self._replicas = ReplicaRules(self._by_name, self.tree, self.violated)
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
        for beginning in self.tree.seen:
            self._saw(Step.MOVE_BEGUN if beginning == MOVE else Step.DELETION_BEGUN)
        self.tree.seen.clear()
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
                positions.generation,
            )
            before = last_seen.get(partition, _UNSEEN)
            if before != seen:
                last_seen[partition] = seen
                self._check_partition(broker, partition)
                # Before an epoch begins a replica may have written what its new leader does not have.
                has_fetched = seen[0] > before[0] and seen[3] == before[3]
                self._replicas.check(broker, partition, has_fetched=has_fetched)
                self._find_steps(broker, partition, before, seen)
        self._check_controller(broker)

    def _saw(self, step: Step) -> None:
        self.steps[step] += 1
        self.just_seen.append(step)

    def _find_steps(self, broker: BrokerProcess, partition: Partition, before: Seen, seen: Seen) -> None:
        end_before, high_watermark_before, _, epoch_before, did_lead, isr_before, generation_before = before
        end, high_watermark, _, epoch, leads, isr, generation = seen
        if end < end_before:
            self._saw(Step.TRUNCATED)
        if high_watermark < high_watermark_before and generation == generation_before:
            self.violated(
                f"watermarks: the high watermark of {partition.topic}-{partition.index} on {broker.name} falls from "
                f"{high_watermark_before} to {high_watermark}"
            )
        if not leads:
            return
        if high_watermark > high_watermark_before and did_lead and epoch == epoch_before:
            self._saw(Step.COMMITTED)
            self._replicas.check_commit(broker, partition)
            self._check_min_isr(broker, partition, max(len(isr), len(isr_before)))
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

    def _check_min_isr(self, broker: BrokerProcess, partition: Partition, in_sync: int) -> None:
        needed = partition.replica_set.needed_in_sync(partition.log.config.min_insync_replicas)
        if in_sync < needed:
            self.violated(
                f"min ISR: {broker.name} commits records of {partition.topic}-{partition.index} with {in_sync} "
                f"replicas in sync, {needed} are needed"
            )

    def _check_groups(self, broker: BrokerProcess) -> None:
        self.states.update(map(consumer_state, coordinator_state.consumer_states(broker)))
        if coordinator_state.has_rebalancing_group(broker):
            self._saw(Step.GROUP_REBALANCES)
            for what in coordinator_state.double_owners(broker):
                self.violated(f"two owners: {what}")

    def _check_partition(self, broker: BrokerProcess, partition: Partition) -> None:
        log = partition.log
        high_watermark, end_offset = log.high_watermark, log.log_end_offset
        if not log.log_start_offset <= high_watermark <= end_offset:
            self.violated(
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
            self.violated(
                f"two leaders: broker-{leader} and {broker.name} lead {partition.topic}-{partition.index} "
                f"in epoch {epoch}"
            )
        committed = self._committed.get(key, 0)
        if epoch == self._newest_epoch[key]:
            if end_offset < committed:
                self.violated(
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
        state = self.tree.states.get(partition.key)
        may_lead = state.isr if state is not None and state.leader_epoch == epoch else ()
        for replica in {*partition.isr, *may_lead}:
            broker = self._by_name.get(f"broker-{replica}")
            if broker is None or not broker.is_serving:
                continue
            theirs = broker.find_partition(partition.topic, partition.index)
            if theirs is None or theirs.topic_id != partition.topic_id or theirs.leader_epoch != epoch:
                continue
            if theirs.is_offline:
                continue
            if theirs.log.log_end_offset < committed:
                self.violated(
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
            self.violated(f"two controllers: broker-{controller} and {broker.name} are active in epoch {epoch}")
        if self.tree.has_grown:
            self.tree.has_grown = False
            self._saw(Step.ISR_GROWN)
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
                self.violated(
                    f"stale fetch: {partition.topic}-{partition.index} is in leader epoch {partition.leader_epoch} and "
                    f"serves a fetch of epoch {fetch.current_leader_epoch}"
                )
            return reply

        async def watched_write(tree: ControllerTree, operations: Sequence[Operation]) -> list[Outcome]:
            self._is_controller_writing = any(is_state(operation) for operation in operations)
            return await write(tree, operations)

        deliver = DelayedPartition.deliver

        def watched_delivery(delayed: DelayedPartition, now_ms: int) -> bool:
            self._check_delivery(delayed.partition, now_ms)
            return deliver(delayed, now_ms)

        make_error = ApiError.__init__

        def counted_error(error: ApiError, code: ErrorCode, *details: Any, **named: Any) -> None:
            make_error(error, code, *details, **named)
            if any(broker.world.running == name for name, broker in self._by_name.items()):
                self.refusals[ErrorCode(code).name] += 1

        begin, finish = LogCleaner._begin, LogCleaner._finish

        def watched_begin(cleaner: LogCleaner, candidate: Candidate) -> None:
            self._before_compaction(candidate.log)
            begin(cleaner, candidate)

        def watched_finish(cleaner: LogCleaner, cleaning: Cleaning, done: JobDone) -> None:
            finish(cleaner, cleaning, done)
            if cleaning.log.topic == DELAYED_TOPIC and done.bytes_written < done.bytes_read:
                self._saw(Step.DELAYED_COMPACTED)

        with (
            replaced(ApiError, "__init__", counted_error),
            replaced(LogCleaner, "_begin", watched_begin),
            replaced(LogCleaner, "_finish", watched_finish),
            replaced(replica_fetch, "_read", watched),
            replaced(ControllerTree, "_write", watched_write),
            replaced(DelayedPartition, "deliver", watched_delivery),
            watching_coordinators(self._by_name, self.violated),
            watching_clients(self.violated),
            counting_states(self.states),
            ExitStack() as rules,
        ):
            for watched_rule in self._replicas.watched():
                rules.enter_context(watched_rule)
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
                self.violated(f"early: {broker.name} delivers what is due by {now_ms}, a time to come")

    # --- at rest ---

    def check_at_rest(self, *, from_start: bool = False) -> None:
        """What takes too long to be looked at after every event."""
        for broker in self._by_name.values():
            if broker.is_serving:
                for difference in coordinator_state.differences(broker):
                    self.violated(f"replay: {broker.name} {difference}")
                for partition in broker.partitions():
                    if partition.topic == DELAYED_TOPIC:
                        self._check_delayed(broker, partition)
                    if partition.is_leader:
                        self._audit(broker, partition)
        self._compare_logs(from_start=from_start)

    def _audit(self, broker: BrokerProcess, partition: Partition) -> None:
        try:
            self._logs.extend(partition)
        except CorruptRecordError as error:
            self.violated(f"corrupt: {partition.topic}-{partition.index} on {broker.name}: {error}")

    def _check_delayed(self, broker: BrokerProcess, partition: Partition) -> None:
        known = self._known_at_delivery.get(_key(partition), {})
        committed = self._committed_of(partition)
        for difference in delayed_state.differences(broker, partition, committed, known):
            self.violated(f"delayed: {broker.name} has {partition.topic}-{partition.index}: {difference}")

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
                    self.violated(f"corrupt: {key[0]}-{key[2]} on broker-{first} or broker-{second}: {error}")

    def _compare(self, key: Key, first: int, log: Log, second: int, other: Log, *, from_start: bool) -> None:
        start = max(log.log_start_offset, other.log_start_offset)
        if key in self._delayed:
            # Each replica is compacted by itself, below the last floor.
            start = max(start, self._delayed[key].floor)
        known = (key, first, second)
        if not from_start:
            start = max(start, self._compared.get(known, 0))
        end = min(log.high_watermark, other.high_watermark)
        if _differ(log, other, start, end, is_cleaned=log.config.is_compacted and key not in self._delayed):
            self.violated(
                f"logs differ: {key[0]}-{key[2]} on broker-{first} and broker-{second} between {start} and {end}"
            )
            return
        self._compared[known] = max(end, start)

    def violated(self, what: str) -> None:
        if what not in self.violations and len(self.violations) < 20:
            self.violations.append(what)


def _differ(log: Log, other: Log, start: int, end: int, *, is_cleaned: bool) -> bool:
    """Whether two logs differ. Cleaned ones have gaps, each its own: only what both have is compared."""
    ours, theirs = read_batches(log, start, end), read_batches(other, start, end)
    if not is_cleaned:
        return any(mine != yours for mine, yours in zip(ours, theirs, strict=False))
    mine, yours = _records(ours), _records(theirs)
    return any(mine[offset] != yours[offset] for offset in mine.keys() & yours.keys())


def _records(batches: Iterable[bytes]) -> dict[int, tuple[object, object]]:
    return {record.offset: (record.key, record.value) for batch in batches for record in iterate_records(batch)}


def _key(partition: Partition) -> Key:
    return partition.topic, partition.topic_id, partition.index
