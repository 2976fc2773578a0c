"""The timers of members of consumer groups: which there are, and how they are named.

A member of the newer protocol has a session and, while it gives up partitions, a time to do so. A classic member has a
session of its own length, a time to join again once it was told to, and a time to ask for its assignment afterwards.
"""

from __future__ import annotations

from typing import Final

from tidelog.coordination import CancelTimer, SetTimer

SESSION: Final = "session"
"""A member has not been heard of for its session timeout."""
REVOCATION: Final = "revocation"
"""A member had until now to give up partitions."""
REJOIN: Final = "rejoin"
"""A classic member had until now to join again."""
RESYNC: Final = "resync"
"""A classic member had until now to ask for its assignment."""

PURPOSES: Final = frozenset({SESSION, REVOCATION, REJOIN, RESYNC})


def set_timer(purpose: str, group_id: str, member_id: str, delay_ms: int) -> SetTimer:
    return SetTimer((purpose, group_id, member_id), delay_ms)


def cancel(group_id: str, member_id: str, *purposes: str) -> list[CancelTimer]:
    """Timers of a member that are not needed any more; all of them, if none is named."""
    return [CancelTimer((purpose, group_id, member_id)) for purpose in purposes or sorted(PURPOSES)]
