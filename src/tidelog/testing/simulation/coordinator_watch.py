"""Watches what the coordinators inside simulated brokers answer.

committed replies     a request is answered once its records, and those that it may depend on, are committed
current generations   offsets are taken from members of the present generation, or epoch, of a group alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tidelog.coordination.active import ActiveShard, Pending
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.groups.offset_requests import NO_GENERATION, Committer
from tidelog.groups.shard import GroupShard
from tidelog.testing.simulation.replacing import replaced
from tidelog.wire.errors import ErrorCode


@contextmanager
def watching_coordinators(violated: Callable[[str], None]) -> Iterator[None]:
    """Look at every release of replies and at every commit of offsets."""
    with ExitStack() as undo:
        for owner, name, watched in (*_watched_replies(violated), *_watched_commits(violated)):
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


def _watched_commits(violated: Callable[[str], None]) -> Iterator[tuple[Any, str, Any]]:
    commit: Any = GroupShard.commit_offsets

    def watched_commit(shard: GroupShard, group_id: str, committer: Committer, *arguments: Any, **named: Any) -> Any:
        decision = commit(shard, group_id, committer, *arguments, **named)
        if decision.records:
            fault = _fault_of(shard, group_id, committer)
            if fault is not None:
                violated(f"old commit: {group_id} takes offsets of {fault}")
        return decision

    yield GroupShard, "commit_offsets", watched_commit


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
