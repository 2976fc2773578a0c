"""The overrides of `__consumer_offsets` and `__transaction_state`, without which their data would be deleted.

Both are compacted: under the broker's default policy, offsets and transactional ids would be deleted by age.
"""

from __future__ import annotations

from tidelog.config import BrokerConfig
from tidelog.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


def internal_overrides(name: str, config: BrokerConfig, replication_factor: int) -> dict[str, str]:
    """The overrides that a coordinator's topic is created with, and that a topic found without them gets."""
    if name == OFFSETS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
    assert name == TRANSACTIONS_TOPIC, f"{name} is not an internal topic"
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replication_factor)),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
