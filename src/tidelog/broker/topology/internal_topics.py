"""What a topic is like that brokers create by themselves: one that a client named, or one that a coordinator needs.

`__consumer_offsets` and `__transaction_state` have settings of their own. Both are compacted: under the broker's
default policy, offsets and transactional ids would be deleted by age. `__share_group_state` is kept whole: its
coordinator deletes what snapshots have replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.config import BrokerConfig
from tidelog.metadata.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

_COMMIT_TIMEOUT_MS: Final = 5_000
"""How long records of transactions may take until every in-sync replica has them; there is no setting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One coordinator's topic, by the settings of its broker."""

    name: str
    noun: str
    """What its keys are."""
    partition_count: Callable[[BrokerConfig], int]
    replication_factor: Callable[[BrokerConfig], int]
    overrides: Callable[[BrokerConfig, int], dict[str, str]]
    """`(settings, replication factor)`: what it is created with, and what a topic found without them gets."""
    load_buffer_bytes: Callable[[BrokerConfig], int]
    commit_timeout_ms: Callable[[BrokerConfig], int]


def _offsets_overrides(config: BrokerConfig, _factor: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
        "compression.type": "producer",
    }


def _transactions_overrides(config: BrokerConfig, factor: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min(config.transaction_state_log_min_isr, factor)),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


def _share_state_overrides(config: BrokerConfig, factor: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(min(config.share_coordinator_state_topic_min_isr, factor)),
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
    }


OFFSETS: Final = InternalTopic(
    name=OFFSETS_TOPIC,
    noun="group",
    partition_count=lambda config: config.offsets_topic_num_partitions,
    replication_factor=lambda config: config.offsets_topic_replication_factor,
    overrides=_offsets_overrides,
    load_buffer_bytes=lambda config: config.offsets_load_buffer_size,
    commit_timeout_ms=lambda config: config.offsets_commit_timeout_ms,
)
TRANSACTIONS: Final = InternalTopic(
    name=TRANSACTIONS_TOPIC,
    noun="transactional id",
    partition_count=lambda config: config.transaction_state_log_num_partitions,
    replication_factor=lambda config: config.transaction_state_log_replication_factor,
    overrides=_transactions_overrides,
    load_buffer_bytes=lambda config: config.transaction_state_log_load_buffer_size,
    commit_timeout_ms=lambda _config: _COMMIT_TIMEOUT_MS,
)
SHARE_STATE: Final = InternalTopic(
    name=SHARE_STATE_TOPIC,
    noun="share partition",
    partition_count=lambda config: config.share_coordinator_state_topic_num_partitions,
    replication_factor=lambda config: config.share_coordinator_state_topic_replication_factor,
    overrides=_share_state_overrides,
    load_buffer_bytes=lambda config: config.share_coordinator_load_buffer_size,
    commit_timeout_ms=lambda config: config.share_coordinator_write_timeout_ms,
)
COORDINATOR_TOPICS: Final[Mapping[str, InternalTopic]] = {
    each.name: each for each in (OFFSETS, TRANSACTIONS, SHARE_STATE)
}


NO_OVERRIDES: Final[Mapping[str, str]] = {}


class AutomaticTopic(NamedTuple):
    """What is asked for when a topic is created automatically."""

    partition_count: int
    replication_factor: int
    overrides: Mapping[str, str]


def automatic_topic(name: str, config: BrokerConfig, *, is_alone: bool = False) -> AutomaticTopic:
    """The topic of that name. A broker that `is_alone` gives the topics of its coordinators one replica."""
    internal = COORDINATOR_TOPICS.get(name)
    if internal is None:
        return AutomaticTopic(config.num_partitions, config.default_replication_factor, {})
    factor = 1 if is_alone else internal.replication_factor(config)
    return AutomaticTopic(internal.partition_count(config), factor, internal.overrides(config, factor))
