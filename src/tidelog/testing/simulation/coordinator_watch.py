"""Watches what the coordinators inside simulated brokers answer.

committed replies     a request is answered once its records, and those that it may depend on, are committed
current generations   offsets are taken from members of the present generation, or epoch, of a group alone
offsets go on         a member that takes over a partition commits no less than the one before it had (no client seeks)
markers after         markers are sent once the outcome of their transaction is committed in the coordinator's log
all markers           a transaction is complete once each of its partitions has its marker
honest commits        a consumer takes a commit as done only if a coordinator has accepted it
nothing half-taken    where the log has rejected a decision, the state is still what the log replays to
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from tidelog.client.aio.consumer.commits import OffsetCommits
from tidelog.coordination.active import ActiveShard, Pending
from tidelog.coordination.decision import Decision
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.groups.offset_requests import NO_GENERATION, Committer
from tidelog.groups.shard import GroupShard
from tidelog.metadata.image import TRANSACTIONS_TOPIC
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.testing.simulation.coordinator_state import differences
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.replacing import replaced
from tidelog.transactions.schemas import read_transaction_key, read_transaction_value
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.transaction import Transaction
from tidelog.wire.errors import ErrorCode

Violated = Callable[[str], None]

_NONE: Final = ErrorCode.NONE
_LOOKED_THROUGH: Final = 60
"""So many of the last offsets of a log are looked through for a marker."""
_PRODUCER: Final = 3
"""Where `commit_offsets` takes the producer of a transaction, behind the topics."""


@contextmanager
def watching_coordinators(brokers: Mapping[str, BrokerProcess], violated: Violated) -> Iterator[None]:
    """Look at every reply, every commit of offsets and every order to write markers."""
    with ExitStack() as undo:
        for owner, name, watched in (
            *_watched_replies(violated),
            *_watched_early_replies(violated),
            *_watched_commits(violated),
            *_watched_markers(brokers, violated),
            *_watched_rejections(brokers, violated),
        ):
            undo.enter_context(replaced(owner, name, watched))
        yield


def _watched_replies(violated: Callable[[str], None]) -> Iterator[tuple[Any, str, Any]]:
    on_committed, release = CoordinatorRuntime._on_committed, CoordinatorRuntime._release
    known: dict[int, ErrorCode] = {}
    """The outcomes that logs have reported, by the id of what waited for them."""

    def watched_committed(
        runtime: CoordinatorRuntime[Any], active: ActiveShard[Any], pending: Pending
    ) -> Callable[[ErrorCode, int], None]:
        report = on_committed(runtime, active, pending)
        known.pop(id(pending), None)

        def reported(code: ErrorCode, first_offset: int) -> None:
            known[id(pending)] = code
            report(code, first_offset)

        return reported

    def watched_release(runtime: CoordinatorRuntime[Any], active: ActiveShard[Any]) -> None:
        waiting = list(active.pending)
        release(runtime, active)
        left = {id(pending) for pending in active.pending}
        if active.is_closed:
            return
        for pending in waiting:
            if id(pending) not in left and (pending.answers or pending.then) and id(pending) not in known:
                violated(f"hasty reply: partition {active.partition} of a coordinator answers before the commit")

    yield CoordinatorRuntime, "_on_committed", watched_committed
    yield CoordinatorRuntime, "_release", watched_release


def _watched_early_replies(violated: Violated) -> Iterator[tuple[Any, str, Any]]:
    carry_out: Any = CoordinatorRuntime._carry_out

    def watched(
        runtime: CoordinatorRuntime[Any], active: ActiveShard[Any], decision: Decision[Any], respond: Any, now_ms: int
    ) -> None:
        if decision.records or respond is None or not active.pending:
            carry_out(runtime, active, decision, respond, now_ms)
            return
        answered: list[bool] = []

        def noted(reply: Any) -> None:
            answered.append(True)
            respond(reply)

        carry_out(runtime, active, decision, noted, now_ms)
        if answered and active.pending and not active.is_closed:
            violated(f"hasty reply: partition {active.partition} of a coordinator answers what waits for a commit")

    yield CoordinatorRuntime, "_carry_out", watched


# --- offsets ---


def _watched_commits(violated: Violated) -> Iterator[tuple[Any, str, Any]]:
    commit: Any = GroupShard.commit_offsets
    authors: dict[tuple[str, str, int], Committer] = {}
    """From whom the last offset of a partition was accepted."""
    accepted: set[tuple[str, str, int, int]] = set()

    def watched_commit(
        shard: GroupShard, group_id: str, committer: Committer, topics: Sequence[Any], *arguments: Any, **named: Any
    ) -> Any:
        decision = commit(shard, group_id, committer, topics, *arguments, **named)
        if decision.records:
            fault = _fault_of(shard, group_id, committer)
            if fault is not None:
                violated(f"old commit: {group_id} takes offsets of {fault}")
        # What is committed in a transaction counts only if that is.
        is_transactional = (arguments[_PRODUCER] if len(arguments) > _PRODUCER else named.get("producer")) is not None
        for topic, codes in zip(topics, decision.reply, strict=True):
            for place, (index, code) in zip(topic[1], codes[1], strict=True):
                if code is _NONE:
                    accepted.add((group_id, topic[0], index, place[1]))
                    if not is_transactional:
                        check_progress(shard, group_id, topic[0], place, committer)
        return decision

    def check_progress(shard: GroupShard, group_id: str, topic: str, place: Sequence[Any], by: Committer) -> None:
        """`place` begins with the partition and the offset; the shard has what was committed before."""
        key = group_id, topic, place[0]
        (before,) = shard.fetch_offsets(group_id, [(topic, [place[0]])], False)[topic]
        author = authors.get(key)
        authors[key] = by
        # One that a member repeats may come after a later one of its own.
        if before.committed is None or author is None or author[:2] == by[:2]:
            return
        if place[1] < before.committed.offset:
            violated(
                f"offsets go on: {by.member_id} in generation {by.generation} commits {place[1]} of "
                f"{topic}-{place[0]} for {group_id}, {author.member_id} in generation {author.generation} had "
                f"{before.committed.offset}"
            )

    commit_once: Any = OffsetCommits.commit_once

    async def watched_claim(commits: OffsetCommits, offsets: Any, *arguments: Any, **named: Any) -> None:
        await commit_once(commits, offsets, *arguments, **named)
        group_id = commits._link.group_id
        for place, value in offsets.items():
            if (group_id, place.topic, place.partition, value.offset) not in accepted:
                violated(
                    f"honest commits: a member of {group_id} takes {value.offset} of {place.topic}-{place.partition} "
                    f"as committed, no coordinator has accepted it"
                )

    yield GroupShard, "commit_offsets", watched_commit
    yield OffsetCommits, "commit_once", watched_claim


def _fault_of(shard: GroupShard, group_id: str, committer: Committer) -> str | None:
    """Why offsets may not be taken from a committer, if so."""
    group = shard.group(group_id)
    if group is None or group.is_empty or committer.generation == NO_GENERATION:
        return None
    if group.consumer is None:
        is_member, present = committer.member_id in group.members, group.generation
    else:
        member = group.consumer.members.get(committer.member_id)
        is_member, present = member is not None, -1 if member is None else member.member_epoch
    if not is_member:
        return f"{committer.member_id}, which is no member"
    if committer.generation != present:
        return f"generation {committer.generation}, in generation {present}"
    return None


# --- markers ---


def _watched_markers(brokers: Mapping[str, BrokerProcess], violated: Violated) -> Iterator[tuple[Any, str, Any]]:
    carry_out: Any = TransactionShard._carry_out
    on_loaded: Any = TransactionShard.on_loaded
    loading: list[TransactionShard] = []

    def watched_load(shard: TransactionShard, now_ms: int) -> Any:
        # What is at the end of a log that is loaded may not be committed yet: it can only be decided the same way.
        loading.append(shard)
        try:
            return on_loaded(shard, now_ms)
        finally:
            loading.remove(shard)

    def watched(shard: TransactionShard, transaction: Transaction) -> None:
        broker = next((each for each in brokers.values() if each.world.running == each.name), None)
        if broker is not None and shard not in loading:
            decided = _last_committed(broker, shard.partition, transaction.transactional_id)
            if decided is not None and (decided.state, decided.producer_epoch) != (
                transaction.state,
                transaction.producer_epoch,
            ):
                violated(
                    f"markers after: {broker.name} orders markers of {transaction.transactional_id} in "
                    f"{transaction.state.value}, its log has committed {decided.state.value}"
                )
        carry_out(shard, transaction)

    complete: Any = TransactionShard._complete

    def watched_complete(shard: TransactionShard, transactional_ids: Sequence[str], now_ms: int) -> Any:
        found = [shard.get(transactional_id) for transactional_id in transactional_ids]
        for transaction in [each for each in found if each is not None]:
            for topic, index in sorted(transaction.partitions):
                if _lacks_marker(brokers, topic, index, transaction.producer_id):
                    name = transaction.transactional_id
                    violated(f"all markers: {name} is complete, {topic}-{index} has no marker of it")
        return complete(shard, transactional_ids, now_ms)

    yield TransactionShard, "_complete", watched_complete
    yield TransactionShard, "on_loaded", watched_load
    yield TransactionShard, "_carry_out", watched


def _lacks_marker(brokers: Mapping[str, BrokerProcess], topic: str, index: int, producer_id: int) -> bool:
    """Whether the end of a partition's log, at its newest leader, has records of a producer and no marker behind."""
    leaders = [
        partition
        for broker in brokers.values()
        if broker.is_serving
        if (partition := broker.find_partition(topic, index)) is not None and partition.is_leader
    ]
    if not leaders:
        return False
    log = max(leaders, key=lambda each: each.leader_epoch).log
    is_open = False
    start = max(log.log_start_offset, log.written_end_offset - _LOOKED_THROUGH)
    for batch in read_batches(log, start, log.written_end_offset):
        header = read_header(batch)
        if header.producer_id == producer_id and header.is_transactional:
            is_open = not header.is_control
    return is_open


