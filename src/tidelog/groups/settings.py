"""The settings that the group coordinator's core needs, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

INT_MAX: Final = 2**31 - 1
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member's JoinGroup may wait. It sends no heartbeats yet, so only this removes a client that died."""


class ConsumerTimeouts(NamedTuple):
    """What a group of the newer protocol may have for itself."""

    session_ms: int
    heartbeat_interval_ms: int


CONSUMER_TIMEOUTS: Final = ConsumerTimeouts(45_000, 5_000)
"""Kafka's defaults."""

TimeoutsOf = Callable[[str], ConsumerTimeouts]
"""Those that hold for a group now."""


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
    consumer_timeouts: ConsumerTimeouts = CONSUMER_TIMEOUTS
    """Of groups of the newer protocol that have none of their own."""
    consumer_max_size: int = INT_MAX
    can_upgrade: bool = False
    """A classic group with members may become a consumer group (`group.consumer.migration.policy`)."""
    can_downgrade: bool = False
    """A consumer group with classic members may become a classic group."""
