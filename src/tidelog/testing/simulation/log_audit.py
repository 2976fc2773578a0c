"""The committed part of every log, read once from its start to its end, batch by batch:

    offsets               each batch begins where the one before it ended
    leader epochs         never lower than before it
    producer epochs       no batch of an older epoch of a producer behind one of a newer epoch
    sequences             each batch of an idempotent producer continues the one before it, or begins an epoch at 0
    coordinator epochs    no marker of an older coordinator behind one of a newer coordinator

A log that is compacted, or that begins later than it was read to, has gaps: there only the epochs are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.records.batch import iterate_records
from tidelog.records.control import ControlType, control_type, parse_end_transaction_marker
from tidelog.records.header import SEQUENCE_MASK, BatchHeader, read_header
from tidelog.replication.partition import Partition
from tidelog.testing.simulation.log_batches import read_batches

_UNKNOWN = -1


@dataclass
class _Producer:
    epoch: int = _UNKNOWN
    last_sequence: int = _UNKNOWN
    coordinator_epoch: int = _UNKNOWN


@dataclass
class _Audited:
    """What is known of one log up to an offset."""

    name: str
    next_offset: int
    leader_epoch: int = _UNKNOWN
    producers: dict[int, _Producer] = field(default_factory=dict)


class LogAudit:
    """Reads the logs of one cluster. The committed part is the same on all replicas: any of them will do."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.markers = 0
        self._violated = violated
        self._audited: dict[tuple[str, bytes, int], _Audited] = {}

    def extend(self, partition: Partition) -> None:
        """Read on to where this replica knows its log to be committed."""
        log = partition.log
        key = partition.topic, partition.topic_id, partition.index
        audited = self._audited.get(key)
        if audited is None:
            audited = self._audited[key] = _Audited(f"{partition.topic}-{partition.index}", log.log_start_offset)
        end = log.high_watermark
        has_gaps = log.config.is_compacted or audited.next_offset < log.log_start_offset
        audited.next_offset = max(audited.next_offset, log.log_start_offset)
        for batch in read_batches(log, audited.next_offset, end):
            header = read_header(batch)
            if header.next_offset > end:
                return
            self._check(audited, header, batch, has_gaps=has_gaps)

    def _check(self, audited: _Audited, header: BatchHeader, batch: bytes, *, has_gaps: bool) -> None:
        where = f"{audited.name}@{header.base_offset}"
        if header.base_offset != audited.next_offset and not has_gaps:
            self._violated(f"gap: {where} follows offset {audited.next_offset - 1}")
        if header.partition_leader_epoch < audited.leader_epoch:
            self._violated(
                f"leader epoch: {where} is of epoch {header.partition_leader_epoch}, behind {audited.leader_epoch}"
            )
        audited.next_offset = header.next_offset
        audited.leader_epoch = header.partition_leader_epoch
        if header.producer_id < 0:
            return
        producer = audited.producers.setdefault(header.producer_id, _Producer())
        if header.producer_epoch < producer.epoch:
            self._violated(
                f"old producer: {where} is of epoch {header.producer_epoch} of producer {header.producer_id}, "
                f"epoch {producer.epoch} is before it"
            )
        if header.is_control:
            self._check_marker(where, producer, header, batch)
        elif header.base_sequence >= 0:
            self._check_sequence(where, producer, header, has_gaps=has_gaps)
        producer.epoch = header.producer_epoch

    def _check_sequence(self, where: str, producer: _Producer, header: BatchHeader, *, has_gaps: bool) -> None:
        expected = None
        if header.producer_epoch == producer.epoch and producer.last_sequence != _UNKNOWN:
            expected = (producer.last_sequence + 1) & SEQUENCE_MASK
        elif _UNKNOWN < producer.epoch < header.producer_epoch:
            expected = 0
        if expected is not None and header.base_sequence != expected and not has_gaps:
            self._violated(
                f"sequence: {where} has {header.base_sequence} of producer {header.producer_id} in epoch "
                f"{header.producer_epoch}, {expected} would follow"
            )
        producer.last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK

    def _check_marker(self, where: str, producer: _Producer, header: BatchHeader, batch: bytes) -> None:
        if header.producer_epoch != producer.epoch:
            producer.last_sequence = _UNKNOWN
        for record in iterate_records(batch):
            if control_type(record) not in (ControlType.COMMIT, ControlType.ABORT):
                return
            self.markers += 1
            epoch = parse_end_transaction_marker(record).coordinator_epoch
            if epoch < producer.coordinator_epoch:
                self._violated(
                    f"old coordinator: the marker at {where} is of coordinator epoch {epoch}, "
                    f"one of {producer.coordinator_epoch} is before it"
                )
            producer.coordinator_epoch = max(epoch, producer.coordinator_epoch)
