"""Broker settings: membership in a KRaft cluster, whose controllers are Apache Kafka's."""

from __future__ import annotations

from tidelog.config import _checks as checks
from tidelog.config.declaration import MIB, Settings, setting
from tidelog.config.kinds import LIST, LONG


# fmt: off
class QuorumSettings(Settings, area="KRaft"):
    """How a broker finds the controllers of its cluster, and keeps up with them."""

    process_roles: tuple[str, ...] = setting(
        "process.roles", (), type=LIST, importance="high", validator=checks.ROLES,
        doc="`broker`: this is a member of a KRaft cluster, whose controllers are Apache Kafka's. Not set: metadata is "
            "in ZooKeeper or embedded.")
    node_id: int = setting(
        "node.id", -1, importance="high", at_least=-1,
        doc="Number of this broker among the brokers and controllers of a KRaft cluster.")
    controller_quorum_voters: tuple[str, ...] = setting(
        "controller.quorum.voters", (), type=LIST, importance="high",
        doc="The controllers of a KRaft cluster, each `id@host:port`.")
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers", (), type=LIST, importance="high",
        doc="Addresses of controllers, each `host:port`, by which the others are found. One of this and "
            "`controller.quorum.voters` is needed in a KRaft cluster.")
    controller_listener_names: str | None = setting(
        "controller.listener.names", None, importance="high",
        doc="Listener of the controllers; `listener.security.protocol.map` has its security protocol, PLAINTEXT where "
            "it does not name it. Of several names the first counts.")
    metadata_log_dir: str | None = setting(
        "metadata.log.dir", None, importance="high",
        doc="Directory for the copy of a KRaft cluster's metadata log; the first of `log.dirs` when not set.")
    metadata_max_retention_bytes: int = setting(
        "metadata.max.retention.bytes", 100 * MIB, type=LONG, importance="high", at_least=0,
        doc="A larger copy of a KRaft cluster's metadata log begins again with the leader's latest snapshot, as soon "
            "as the leader's own log does.")
    broker_heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms", 2000, importance="high", at_least=1,
        doc="Time between two heartbeats of a broker to the controllers of a KRaft cluster.")
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms", 9000, importance="high", at_least=1,
        doc="How long the controllers of a KRaft cluster wait for a heartbeat before they fence a broker; their own "
            "setting counts. A broker that stops asks for as long to be let go.")
    initial_broker_registration_timeout_ms: int = setting(
        "initial.broker.registration.timeout.ms", 60_000, at_least=1,
        doc="How long a start waits at most until the controllers of a KRaft cluster have registered the broker.")
    controller_quorum_fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms", 2000, importance="high", at_least=1,
        doc="A leader of the quorum that does not answer for this long is looked for anew.")
    controller_quorum_request_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms", 2000, at_least=1,
        doc="How long a request to another controller of the quorum may take.")
    controller_quorum_retry_backoff_ms: int = setting(
        "controller.quorum.retry.backoff.ms", 20, importance="low", at_least=1,
        doc="Pause after a request to the quorum that failed.")
# fmt: on
