"""Broker settings that exist only as dynamic ones: the rates at which replication is throttled."""

from __future__ import annotations

from tidelog.config.declaration import LONG_MAX, Settings, setting
from tidelog.config.kinds import LONG


# fmt: off
class DynamicOnlySettings(Settings, scope="cluster-wide"):
    """Set with AlterConfigs, never in server.properties, and described only when set."""

    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate", LONG_MAX, type=LONG, at_least=0,
        doc="Bytes per second a leader sends to throttled replicas.")
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate", LONG_MAX, type=LONG, at_least=0,
        doc="Bytes per second a follower fetches for throttled replicas.")
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, type=LONG, at_least=0,
        doc="Bytes per second for moves of replicas between data directories.")
# fmt: on
