"""Partitions, their logs and their replicas: `kafka.cluster`, `kafka.log` and `kafka.server:type=ReplicaManager`.

Totals are added up while the samples of single partitions are made, and shown after them: a pass over thousands of
partitions must not be in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog.broker.metrics._shapes import Timer, counter, gauge, gauges
from tidelog.metrics import Family, Kind, labels_text
from tidelog.metrics.families import Sample

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.replication.partition import Partition

_LATE_MS: Final = 5 * 60 * 1000
"""How long after its timeout Kafka calls a transaction late."""

_OF_LOGS: Final[tuple[tuple[str, str, Callable[[Partition], int]], ...]] = (
    ("kafka_log_log_size", "Bytes of the log.", lambda each: each.log.size_bytes),
    ("kafka_log_log_numlogsegments", "Segments of the log.", lambda each: len(each.log.segments)),
    ("kafka_log_log_logstartoffset", "First offset of the log.", lambda each: each.log.log_start_offset),
    ("kafka_log_log_logendoffset", "Offset that the next record gets.", lambda each: each.log.log_end_offset),
    ("tidelog_log_highwatermark", "Offset up to which consumers read.", lambda each: each.log.high_watermark),
)


class _Totals:
    """What a pass over all partitions has added up."""

    def __init__(self) -> None:
        self.leaders = self.under_replicated = self.under_min_isr = self.at_min_isr = self.reassigning = 0
        self.producer_ids = self.late_transactions = self.offline = 0

    def add(self, partition: Partition, now_ms: int, transaction_max_ms: int) -> None:
        replica_set = partition.replica_set
        state = partition.log.producer_state
        self.producer_ids += len(state.producers)
        self.offline += partition.is_offline
        if not partition.is_leader:
            return
        self.leaders += 1
        self.under_replicated += len(replica_set.isr) < len(replica_set.replicas)
        self.under_min_isr += partition.is_under_min_isr
        self.at_min_isr += _is_at_min_isr(partition)
        self.reassigning += bool(replica_set.adding_replicas or replica_set.removing_replicas)
        self.late_transactions += state.has_late_transaction(now_ms, transaction_max_ms + _LATE_MS)


def _is_at_min_isr(partition: Partition) -> bool:
    needed = partition.replica_set.needed_in_sync(partition.log.config.min_insync_replicas)
    return partition.is_leader and len(partition.isr) == needed


class PartitionFamilies:
    """Every partition of this broker, and their totals."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._labels: dict[tuple[str, int], str] = {}
        self._flush_timer = Timer(node.flusher.times)

    def _labels_of(self, partition: Partition) -> str:
        """Labels are made once: a partition has ten samples on every page."""
        labels = self._labels.get(partition.key)
        if labels is None:
            labels = labels_text(("topic", "partition"), (partition.topic, str(partition.index)))
            self._labels[partition.key] = labels
        return labels

    def families(self) -> Iterator[Family]:
        partitions = list(self._node.replica_manager.partitions())
        if len(self._labels) > 2 * len(partitions) + 100:
            self._labels.clear()
        totals = _Totals()
        yield Family(
            "kafka_cluster_partition_underreplicated",
            Kind.GAUGE,
            "1 for a partition that this broker leads and that has replicas out of sync.",
            self._counted(partitions, totals),
        )
        of_replicas: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
            ("underminisr", "1 with fewer in-sync replicas than min.insync.replicas.", _is_under_min_isr),
            ("atminisr", "1 with just min.insync.replicas in-sync replicas.", _is_at_min_isr),
            ("insyncreplicascount", "In-sync replicas, on the leader.", _in_sync_count),
            ("replicascount", "Replicas, on the leader.", _replica_count),
            ("laststableoffsetlag", "Records that belong to open transactions or follow one.", _stable_lag),
        )
        for name, documentation, read in of_replicas:
            yield self._family(f"kafka_cluster_partition_{name}", documentation, partitions, read)
        for name, documentation, read in _OF_LOGS:
            yield self._family(name, documentation, partitions, read)
        yield from self._totals(totals, partitions)
        yield from self._flush_timer.families("kafka_log_logflushstats_logflushrateandtimems", "Time of syncs to disk.")
        yield from self._directories()

    def _counted(self, partitions: list[Partition], totals: _Totals) -> Iterator[Sample]:
        now_ms = self._node.clock.wall_ms()
        transaction_max_ms = self._node.config.transaction_max_timeout_ms
        for partition in partitions:
            totals.add(partition, now_ms, transaction_max_ms)
            yield "", self._labels_of(partition), int(_is_under_replicated(partition))

    def _family(
        self, name: str, documentation: str, partitions: list[Partition], read: Callable[[Partition], int]
    ) -> Family:
        samples = ((self._labels_of(each), int(read(each))) for each in partitions if not each.is_offline)
        return gauges(name, documentation, samples)

    def _totals(self, totals: _Totals, partitions: list[Partition]) -> Iterator[Family]:
        """Read after the pass over all partitions, as their samples are."""
        manager = self._node.replica_manager
        figures: tuple[tuple[str, str, Callable[[], int]], ...] = (
            ("leadercount", "Partitions that this broker leads.", lambda: totals.leaders),
            ("partitioncount", "Partitions of this broker.", lambda: len(partitions)),
            ("underreplicatedpartitions", "Led partitions with replicas out of sync.", lambda: totals.under_replicated),
            ("underminisrpartitioncount", "Led partitions below min.insync.replicas.", lambda: totals.under_min_isr),
            ("atminisrpartitioncount", "Led partitions at min.insync.replicas.", lambda: totals.at_min_isr),
            ("reassigningpartitions", "Led partitions that are reassigned.", lambda: totals.reassigning),
            (
                "offlinereplicacount",
                "Replicas in failed log directories.",
                lambda: totals.offline + manager.without_log,
            ),
            ("produceridcount", "Producers that the logs know.", lambda: totals.producer_ids),
            (
                "partitionswithlatetransactionscount",
                "Led partitions with a transaction that is open long after its timeout.",
                lambda: totals.late_transactions,
            ),
        )
        for suffix, documentation, figure in figures:
            name = f"kafka_server_replicamanager_{suffix}"
            yield Family(name, Kind.GAUGE, documentation, _later(figure))
        yield counter("kafka_server_replicamanager_isrshrinks", "Replicas that fell out of sync.", manager.isr_shrinks)
        yield counter("kafka_server_replicamanager_isrexpands", "Replicas that came into sync.", manager.isr_expands)
        yield counter(
            "kafka_server_replicamanager_failedisrupdates", "Changes of an ISR that failed.", manager.isr_updates_failed
        )

    def _directories(self) -> Iterator[Family]:
        log_manager = self._node.log_manager
        offline = log_manager.offline_directories()
        states = [(path, 0) for path in log_manager.live_directories()] + [(path, 1) for path in offline]
        yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Failed log directories.", len(offline))
        yield gauges(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 for a log directory that failed.",
            [(labels_text(("logDirectory",), (path,)), state) for path, state in states],
        )


def _is_under_replicated(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: Partition) -> bool:
    return partition.is_leader and partition.is_under_min_isr


def _in_sync_count(partition: Partition) -> int:
    return len(partition.isr) if partition.is_leader else 0


def _replica_count(partition: Partition) -> int:
    return len(partition.replicas) if partition.is_leader else 0


def _stable_lag(partition: Partition) -> int:
    return partition.log.high_watermark - partition.log.last_stable_offset


def _later(figure: Callable[[], int]) -> Iterator[Sample]:
    """One sample, whose value is read when its line is made."""
    yield "", "", figure()
