"""The settings of a share group as they hold now: its own within the broker's bounds, else the broker's."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.coordinators.share_partitions import ShareGroupRules
from tidelog.config import BrokerConfig
from tidelog.config.entities import effective_group
from tidelog.replication.partition import READ_COMMITTED
from tidelog.sharing.dead_letters import DeadLetterRules
from tidelog.sharing.partition import ShareLimits


def rules_of(config: BrokerConfig, overrides: Mapping[str, str], *, may_have_dead_letters: bool) -> ShareGroupRules:
    """The rules of a group with these settings of its own."""
    own = effective_group(overrides, config)
    age_ms = own.reset_age_ms
    dead_letters = None
    if may_have_dead_letters and own.errors_deadletterqueue_topic_name:
        dead_letters = DeadLetterRules(
            topic=own.errors_deadletterqueue_topic_name,
            copies_records=own.errors_deadletterqueue_copy_record_enable,
            name_prefix=config.errors_deadletterqueue_topic_name_prefix,
            may_create=config.errors_deadletterqueue_auto_create_topics_enable,
        )
    return ShareGroupRules(
        limits=ShareLimits(
            lock_ms=own.share_record_lock_duration_ms,
            delivery_count_limit=own.share_delivery_count_limit,
            records_in_flight_max=own.share_partition_max_record_locks,
            retry_delays_ms=own.retry_delays_ms,
            has_dead_letters=dead_letters is not None,
        ),
        isolation_level=READ_COMMITTED if own.reads_committed else 0,
        auto_offset_reset=own.share_auto_offset_reset.lower() if age_ms is None else str(age_ms),
        can_renew=own.share_renew_acknowledge_enable,
        dead_letters=dead_letters,
        sessions_max=config.group_share_max_share_sessions,
    )
