"""Collects the parts of a decision: one operation may answer many members and set many timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.coordination import Answer, CancelTimer, Decision, Respond, SetTimer, StateRecord, TimerChange
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.member import Member
from tidelog.wire.errors import ErrorCode

TimerKey: TypeAlias = tuple[str, str, str]
"""Purpose, group id, member id."""

SESSION: Final = "session"
"""Session timeout of a member, or of a new member id that no client has joined with."""
JOIN: Final = "join"
"""End of the join phase."""
SYNC: Final = "sync"
"""Deadline for SyncGroup."""


class Effects:
    """Collects records, timers and answers; `decide` makes the decision."""

    __slots__ = ("answers", "records", "then", "timers")

    def __init__(self) -> None:
        self.records: list[StateRecord] = []
        self.timers: list[TimerChange] = []
        self.answers: list[Answer] = []
        self.then: Callable[[ErrorCode, int], Decision[Any]] | None = None

    def answer(self, respond: Respond | None, reply: object) -> bool:
        """Answer a waiting request; False when there is none."""
        if respond is None:
            return False
        self.answers.append(Answer(respond, reply))
        return True

    def keep_alive(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Restart a member's session timeout."""
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.timers.append(SetTimer((SESSION, group.group_id, member.member_id), delay_ms))

    def forget_session(self, group: Group, member_id: str) -> None:
        self.timers.append(CancelTimer((SESSION, group.group_id, member_id)))

    def set_timer(self, purpose: str, group: Group, delay_ms: int) -> None:
        self.timers.append(SetTimer((purpose, group.group_id, ""), delay_ms))

    def cancel_timer(self, purpose: str, group: Group) -> None:
        self.timers.append(CancelTimer((purpose, group.group_id, "")))

    def decide(self, reply: Any = None) -> Decision[Any]:
        return Decision(reply, tuple(self.records), tuple(self.timers), tuple(self.answers), self.then)
