"""What must hold at every moment of a simulated cluster, seen from inside its brokers.

After every event the broker that has just run is looked at:

    one leader per epoch      two brokers never lead a partition in the same leader epoch
    one controller per epoch  two brokers are never the active controller of the same epoch
    committed stays           the leader of the newest epoch has everything that was ever committed, and so has every
                              in-sync replica that it counts
    watermarks                log start ≤ high watermark ≤ log end

and now and then, and at the end, whether all replicas hold the same bytes below their high watermarks. `max` of what a
leader ever committed outlives the leader: this is what clients were shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tidelog.records.batch import iterate_batches
from tidelog.replication.partition import Partition
from tidelog.storage.log import Log
from tidelog.testing.simulation.processes import BrokerProcess

Key = tuple[str, bytes, int]
"""A topic, its id and the number of a partition."""

_COMPARED_AT_ONCE: Final = 1 << 20


class Invariants:
    """Watches the brokers of one simulation."""

    def __init__(self, brokers: list[BrokerProcess]) -> None:
        self.violations: list[str] = []
        self.leader_changes = 0
        self.controller_changes = 0
        self._by_name = {broker.name: broker for broker in brokers}
        self._leaders: dict[tuple[Key, int], int] = {}
        self._newest_epoch: dict[Key, int] = {}
        self._committed: dict[Key, int] = {}
        self._controllers: dict[int, int] = {}
        self._compared: dict[tuple[Key, int, int], int] = {}

    def check(self, name: str) -> None:
        """Look at the broker that has just run."""
        broker = self._by_name.get(name)
        if broker is None or not broker.is_serving:
            return
        for partition in broker.partitions():
            self._check_partition(broker, partition)
        self._check_controller(broker)

    def _check_partition(self, broker: BrokerProcess, partition: Partition) -> None:
        log = partition.log
        high_watermark, end_offset = log.high_watermark, log.log_end_offset
        if not log.log_start_offset <= high_watermark <= end_offset:
            self._violated(
                f"watermarks: {broker.name} has {partition.topic}-{partition.index} from {log.log_start_offset} to "
                f"{end_offset}, with the high watermark {high_watermark}"
            )
        if not partition.is_leader:
            return
        key, epoch = _key(partition), partition.leader_epoch
        leader = self._leaders.get((key, epoch))
        if leader is None:
            self._leaders[key, epoch] = broker.broker_id
            self.leader_changes += 1
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
            self.controller_changes += 1
        elif controller != broker.broker_id:
            self._violated(f"two controllers: broker-{controller} and {broker.name} are active in epoch {epoch}")

    # --- bytes ---

    def compare_logs(self, *, from_start: bool = False) -> None:
        """Compare the replicas of every partition, byte for byte, below the lowest of their high watermarks."""
        replicas: dict[Key, list[tuple[int, Log]]] = {}
        for broker in self._by_name.values():
            if broker.is_serving:
                for partition in broker.partitions():
                    replicas.setdefault(_key(partition), []).append((broker.broker_id, partition.log))
        for key, logs in replicas.items():
            for (first, log), (second, other) in pairwise(logs):
                self._compare(key, first, log, second, other, from_start=from_start)

    def _compare(self, key: Key, first: int, log: Log, second: int, other: Log, *, from_start: bool) -> None:
        start = max(log.log_start_offset, other.log_start_offset)
        known = (key, first, second)
        if not from_start:
            start = max(start, self._compared.get(known, 0))
        end = min(log.high_watermark, other.high_watermark)
        for ours, theirs in zip(_batches(log, start, end), _batches(other, start, end), strict=False):
            if ours != theirs:
                self._violated(
                    f"logs differ: {key[0]}-{key[2]} on broker-{first} and broker-{second} between {start} and {end}"
                )
                return
        self._compared[known] = max(end, start)

    def _violated(self, what: str) -> None:
        if what not in self.violations and len(self.violations) < 20:
            self.violations.append(what)


def _key(partition: Partition) -> Key:
    return partition.topic, partition.topic_id, partition.index


def _batches(log: Log, start: int, end: int) -> Iterator[bytes]:
    """The batches of a log that begin between two offsets."""
    while start < end:
        read = log.read(start, _COMPARED_AT_ONCE, end, True)
        if read.slice is None:
            return
        data = read.slice.read()
        for position, header in iterate_batches(data):
            yield data[position : position + header.size_bytes]
            start = header.last_offset + 1
