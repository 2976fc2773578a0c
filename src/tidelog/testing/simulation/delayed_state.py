"""Delayed records inside simulated brokers: what their logs say, by a model that keeps no index.

`CommittedLog` keeps the committed batches of a partition as they were before compaction. `Replayed` applies them from
the start. It knows which records wait, and checks each delivery against them:

    once          a delivered record waits until then, and its key, value and headers are those that were produced
    never early   the leader's clock has reached the due time, which is what the headers of the record ask for
    in order      no record that was committed before the leader decided is due earlier and left behind
    kept          a record that is copied to the end of the log is the same; below a floor nothing waits

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
    is_floor,
    parse_change,
    parse_delay_ms,
    parse_deliver_at_ms,
    parse_floor,
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


class CommittedLog:
    """The committed batches of a partition by base offset, in order."""

    def __init__(self) -> None:
        self.batches: dict[int, _Batch] = {}
        self.floor = self.floor_end = 0
        """The last floor, and the offset after its batch."""
        self.end = 0
        self._replayed: tuple[int, Replayed] | None = None

    def extend(self, log: Log) -> None:
        """Take in what a replica has that was not seen yet. To be called before any replica is compacted further."""
        for data in read_batches(log, max(self.end, log.log_start_offset), log.high_watermark):
            header = read_header(data)
            self.batches[header.base_offset] = _Batch(header, data)
            if is_floor(data, header):
                self.floor, self.floor_end = parse_floor(data), header.next_offset
        self.end = max(self.end, log.high_watermark)

    def replayed(self, end_offset: int, known: dict[Delivery, int]) -> Replayed:
        """What waits at an offset. At rest it is the same for all replicas."""
        if self._replayed is None or self._replayed[0] != end_offset:
            self._replayed = end_offset, Replayed(self, end_offset, known)
        return self._replayed[1]


class Replayed:
    """The delayed records of a partition up to an offset of its log, and what is wrong with their deliveries."""

    def __init__(self, committed: CommittedLog, end_offset: int, known: dict[Delivery, int]) -> None:
        """`known` has the high watermark that the leader had reached before it decided on a delivery."""
        self.waiting: dict[bytes, _Waiting] = {}
        self.problems: list[str] = []
        self._known = known
        self._pending: dict[int, list[tuple[bytes, Record]]] = {}
        batches = committed.batches
        for offset, batch in batches.items():
            if offset >= end_offset:
                break
            if not batch.header.is_control:
                continue
            change = batch.change
            if change is not None:
                announced = offset + change.lead
                follows = batches.get(announced) if change.lead and announced < end_offset else None
                if not change.lead or (follows is not None and follows.header.crc == change.crc):
                    self._apply(batch, change, follows)
            elif batch.header.producer_id in self._pending:
                self._end_transaction(batch)
            elif is_floor(batch.data, batch.header):
                self._check_floor(parse_floor(batch.data))

    def values(self) -> list[bytes | None]:
        """The values of the records that wait."""
        return [each.record.value for each in self.waiting.values()]

    def _apply(self, batch: _Batch, change: Change, follows: _Batch | None) -> None:
        if change.removed and follows is not None:
            self._deliver(batch.header, _timestamp(batch), change, follows)
        elif change.removed:
            self._copy(batch, change)
            return
        if not change.added:
            return
        added = [(packed, _record_of(unpack_entry(packed), batch.data)) for packed in change.added]
        if change.producer_id >= 0:
            self._pending.setdefault(change.producer_id, []).extend(added)
            return
        since = (follows or batch).header.next_offset
        for packed, record in added:
            self._wait(packed, record, since, _timestamp(batch))

    def _copy(self, batch: _Batch, change: Change) -> None:
        """Waiting records are copied to the end of the log; nothing else of them changes."""
        where = f"the copy at {batch.header.base_offset}"
        if len(change.removed) != len(change.added):
            self.problems.append(f"{where} has {len(change.added)} records for {len(change.removed)} that waited")
        for packed, copied in zip(change.removed, change.added, strict=False):
            waiting = self.waiting.pop(packed, None)
            record = _record_of(unpack_entry(copied), batch.data)
            if waiting is None:
                self.problems.append(f"{record.value!r} in {where} did not wait")
            elif waiting.record[2:] != record[2:] or _moved(packed, copied) != unpack_entry(copied):
                self.problems.append(f"{where} has {record!r} for {waiting.record!r}")
            else:
                self.waiting[copied] = waiting

    def _check_floor(self, floor: int) -> None:
        waiting = [*self.waiting, *(packed for some in self._pending.values() for packed, _ in some)]
        below = [packed for packed in waiting if unpack_entry(packed).location < floor]
        if below:
            self.problems.append(f"{len(below)} records wait below the floor {floor}")

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


def _moved(packed: bytes, copied: bytes) -> Entry:
    to = unpack_entry(copied)
    return unpack_entry(packed)._replace(location=to.location, distance=to.distance)


def differences(
    broker: BrokerProcess, partition: Partition, committed: CommittedLog, known: dict[Delivery, int]
) -> Iterator[str]:
    """What is wrong with the deliveries in a log, and where the index of the broker is not what the log says."""
    followed = broker.node.delayed.find(partition.topic, partition.index)
    applied = partition.log.high_watermark if followed is None else followed.applied_offset
    if applied > committed.end:
        return  # after a restart the high watermark may be behind the checkpoint
    replayed = committed.replayed(applied, known)
    yield from replayed.problems
    if followed is None:
        if replayed.waiting:
            yield f"{len(replayed.waiting)} records wait by the log, and the broker does not look after them"
        return
    # A replica that fetched a compacted log lacks changes below the last floor until it has applied that floor.
    floor = committed.floor
    indexed = [packed for packed in followed.index.ordered() if unpack_entry(packed).location >= floor]
    expected = sorted(packed for packed in replayed.waiting if unpack_entry(packed).location >= floor)
    if indexed != expected:
        yield f"{len(indexed)} records wait in the index, {len(expected)} by the log"
    elif followed.applied_offset >= committed.floor_end and len(followed.index) != len(indexed):
        yield f"{len(followed.index) - len(indexed)} records wait in the index below the floor {floor}"
