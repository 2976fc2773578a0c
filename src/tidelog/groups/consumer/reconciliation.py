"""How a member moves from its current assignment to its target, a step with each heartbeat.

No partition has two owners: a member first revokes partitions and confirms that with its next heartbeat; only then is
the partition free, and only free partitions are assigned. Members do this independently, so that those whose assignment
stays the same never stop reading.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.groups.consumer.group import ConsumerMember, MemberState
from tidelog.groups.consumer.schemas import Assignment

IsFree = Callable[[bytes, int], bool]


def next_step(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    is_free: IsFree,
) -> ConsumerMember:
    """The member after its next step; itself if there is none. `owned` are the partitions it reported, if any."""
    epoch = member.member_epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or _overlap(owned, member.pending_revocation):
            return member
        # It has revoked all that its next epoch required, even if the target is further ahead and requires more.
        epoch = min(epoch + 1, target_epoch)
    elif member.state is MemberState.STABLE and epoch == target_epoch:
        return member
    return _towards(member, epoch, target_epoch, target, owned, is_free)


def _towards(
    member: ConsumerMember, epoch: int, target_epoch: int, target: Assignment, owned: Assignment | None, is_free: IsFree
) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    given_up: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    must_wait = False
    for topic_id in {*member.assigned, *target}:
        has = member.assigned.get(topic_id, frozenset())
        wanted = target.get(topic_id, frozenset())
        missing = wanted - has
        free = frozenset(partition for partition in missing if is_free(topic_id, partition))
        must_wait = must_wait or len(free) < len(missing)
        _put(kept, topic_id, has & wanted)
        _put(given_up, topic_id, has - wanted)
        _put(added, topic_id, free)
    if given_up and (owned is None or _overlap(owned, given_up)):
        # Its epoch stays until it has confirmed the revocation, so that it can still commit offsets meanwhile.
        return _changed(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, given_up)
    state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
    assigned = {
        topic_id: kept.get(topic_id, frozenset()) | added.get(topic_id, frozenset()) for topic_id in {*kept, *added}
    }
    return _changed(member, target_epoch, state, assigned, {})


def _changed(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Assignment, given_up: Assignment
) -> ConsumerMember:
    previous = member.member_epoch if epoch != member.member_epoch else member.previous_epoch
    return member._replace(
        member_epoch=epoch, previous_epoch=previous, state=state, assigned=assigned, pending_revocation=given_up
    )


def _put(assignment: dict[bytes, frozenset[int]], topic_id: bytes, partitions: frozenset[int]) -> None:
    if partitions:
        assignment[topic_id] = partitions


def _overlap(some: Assignment, others: Assignment) -> bool:
    return any(partitions & others.get(topic_id, frozenset()) for topic_id, partitions in some.items())


def is_within(some: Assignment, others: Assignment) -> bool:
    """Whether every partition of `some` is in `others`."""
    return all(partitions <= others.get(topic_id, frozenset()) for topic_id, partitions in some.items())