def _last_committed(broker: BrokerProcess, index: int, transactional_id: str) -> Transaction | None:
    """What the committed part of a coordinator's log says last of a transactional id."""
    partition = broker.find_partition(TRANSACTIONS_TOPIC, index)
    if partition is None or not partition.is_leader:
        return None
    last = None
    log = partition.log
    for batch in read_batches(log, log.log_start_offset, log.high_watermark):
        for record in iterate_records(batch):
            if (
                record.key is not None
                and record.value is not None
                and read_transaction_key(record.key) == (transactional_id)
            ):
                last = read_transaction_value(transactional_id, record.value)
    return last


# --- rejected decisions ---


def _watched_rejections(brokers: Mapping[str, BrokerProcess], violated: Violated) -> Iterator[tuple[Any, str, Any]]:
    refused: Any = CoordinatorRuntime._refused

    def watched(runtime: CoordinatorRuntime[Any], active: ActiveShard[Any], pending: Pending, code: ErrorCode) -> None:
        refused(runtime, active, pending, code)
        broker = next((each for each in brokers.values() if each.world.running == each.name), None)
        if broker is not None and not active.is_closed:
            broker.world.after(0.0, lambda: look(broker))

    def look(broker: BrokerProcess) -> None:
        if broker.is_serving:
            for difference in differences(broker):
                violated(f"replay: {broker.name} {difference}")

    yield CoordinatorRuntime, "_refused", watched
