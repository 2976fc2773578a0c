"""Topics of a broker or a cluster under test."""

from collections.abc import Mapping

from tidelog.testing._settings import setting_text

BROKERS_DEFAULT = -1


def create_topic(
    servers: str,
    name: str,
    partitions: int,
    config: Mapping[str, object] | None,
    replication_factor: int,
    timeout_s: float,
) -> None:
    """Create a topic; when this returns, clients can use it."""
    from tidelog.client.admin import Admin
    from tidelog.client.aio.admin.types import NewTopic

    configs = {key: setting_text(value) for key, value in (config or {}).items()}
    timeout_ms = int(timeout_s * 1000)
    with Admin(bootstrap_servers=servers, default_api_timeout_ms=timeout_ms, visible_timeout_ms=timeout_ms) as admin:
        admin.create_topics([NewTopic(name, partitions, replication_factor, configs)])
