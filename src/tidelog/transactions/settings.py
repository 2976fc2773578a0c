"""The settings that the transaction coordinator's core needs, and no others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Defaults are Kafka's."""

    id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """A transactional id that has not been used for so long is removed."""
    abort_timed_out_interval_ms: int = 10_000
    """Interval of the search for transactions past their timeout."""
    remove_expired_interval_ms: int = 60 * 60 * 1000
    """Interval of the search for unused transactional ids."""
    retry_backoff_ms: int = 100
    """Wait before a rejected marker or record is written again."""
