"""The settings that a broker under test starts with."""

from collections.abc import Mapping
from typing import Final

# What helps a production cluster and only slows a test down, or lets it fail when it is slow.
TEST_DEFAULTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # Records of a test may have any timestamp: retention would delete old ones half a minute after the start.
    "log.retention.check.interval.ms": str(2**63 - 1),
}


def broker_properties(config: Mapping[str, object], data_dir: str, address: tuple[str, int] | None) -> dict[str, str]:
    """Test defaults, a free port on 127.0.0.1 or the one it had before, and `config` over them all."""
    host, port = address or ("127.0.0.1", 0)
    properties = {**TEST_DEFAULTS, "listeners": f"PLAINTEXT://{host}:{port}", "log.dirs": data_dir}
    properties.update({name: setting_text(value) for name, value in config.items()})
    return properties


def setting_text(value: object) -> str:
    """A Python value as Kafka's properties write it: booleans in lower case, lists by comma."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(setting_text, value))
    return str(value)
