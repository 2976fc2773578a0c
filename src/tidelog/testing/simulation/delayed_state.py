"""Delayed records inside simulated brokers: what their logs say, by a model that keeps no index.

`Replayed` reads the committed batches of a partition from the start. It knows which records wait, and checks each
delivery against them:

    once          a delivered record waits until then, and its key, value and headers are those that were produced
    never early   the leader's clock has reached the due time, which is what the headers of the record ask for
    in order      no record that was committed before the leader decided is due earlier and left behind

`differences` compares the index of a broker with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.records.batch import iterate_records
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.delayed import (
    DELAY_HEADER,
    DELIVER_AT_HEADER,
    WAITING_SIZE_BYTES,
    Change,
    Entry,
    build_delivery,
    is_change,
    parse_change,
    parse_delay_ms,
    parse_deliver_at_ms,
    unpack_entry,
    waiting_size,
)
from tidelog.records.header import BatchHeader, read_header
from tidelog.records.record import Record
from tidelog.replication.partition import Partition
from tidelog.storage.log import Log
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess

DELAYED_TOPIC: Final = "reminders"

Delivery = tuple[int, int]
"""The leader epoch of a delivery, and the offset of its change."""


class _Waiting(NamedTuple):
    record: Record
    since: int
    """The offset after the batch that made it wait: that of its producer, or the marker of its transaction."""


class _Batch(NamedTuple):
    header: BatchHeader
    data: bytes

    @property
    def change(self) -> Change | None:
        return parse_change(self.data) if is_change(self.data, self.header) else None


class Replayed:
    """The delayed records of a partition up to an offset of its log, and what is wrong with their deliveries."""

    def __init__(self, log: Log, end_offset: int, known: dict[Delivery, int]) -> None:
        """`known` has the high watermark that the leader had reached before it decided on a delivery."""
        self.waiting: dict[bytes, _Waiting] = {}
        self.problems: list[str] = []
        self._known = known
        self._pending: dict[int, list[tuple[bytes, Record]]] = {}
        batches = {
            header.base_offset: _Batch(header, data)
            for data in read_batches(log, log.log_start_offset, end_offset)
            for header in (read_header(data),)
        }
        for batch in batches.values():
            change = batch.change
            if change is not None:
                follows = batches.get(batch.header.base_offset + change.lead) if change.lead else None
                if not change.lead or (follows is not None and follows.header.crc == change.crc):
                    self._apply(batch, change, follows)
            elif batch.header.is_control and batch.header.producer_id in self._pending:
                self._end_transaction(batch)

    def values(self) -> list[bytes | None]:
        """The values of the records that wait."""
        return [each.record.value for each in self.waiting.values()]

    def _apply(self, batch: _Batch, change: Change, follows: _Batch | None) -> None:
        if change.removed and follows is not None:
            self._deliver(batch.header, _timestamp(batch), change, follows)
        elif change.removed:
            self.problems.append(f"records were dropped by the change at {batch.header.base_offset}")
        if not change.added:
            return
        added = [(packed, _record_of(unpack_entry(packed), batch.data)) for packed in change.added]
        if change.producer_id >= 0:
            self._pending.setdefault(change.producer_id, []).extend(added)
            return
        since = (follows or batch).header.next_offset
        for packed, record in added:
            self._wait(packed, record, since, _timestamp(batch))

    def _end_transaction(self, marker: _Batch) -> None:
        entries = self._pending.pop(marker.header.producer_id)
        for control in iterate_records(marker.data):
            if parse_end_transaction_marker(control).is_commit:
                for packed, record in entries:
                    entry = unpack_entry(packed)
                    if entry.deliver_at_ms < 0:
                        entry = entry._replace(deliver_at_ms=control.timestamp - entry.deliver_at_ms)
                    self._wait(entry.pack(), record, marker.header.next_offset, control.timestamp)

    def _wait(self, packed: bytes, record: Record, since: int, now_ms: int) -> None:
        due_ms = _asked_for_ms(record, now_ms)
        if unpack_entry(packed).deliver_at_ms != due_ms:
            self.problems.append(f"{record.value!r} waits until {unpack_entry(packed).deliver_at_ms}, not {due_ms}")
        self.waiting[packed] = _Waiting(record, since)

    def _deliver(self, header: BatchHeader, decided_ms: int, change: Change, follows: _Batch) -> None:
        where = f"the delivery at {header.base_offset}"
        delivered = list(iterate_records(follows.data))
        if len(delivered) != len(change.removed):
            self.problems.append(f"{where} has {len(delivered)} records for {len(change.removed)} that waited")
        for packed, record in zip(change.removed, delivered, strict=False):
            waiting = self.waiting.pop(packed, None)
            if waiting is None:
                self.problems.append(f"delivered twice: {record.value!r} in {where} did not wait")
            elif waiting.record[2:] != record[2:]:
                self.problems.append(f"{where} has {record!r} for {waiting.record!r}")
            if unpack_entry(packed).deliver_at_ms > decided_ms:
                self.problems.append(f"early: {record.value!r} in {where}, which was decided at {decided_ms}")
        self._check_order(where, header, change)

    def _check_order(self, where: str, header: BatchHeader, change: Change) -> None:
        if list(change.removed) != sorted(change.removed):
            self.problems.append(f"{where} is not in the order of due times")
        known_end = self._known.get((header.partition_leader_epoch, header.base_offset), 0)
        last = max(change.removed)
        for packed, waiting in self.waiting.items():
            if packed < last and waiting.since <= known_end:
                self.problems.append(f"{where} leaves {waiting.record.value!r} behind, which was due earlier")


def _record_of(entry: Entry, data: bytes) -> Record:
    """A waiting record, out of the control batch that it lies in."""
    start = len(data) - 1 - entry.distance
    size = waiting_size(data[start : start + WAITING_SIZE_BYTES])
    tail = data[start + WAITING_SIZE_BYTES : start + WAITING_SIZE_BYTES + size]
    return next(iterate_records(build_delivery([(0, tail)])))


def _asked_for_ms(record: Record, now_ms: int) -> int:
    """The due time by the headers of a record, whose delay begins now."""
    headers = {name.encode(): value or b"" for name, value in record.headers}
    if DELAY_HEADER in headers:
        return now_ms + parse_delay_ms(headers[DELAY_HEADER])
    return parse_deliver_at_ms(headers[DELIVER_AT_HEADER])


def _timestamp(batch: _Batch) -> int:
    return next(iterate_records(batch.data)).timestamp


def waiting_values(partition: Partition) -> list[bytes | None]:
    """The values of the records that wait in a partition, by the committed part of its log."""
    return Replayed(partition.log, partition.log.high_watermark, {}).values()


def differences(broker: BrokerProcess, partition: Partition, known: dict[Delivery, int]) -> Iterator[str]:
    """What is wrong with the deliveries in a log, and where the index of the broker is not what the log says."""
    followed = broker.node.delayed.find(partition.topic, partition.index)
    if followed is None:
        return
    replayed = Replayed(partition.log, followed.applied_offset, known)
    yield from replayed.problems
    indexed = list(followed.index.ordered())
    if indexed != sorted(replayed.waiting):
        yield f"{len(indexed)} records wait in the index, {len(replayed.waiting)} by the log"
