"""Mistakes that a test plants into the brokers of a simulation, to show that the simulation finds them.

Each is a change of one function, for as long as a `with` lasts. No setting reaches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from tidelog.client.aio.consumer.assignors.range import RangeAssignor
from tidelog.controller import tree as controller_tree
from tidelog.coordination.decision import Decision
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.groups.consumer import reconciliation
from tidelog.metadata.store import Check, Operation, Outcome, Store
from tidelog.records.delayed import Change
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.fetch_session_client import FetchEntry
from tidelog.replication.fetcher import Fetcher
from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import IsrProposal, ReplicaSet
from tidelog.storage.log import Log
from tidelog.storage.types import NO_EPOCH
from tidelog.transactions.shard import TransactionShard
from tidelog.wire.errors import ErrorCode


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Change one function, or another attribute, for as long as a `with` lasts."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def truncate_to_high_watermark() -> Iterator[None]:
    """A follower cuts its log at the high watermark when a leader epoch begins, as Kafka did before 0.11."""
    add, entry = Fetcher.add, Fetcher._entry

    def planted_add(self: Fetcher, partition: Partition) -> None:
        before = self._followed.get(partition.key)
        add(self, partition)
        followed = self._followed[partition.key]
        if followed is not before:
            self._truncate(followed, partition.log.high_watermark)

    def planted_entry(self: Fetcher, followed: Any) -> FetchEntry:
        return entry(self, followed)._replace(last_fetched_epoch=NO_EPOCH)

    with replaced(Fetcher, "add", planted_add), replaced(Fetcher, "_entry", planted_entry):
        yield


@contextmanager
def fetch_without_epoch_check() -> Iterator[None]:
    """A leader serves every fetch, whatever leader epoch the follower names."""
    readable_end, check_readable = Partition.readable_end, Partition.check_readable

    def planted_end(self: Partition, _epoch: int, *reader: Any) -> int:
        return readable_end(self, NO_EPOCH, *reader)

    def planted_check(self: Partition, _epoch: int, *, is_leader_only: bool = True) -> None:
        check_readable(self, NO_EPOCH, is_leader_only=is_leader_only)

    with replaced(Partition, "readable_end", planted_end), replaced(Partition, "check_readable", planted_check):
        yield


def expand_isr_too_early() -> Any:
    """A follower joins the in-sync replicas with its first fetch, however much it lacks."""

    def planted(self: ReplicaSet, replica: int, leader_epoch: int, _high_watermark: int) -> IsrProposal | None:
        if replica not in self.followers or self.pending is not None or replica in self.isr:
            return None
        return self._propose((*self.isr, replica), leader_epoch)

    return replaced(ReplicaSet, "propose_expansion", planted)


def commit_before_followers_have_it() -> Any:
    """The high watermark moves as soon as the leader has written, before any follower has."""

    def planted(_self: ReplicaSet, own_end_offset: int, *_: Any) -> int:
        return own_end_offset

    return replaced(ReplicaSet, "committed_end_offset", planted)


def controller_without_fencing() -> Any:
    """A controller writes whether or not another one has been elected since."""

    def planted(store: Store, operations: Sequence[Operation], _fence: Check) -> list[Outcome]:
        return store.submit_all(operations)

    return replaced(controller_tree, "_submit", planted)


def coordinator_answers_before_the_log_has_it() -> Any:
    """A coordinator answers as soon as its records are staged."""
    stage = CoordinatorRuntime._stage

    def planted(self: Any, active: Any, pending: Any, batch: bytearray) -> bool:
        is_staged = stage(self, active, pending, batch)
        pending.outcome = ErrorCode.NONE
        return is_staged

    return replaced(CoordinatorRuntime, "_stage", planted)


def markers_lost_when_a_coordinator_moves() -> Any:
    """A coordinator that loads a prepared transaction does not write the markers that are missing."""

    def planted(_self: TransactionShard, _now_ms: int) -> Decision[Any]:
        return Decision()

    return replaced(TransactionShard, "on_loaded", planted)


def accept_torn_tails() -> Any:
    """Recovery takes a batch whose checksum is wrong."""
    recovery = import_module("tidelog.storage.loading._rebuilding")
    reader = next(each for each in vars(recovery).values() if isinstance(each, type) and "_damaged" in vars(each))
    return replaced(reader, "_damaged", lambda *_: None)


def assign_partitions_twice() -> Any:
    """The leader of a classic group assigns every partition to every member."""
    assign = RangeAssignor.assign

    def planted(self: RangeAssignor, *arguments: Any) -> Any:
        plan = assign(self, *arguments)
        everything = sorted({partition for partitions in plan.values() for partition in partitions})
        return {member: list(everything) for member in plan}

    return replaced(RangeAssignor, "assign", planted)


def assign_before_revocation() -> Any:
    """The coordinator of a consumer group assigns a partition before its last owner has confirmed the revocation."""
    towards: Any = reconciliation._towards

    def planted(*arguments: Any) -> Any:
        return towards(*arguments[:-1], lambda *_: True)

    return replaced(reconciliation, "_towards", planted)


def followers_keep_what_was_delivered() -> Any:
    """A follower does not apply deliveries of delayed records: as the next leader it delivers them again."""
    take_effect = DelayedPartition._take_effect

    def planted(self: DelayedPartition, change: Change) -> None:
        take_effect(self, change if self.partition.is_leader else change._replace(removed=()))

    return replaced(DelayedPartition, "_take_effect", planted)


def forget_what_waits_without_the_setting() -> Any:
    """A replica looks after delayed records only by its topic's setting and its files, not by what it fetches."""
    return replaced(Log, "has_changes", property(lambda _: False))


def compact_what_waits() -> Any:
    """The floor below which changes of delayed records are compacted away ignores the records that wait."""
    return replaced(DelayedPartition, "floor_due", property(lambda self: self.applied_offset - self.applied_offset % 4))


PLANTED: Final[dict[str, Callable[[], Any]]] = {
    "truncation by high watermark instead of epoch": truncate_to_high_watermark,
    "no epoch check on fetch": fetch_without_epoch_check,
    "ISR expanded too early": expand_isr_too_early,
    "high watermark moved before the followers have it": commit_before_followers_have_it,
    "controller without fencing": controller_without_fencing,
    "a coordinator that answers before the log has it": coordinator_answers_before_the_log_has_it,
    "markers lost on a moved coordinator": markers_lost_when_a_coordinator_moves,
    "a torn tail accepted": accept_torn_tails,
    "a partition assigned to two members": assign_partitions_twice,
    "a partition assigned before it is revoked": assign_before_revocation,
    "a delayed record delivered twice after a leader change": followers_keep_what_was_delivered,
    "a delayed record forgotten after the setting was switched off": forget_what_waits_without_the_setting,
    "a delayed record compacted while it waits": compact_what_waits,
}
