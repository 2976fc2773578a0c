"""The timers of members of consumer groups, and their names.

A member of the newer protocol has a session timeout and, while it revokes partitions, a deadline for that. A classic
member has its own session timeout, a deadline for joining again, and one for SyncGroup afterwards.
"""

from __future__ import annotations

from typing import Final

from tidelog.coordination import CancelTimer, SetTimer

SESSION: Final = "session"
"""Session timeout of a member."""
REVOCATION: Final = "revocation"
"""Deadline for revoking partitions."""
REJOIN: Final = "rejoin"
"""Deadline of a classic member for joining again."""
RESYNC: Final = "resync"
"""Deadline of a classic member for SyncGroup."""

PURPOSES: Final = frozenset({SESSION, REVOCATION, REJOIN, RESYNC})


def set_timer(purpose: str, group_id: str, member_id: str, delay_ms: int) -> SetTimer:
    return SetTimer((purpose, group_id, member_id), delay_ms)


def cancel(group_id: str, member_id: str, *purposes: str) -> list[CancelTimer]:
    """Cancel a member's timers; all of them, if no purpose is given."""
    return [CancelTimer((purpose, group_id, member_id)) for purpose in purposes or sorted(PURPOSES)]
