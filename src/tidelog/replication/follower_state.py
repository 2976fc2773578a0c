"""A leader's state of one follower: its log end offset, and when it was last caught up.

A follower says where its log ends with every Fetch: the offset that it asks for. It was caught up at the time of a
fetch that asked for the end of the leader's log. A fetch that asks for where the leader's log ended at the fetch before
proves that the follower was caught up at the time of that earlier fetch, so a follower of a busy leader counts as
caught up although it never sees the end.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_OFFSET: Final = -1
NEVER_MS: Final = -(2**62)
"""Earlier than every time of a monotonic clock."""


class FollowerState:
    """One follower, as its fetches show it. Times are monotonic."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS
        self.last_caught_up_ms = NEVER_MS
        self.broker_epoch = -1

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins. A follower in the ISR gets the time of a whole lag to prove that it belongs there.

        A leader that stays leader keeps what it knows of the follower's log.
        """
        self.last_caught_up_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = NEVER_MS
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if is_in_sync else NEVER_MS

    def record_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int = -1
    ) -> None:
        """The follower asked for `fetch_offset` while the leader's log ended at `leader_end_offset`."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether its log is as long as the leader's, or was within `replica.lag.time.max.ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_ms_max
