"""A share group and its members, as they are in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelog.groups.consumer.schemas import Assignment, from_partitions
from tidelog.groups.share import schemas

NOTHING: Assignment = {}


class ShareMember(NamedTuple):
    """One member; a decision appends a changed copy."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: tuple[str, ...] = ()
    member_epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = NOTHING


class StateTopic(NamedTuple):
    """A topic with the partitions whose state is initialized."""

    name: str
    partitions: frozenset[int]


class ShareGroup:
    """State of one group; changed by `replay` alone."""

    __slots__ = (
        "assignment_epoch",
        "catalog_version",
        "epoch",
        "group_id",
        "initialized",
        "members",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Assignment] = {}
        self.initialized: Mapping[bytes, StateTopic] = {}
        """By topic id."""
        self.catalog_version = -1
        """The version of the cluster's topics that the target was last compared with; not stored."""

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribed_topics(self) -> set[str]:
        return {name for member in self.members.values() for name in member.subscribed_topics}

    # --- replay ---

    def replay(self, kind: int, member_id: str, value: bytes | None) -> None:
        """Apply a record; raises SchemaError if it cannot be read. The owner removes the group itself."""
        stored: Any = None if value is None else schemas.read_value(kind, value)
        if kind == schemas.GROUP_EPOCH:
            self.epoch = stored.epoch
        elif kind == schemas.TARGET_EPOCH:
            self.assignment_epoch = 0 if stored is None else stored.assignment_epoch
        elif kind == schemas.STATE_PARTITIONS:
            self.initialized = {} if stored is None else _state_topics(stored.initialized_topics)
        elif kind == schemas.TARGET:
            if stored is None:
                self.target.pop(member_id, None)
            else:
                self.target[member_id] = from_partitions(stored.topic_partitions)
        elif kind == schemas.MEMBER:
            self._replay_member(member_id, stored)
        elif kind == schemas.CURRENT:
            self._replay_current(member_id, stored)

    def _replay_member(self, member_id: str, stored: Any) -> None:
        if stored is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = self.members.get(member_id, ShareMember(member_id))._replace(
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            subscribed_topics=tuple(stored.subscribed_topic_names),
        )

    def _replay_current(self, member_id: str, stored: Any) -> None:
        # A compacted log may have a member's own record behind this one.
        member = self.members.get(member_id)
        if member is None:
            if stored is None:
                return
            member = ShareMember(member_id)
        if stored is None:
            self.members[member_id] = member._replace(member_epoch=0, previous_epoch=-1, assigned={})
            return
        self.members[member_id] = member._replace(
            member_epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            assigned=from_partitions(stored.assigned_partitions),
        )


def _state_topics(listed: Iterable[schemas.TopicPartitionsInfo]) -> dict[bytes, StateTopic]:
    return {entry.topic_id: StateTopic(entry.topic_name, frozenset(entry.partitions)) for entry in listed}
