"""Broker settings: listeners, sockets, connections and the threads behind them."""

from __future__ import annotations

from typing import Final

from tidelog.config.declaration import INT_MAX, MIB, Settings, setting
from tidelog.config.kinds import LONG

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


# fmt: off
class ListenerSettings(Settings, area="Listeners"):
    """Where a broker listens, which addresses it advertises, and how listeners are secured.

    Kafka can also change `listeners` while a broker runs; here that needs a restart.
    """

    listeners: str = setting(
        "listeners", "PLAINTEXT://127.0.0.1:9092", importance="high",
        doc="Addresses to listen on, comma-separated, each `NAME://host:port`. An empty host is every interface, "
            "port 0 is any free port, an IPv6 address stands in brackets.")
    advertised_listeners: str | None = setting(
        "advertised.listeners", None, importance="high", dynamic="per-broker",
        doc="Addresses the broker gives to clients, in the form of `listeners`; the same as `listeners` when not set.")
    listener_security_protocol_map: str = setting(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance="low",
        doc="Security protocol of each listener name, as `NAME:PROTOCOL` pairs.")
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name", None,
        doc="Name of the listener for connections between brokers; when not set, the listener named after "
            "`security.inter.broker.protocol`.")
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol", "PLAINTEXT", one_of=SECURITY_PROTOCOLS,
        doc="Security protocol between brokers; only one of this and `inter.broker.listener.name` may be set.")
    control_plane_listener_name: str | None = setting(
        "control.plane.listener.name", None, importance="high",
        doc="Name of a listener between the controller and the other brokers, so that their requests do not queue "
            "behind those of clients; when not set, `inter.broker.listener.name`.")


class ConnectionSettings(Settings, area="Network and connections"):
    """Limits on sockets, connections and requests."""

    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes", 102400, importance="high",
        doc="SO_SNDBUF of connections. -1, or not set at all, leaves it to the system.")
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes", 102400, importance="high",
        doc="SO_RCVBUF of connections. -1, or not set at all, leaves it to the system.")
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes", 100 * MIB, importance="high", at_least=1,
        doc="A connection that announces a larger request is closed.")
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size", 50, at_least=1,
        doc="Connections the operating system queues until the broker accepts them.")
    max_connections: int = setting(
        "max.connections", INT_MAX, at_least=0, dynamic="cluster-wide",
        doc="Connections a broker holds at once. At the limit new ones wait, except on the inter-broker listener, "
            "which closes another listener's most idle connection instead.")
    max_connections_per_ip: int = setting(
        "max.connections.per.ip", INT_MAX, at_least=0, dynamic="cluster-wide",
        doc="Connections from one address; further ones are closed at once.")
    max_connections_per_ip_overrides: str = setting(
        "max.connections.per.ip.overrides", "", dynamic="cluster-wide",
        doc="Exceptions to `max.connections.per.ip`, as `address:count` pairs. Host names, which Kafka looks up, are "
            "refused.")
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate", INT_MAX, at_least=0, dynamic="cluster-wide",
        doc="Connections a broker accepts per second; above it, accepting slows down.")
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", 600_000, type=LONG,
        doc="Close a connection that has been idle for this long; a negative value never does.")
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms", 100, importance="low", at_least=0,
        doc="Delay the response to a failed authentication by this long, to slow down guessing. Must be less than "
            "`connections.max.idle.ms`.")
    connections_max_reauth_ms: int = setting(
        "connections.max.reauth.ms", 0, type=LONG,
        doc="Longest time a SASL session lasts before the client must authenticate again; 0 is for ever.")
    queued_max_requests: int = setting(
        "queued.max.requests", 500, importance="high", at_least=1,
        doc="Requests that were read and neither answered nor waiting (for followers, records or members) before the "
            "broker pauses reading from clients.")
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes", -1, type=LONG,
        doc="Bytes of requests held in memory before the broker pauses reading from clients; -1 sets no limit.")
    num_network_threads: int = setting(
        "num.network.threads", 3, importance="high", at_least=1, dynamic="cluster-wide",
        ignored="a broker process serves all connections on one core: set tidelog.cores for more",
        doc="Threads that read requests and send replies.")
    num_io_threads: int = setting(
        "num.io.threads", 8, importance="high", at_least=1, dynamic="cluster-wide",
        ignored="a broker process runs requests on one core: set tidelog.cores for more",
        doc="Threads that process requests.")
    background_threads: int = setting(
        "background.threads", 10, importance="high", at_least=1, dynamic="cluster-wide",
        doc="Threads for work that blocks or burns CPU: fsync, recovery, deletion of directories.")
    request_timeout_ms: int = setting(
        "request.timeout.ms", 30_000, importance="high",
        doc="How long a broker waits for the response to a request it sends.")
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms", 10_000, type=LONG,
        doc="Timeout for connecting to another broker.")
    socket_connection_setup_timeout_max_ms: int = setting(
        "socket.connection.setup.timeout.max.ms", 30_000, type=LONG,
        ignored="the timeout for connecting to another broker does not grow", doc="Longest such timeout.")
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit", 2000, at_least=1,
        doc="Most partitions in one DescribeTopicPartitions response.")
# fmt: on
