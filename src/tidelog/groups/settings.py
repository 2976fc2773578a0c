"""The settings that the group coordinator's core needs, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT_MAX: Final = 2**31 - 1
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member's JoinGroup may wait. It sends no heartbeats yet, so only this removes a client that died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 30 * 60 * 1000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = INT_MAX
    can_upgrade: bool = False
    """A classic group with members may become a consumer group (`group.consumer.migration.policy`)."""
    can_downgrade: bool = False
    """A consumer group with classic members may become a classic group."""
