"""The assignor `simple` of share groups (KIP-932): every partition has a member, and every member a partition.

With fewer members than partitions each partition has one member, with more of them several members share one: the
records of a partition are locked one by one, so its consumers need not be one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.groups.consumer.schemas import Assignment


def assign_simple(
    subscriptions: Mapping[str, frozenset[bytes]], partitions: Mapping[bytes, frozenset[int]]
) -> dict[str, Assignment]:
    """Targets by member; `subscriptions` are topic ids by member, `partitions` those that may be assigned by topic."""
    targets: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in subscriptions}
    if len(set(subscriptions.values())) == 1:
        members = sorted(subscriptions)
        wanted = subscriptions[members[0]]
        _deal(members, [(topic_id, index) for topic_id, index in _listed(partitions) if topic_id in wanted], targets)
    else:
        for topic_id in partitions:
            members = sorted(member_id for member_id, topics in subscriptions.items() if topic_id in topics)
            if members:
                _deal(members, _listed({topic_id: partitions[topic_id]}), targets)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
        for member_id, found in targets.items()
    }


def _listed(partitions: Mapping[bytes, frozenset[int]]) -> list[tuple[bytes, int]]:
    return [(topic_id, index) for topic_id in sorted(partitions) for index in sorted(partitions[topic_id])]


def _deal(
    members: Sequence[str], partitions: Sequence[tuple[bytes, int]], targets: dict[str, dict[bytes, set[int]]]
) -> None:
    """Go round the longer of both lists once."""
    if not partitions:
        return
    for turn in range(max(len(members), len(partitions))):
        topic_id, index = partitions[turn % len(partitions)]
        targets[members[turn % len(members)]].setdefault(topic_id, set()).add(index)
