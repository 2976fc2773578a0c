"""How a member moves from its current tasks to its target, a step with each heartbeat.

It first gives up the tasks that are not in its target, and confirms that with a later heartbeat; then it gets those
that no other member holds any more. Members do this independently, so that those whose tasks stay the same never stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.groups.streams.group import MemberState, Role, StreamsMember
from tidelog.groups.streams.tasks import NOTHING, TaskId, Tasks, TaskSet, grouped, task_ids
from tidelog.wire.errors import ApiError, ErrorCode

IsHeld = Callable[[TaskId, Role], bool]


def next_step(
    member: StreamsMember, target_epoch: int, target: TaskSet, owned: TaskSet | None, is_held: IsHeld
) -> StreamsMember:
    """The member after its next step; itself if there is none. `owned` are the tasks it reported, if any."""
    epoch = member.member_epoch
    if member.state is MemberState.UNKNOWN:
        if owned is None or not owned.is_empty:
            text = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
            raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        epoch = target_epoch
    elif member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or owned.overlaps(member.revoking):
            return member
        # It has revoked all that its next epoch required, even if the target is further ahead and requires more.
        epoch = min(epoch + 1, target_epoch)
    elif member.is_reconciled_to(target_epoch):
        return member
    return _towards(member, epoch, target_epoch, target, owned, is_held)


def _towards(
    member: StreamsMember, epoch: int, target_epoch: int, target: TaskSet, owned: TaskSet | None, is_held: IsHeld
) -> StreamsMember:
    kept = TaskSet(*(_both(has, wanted) for has, wanted in zip(member.assigned, target, strict=True)))
    given_up = TaskSet(*(_without(has, wanted) for has, wanted in zip(member.assigned, target, strict=True)))
    if not given_up.is_empty and (owned is None or owned.overlaps(given_up)):
        # Its epoch stays until it has confirmed the revocation, so that it can still commit offsets meanwhile.
        return _changed(member, epoch, MemberState.UNREVOKED_TASKS, kept, given_up, member.epochs)
    added, must_wait = _free(member, target, is_held)
    assigned = TaskSet(*(_together(some, more) for some, more in zip(kept, added, strict=True)))
    state = MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE
    epochs = {**member.epochs, **dict.fromkeys(task_ids(added.active), target_epoch)}
    return _changed(member, target_epoch, state, assigned, NOTHING, epochs)


def _free(member: StreamsMember, target: TaskSet, is_held: IsHeld) -> tuple[TaskSet, bool]:
    """Of the tasks that the member has yet to get: those that nobody holds, and whether there are others."""
    added = []
    must_wait = False
    for role in Role:
        missing = list(task_ids(_without(target[role], member.assigned[role])))
        free = [task for task in missing if not is_held(task, role)]
        must_wait = must_wait or len(free) < len(missing)
        added.append(grouped(free))
    return TaskSet(*added), must_wait


def _changed(
    member: StreamsMember,
    epoch: int,
    state: MemberState,
    assigned: TaskSet,
    revoking: TaskSet,
    epochs: Mapping[TaskId, int],
) -> StreamsMember:
    previous = member.member_epoch if epoch != member.member_epoch else member.previous_epoch
    active = {*task_ids(assigned.active), *task_ids(revoking.active)}
    return member._replace(
        member_epoch=epoch,
        previous_epoch=previous,
        state=state,
        assigned=assigned,
        revoking=revoking,
        epochs={task: since for task, since in epochs.items() if task in active},
    )


def _both(some: Tasks, others: Tasks) -> Tasks:
    return grouped(task for task in task_ids(some) if task[1] in others.get(task[0], ()))


def _without(some: Tasks, others: Tasks) -> Tasks:
    return grouped(task for task in task_ids(some) if task[1] not in others.get(task[0], ()))


def _together(some: Tasks, others: Tasks) -> Tasks:
    return grouped((*task_ids(some), *task_ids(others)))
