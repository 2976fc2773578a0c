"""What the replicas of a partition know of each other, compared with what is so: looked at when a broker has changed.

progress              a leader never believes that a follower has more of the log than it has
maximal ISR           what a leader commits is on every replica that it, or the controller, may count as in sync
joins                 no replica is proposed for the ISR before it has everything up to the start of the leader epoch
known ISR             the in-sync replicas that a leader knows with a partition epoch are those of it in the tree
epochs go on          neither the leader epoch nor the partition epoch of a replica goes back while its broker lives
epochs of the log     the leader epochs that a replica has noted lie within its log, and a follower that takes records
                      of its leader has noted the same as the leader for all that both have
stable                a leader's last stable offset is below every transaction whose marker is not committed, but for
                      markers from before a start: as in Kafka, a snapshot of producers does not say what ended
synced                with `flush.messages=1` nothing is committed that the disk of its leader has not synced

A replica whose host lost power may be shorter than its leader knows, until it has fetched again: `progress` passes over
brokers that ever did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tidelog.metadata.image import SHARE_STATE_TOPIC
from tidelog.records.header import read_header
from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import IsrProposal, ReplicaSet
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.replacing import replaced
from tidelog.testing.simulation.tree_rules import TreeRules

_NO_EPOCHS: Final = (-1, -1)
_TRANSACTIONAL: Final = ("orders",)
"""Topics that are written in transactions and not compacted."""


class _OpenTransactions:
    """The transactions of one log, by its batches, that have no marker or one that may still be lost."""

    def __init__(self, log_end_offset: int) -> None:
        self._generation = -1
        self._next = 0
        self._loaded_end = log_end_offset
        """Markers below it were there when the log was opened or cut off."""
        self._open: dict[int, int] = {}
        """The first offset of the transaction of each producer."""
        self._ended: list[tuple[int, int]] = []
        """First offset, and that of the marker."""

    def follow(self, partition: Partition) -> None:
        log = partition.log
        positions = log.positions
        if positions.generation != self._generation:
            if self._generation >= 0:
                self._loaded_end = positions.log_end_offset
            self._generation, self._next = positions.generation, positions.log_start_offset
            self._open.clear()
            self._ended.clear()
        for batch in read_batches(log, max(self._next, positions.log_start_offset), positions.written_end_offset):
            header = read_header(batch)
            self._next = header.next_offset
            if header.is_control:
                first = self._open.pop(header.producer_id, None)
                if first is not None and header.base_offset >= self._loaded_end:
                    self._ended.append((first, header.base_offset))
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, header.base_offset)

    def first_unstable(self, high_watermark: int) -> int | None:
        self._ended = [(first, marker) for first, marker in self._ended if marker >= high_watermark]
        return min((*self._open.values(), *(first for first, _ in self._ended)), default=None)


class ReplicaRules:
    """Looks at one partition of one broker at a time."""

    def __init__(self, by_name: Mapping[str, BrokerProcess], tree: TreeRules, violated: Callable[[str], None]) -> None:
        self._by_name = by_name
        self._tree = tree
        self._violated = violated
        self._epochs: dict[Partition, tuple[int, int]] = {}
        self._open: dict[Partition, _OpenTransactions] = {}

    def check(self, broker: BrokerProcess, partition: Partition, *, has_fetched: bool) -> None:
        """Look at a replica that has changed; `has_fetched`: a follower has more than before in this epoch."""
        if partition.is_offline:
            return
        self._check_epochs(broker, partition)
        self._check_noted_epochs(broker, partition)
        if partition.topic in _TRANSACTIONAL and partition not in self._open:
            self._open[partition] = _OpenTransactions(partition.log.log_end_offset)
        if partition.is_leader:
            self._check_followers(broker, partition)
            self._check_known_isr(broker, partition)
            self._check_stable(broker, partition)
        elif has_fetched:
            self._check_taken(broker, partition)

    def check_commit(self, broker: BrokerProcess, partition: Partition) -> None:
        """A leader has moved its high watermark."""
        high_watermark = partition.log.high_watermark
        for replica in partition.replica_set.maximal_isr:
            theirs = self._replica(replica, partition)
            if theirs is not None and theirs.log.log_end_offset < high_watermark:
                self._violated(
                    f"maximal ISR: {broker.name} commits {partition.topic}-{partition.index} up to {high_watermark}, "
                    f"broker-{replica} may be in sync and ends at {theirs.log.log_end_offset}"
                )
        if partition.log.config.flush_messages == 1:
            self._check_synced(broker, partition)

    # --- rules ---

    def _check_epochs(self, broker: BrokerProcess, partition: Partition) -> None:
        before = self._epochs.get(partition, _NO_EPOCHS)
        now = partition.leader_epoch, partition.replica_set.partition_epoch
        if now != before:
            self._epochs[partition] = now
            if now[0] < before[0] or now[1] < before[1]:
                self._violated(
                    f"epochs go back: {partition.topic}-{partition.index} on {broker.name} goes from leader epoch "
                    f"{before[0]} and partition epoch {before[1]} to {now[0]} and {now[1]}"
                )

    def _check_noted_epochs(self, broker: BrokerProcess, partition: Partition) -> None:
        log = partition.log
        noted = log.leader_epochs.entries()
        if noted and noted[-1].start_offset > log.log_end_offset:
            self._violated(
                f"epochs of the log: {partition.topic}-{partition.index} on {broker.name} ends at "
                f"{log.log_end_offset} and has noted that epoch {noted[-1].epoch} begins at {noted[-1].start_offset}"
            )

    def _check_taken(self, broker: BrokerProcess, partition: Partition) -> None:
        """A follower that takes records of its leader has a part of its leader's log."""
        leader = self._leader_of(partition)
        if leader is None or partition.log.config.is_compacted:
            return  # the batches in which an epoch began may be compacted away
        log, theirs = partition.log, leader.log
        start = max(log.log_start_offset, theirs.log_start_offset)
        end = min(log.log_end_offset, theirs.log_end_offset)
        if partition.topic == SHARE_STATE_TOPIC:
            # Its coordinator moves the start. A crash can take that back, and not what was forgotten of the epochs.
            begins = (each.log.leader_epochs.entries()[:1] for each in (partition, leader))
            start = max(start, *(entry.start_offset for entries in begins for entry in entries), 0)
        ours, noted = (list(_epochs_between(each, start, end)) for each in (partition, leader))
        if ours != noted:
            self._violated(
                f"epochs of the log: {partition.topic}-{partition.index} on {broker.name} has the epochs {ours} "
                f"between {start} and {end}, its leader {noted}"
            )

    def _check_followers(self, broker: BrokerProcess, partition: Partition) -> None:
        for replica, follower in partition.replica_set.followers.items():
            theirs = self._replica(replica, partition)
            if theirs is None or self._by_name[f"broker-{replica}"].has_lost_power:
                continue
            if follower.log_end_offset > theirs.log.log_end_offset:
                self._violated(
                    f"progress: {broker.name} believes that broker-{replica} has {partition.topic}-{partition.index} "
                    f"up to {follower.log_end_offset}, it ends at {theirs.log.log_end_offset}"
                )

    def _check_known_isr(self, broker: BrokerProcess, partition: Partition) -> None:
        replica_set = partition.replica_set
        written = self._tree.written_isr(partition.key, replica_set.partition_epoch)
        if written is not None and set(written) != set(replica_set.isr):
            self._violated(
                f"known ISR: {broker.name} knows {partition.topic}-{partition.index} with {replica_set.isr} in sync "
                f"in partition epoch {replica_set.partition_epoch}, the tree had {written}"
            )

    def _check_stable(self, broker: BrokerProcess, partition: Partition) -> None:
        if partition.topic not in _TRANSACTIONAL:
            return
        positions = partition.log.positions
        transactions = self._open[partition]
        transactions.follow(partition)
        limit = transactions.first_unstable(positions.high_watermark)
        if limit is not None and positions.last_stable_offset > limit:
            self._violated(
                f"stable: {broker.name} has {partition.topic}-{partition.index} stable up to "
                f"{positions.last_stable_offset}, the transaction that begins at {limit} has no committed marker"
            )

    def _check_synced(self, broker: BrokerProcess, partition: Partition) -> None:
        """The active segment of a log whose records are all committed is synced as a whole."""
        log = partition.log
        if broker.disk is None or log.high_watermark < log.log_end_offset:
            return
        active = log.active_segment
        unsynced = broker.disk.unsynced_bytes(active.log_file.path)
        if active.size_bytes and unsynced:
            self._violated(
                f"synced: {broker.name} commits {partition.topic}-{partition.index} up to {log.high_watermark} with "
                f"{unsynced} bytes that its disk has not synced"
            )

    def _check_join(self, replica_set: ReplicaSet, replica: int) -> None:
        broker = self._by_name.get(f"broker-{replica_set.local_id}")
        if broker is None or not broker.is_serving:
            return
        partition = next((each for each in broker.partitions() if each.replica_set is replica_set), None)
        theirs = None if partition is None else self._replica(replica, partition)
        if partition is None or theirs is None:
            return
        if theirs.log.log_end_offset < replica_set.leader_epoch_start_offset:
            self._violated(
                f"joins: {broker.name} wants broker-{replica} in the ISR of {partition.topic}-{partition.index}, which "
                f"ends at {theirs.log.log_end_offset} there, leader epoch {partition.leader_epoch} began at "
                f"{replica_set.leader_epoch_start_offset}"
            )

    def watched(self) -> Iterator[Any]:
        """What to replace while a simulation runs: context managers."""
        propose = ReplicaSet.propose_expansion

        def watched_proposal(
            replica_set: ReplicaSet, replica: int, leader_epoch: int, high_watermark: int
        ) -> IsrProposal | None:
            proposal = propose(replica_set, replica, leader_epoch, high_watermark)
            if proposal is not None:
                self._check_join(replica_set, replica)
            return proposal

        yield replaced(ReplicaSet, "propose_expansion", watched_proposal)

    # --- others ---

    def _replica(self, replica: int, partition: Partition) -> Partition | None:
        """What a broker has of a partition in the same leader epoch."""
        broker = self._by_name.get(f"broker-{replica}")
        if broker is None or not broker.is_serving:
            return None
        theirs = broker.find_partition(partition.topic, partition.index)
        if theirs is None or theirs.topic_id != partition.topic_id or theirs.leader_epoch != partition.leader_epoch:
            return None
        return None if theirs.is_offline else theirs

    def _leader_of(self, partition: Partition) -> Partition | None:
        for broker_id in range(len(self._by_name)):
            theirs = self._replica(broker_id, partition)
            if theirs is not None and theirs is not partition and theirs.is_leader:
                return theirs
        return None


def _epochs_between(partition: Partition, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The epochs of a part of a log, with the first offset of each there."""
    entries = partition.log.leader_epochs.entries()
    for place, entry in enumerate(entries):
        stop = entries[place + 1].start_offset if place + 1 < len(entries) else end
        first = max(entry.start_offset, start)
        if first < min(stop, end):
            yield entry.epoch, first
