"""Broker settings: identity, ZooKeeper, topics, compression, shutdown."""

from __future__ import annotations

from typing import Final

from tidelog.config import _checks as checks
from tidelog.config.declaration import MIB, Settings, setting
from tidelog.config.kinds import CLASS, INT, LIST, LONG, PASSWORD

_NOT_CHOSEN: Final = "OpenSSL's cipher suites are always used; leave it out"
_NOT_REVOKED: Final = "revocation of ZooKeeper's certificate is not checked; leave it out"


# fmt: off
class ServerSettings(Settings, area="Broker"):
    """The broker's identity and how it shuts down."""

    broker_id: int = setting(
        "broker.id", -1, importance="high",
        doc="Number of this broker, unique in its cluster; -1 generates one.")
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable", True,
        doc="Generate a broker id above `reserved.broker.max.id` when none is set.")
    reserved_broker_max_id: int = setting(
        "reserved.broker.max.id", 1000, at_least=0, doc="Largest broker id that may be set by hand.")
    metadata_socket: str | None = setting(
        "metadata.socket", None, importance="high",
        doc="Unix socket of the metadata tree that `tidelog cluster up` serves to the brokers of one machine. "
            "Not in Kafka.")
    tidelog_cores: str = setting(
        "tidelog.cores", "1", importance="high", validator=checks.CORES,
        doc="How many processor cores serve clients, each by a broker process of its own behind one address; `auto` is "
            "one for each core that this process may use. Partitions are spread over them. Not in Kafka.")
    tidelog_cores_port_step: int = setting(
        "tidelog.cores.port.step", 100, at_least=1, at_most=10_000,
        doc="With several cores, core number N has ports of its own this many times N above those of `listeners`, "
            "`advertised.listeners` and `metrics.listeners`. Not in Kafka.")
    broker_rack: str | None = setting(
        "broker.rack", None,
        doc="Rack of the broker; replicas are spread over racks, and consumers may fetch from a follower in theirs. "
            "Not set: with `tidelog.cores` above 1 the host, so that replicas go to different machines.")
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable", True, doc="Hand over leadership before stopping.")
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries", 3,
        doc="Attempts to hand over leadership before stopping anyway.")
    controlled_shutdown_retry_backoff_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms", 5000, type=LONG,
        doc="Wait between two attempts, so that lagging replicas may catch up.")
    inter_broker_protocol_version: str = setting(
        "inter.broker.protocol.version", "3.9-IV0", validator=checks.METADATA_VERSION,
        ignored="requests between brokers are those of 3.9",
        doc="Version of the protocol between brokers, for rolling upgrades.")
    controller_socket_timeout_ms: int = setting(
        "controller.socket.timeout.ms", 30_000, doc="Timeout of requests between controller and brokers.")


class ZooKeeperSettings(Settings, area="ZooKeeper"):
    """The ensemble that holds the metadata. Without `zookeeper.connect` the metadata is embedded."""

    zookeeper_connect: str | None = setting(
        "zookeeper.connect", None, importance="high",
        doc="Servers as `host:port,host:port/chroot`. Not set: the metadata is kept in the data directory.")
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms", 18_000, importance="high",
        doc="How long a silent broker counts as alive, with ZooKeeper or `metadata.socket`.")
    zookeeper_connection_timeout_ms: int | None = setting(
        "zookeeper.connection.timeout.ms", None, type=INT, importance="high",
        doc="Longest wait for a connection; `zookeeper.session.timeout.ms` when not set.")
    zookeeper_max_in_flight_requests: int = setting(
        "zookeeper.max.in.flight.requests", 10, importance="high", at_least=1,
        doc="Requests sent to ZooKeeper without waiting for a response.")


class ZooKeeperSecuritySettings(Settings, area="ZooKeeper"):
    """How connections to the ensemble are protected."""

    zookeeper_set_acl: bool = setting(
        "zookeeper.set.acl", False, importance="high",
        doc="Create nodes that only the brokers may change. Needs TLS with a client certificate.")
    zookeeper_ssl_client_enable: bool = setting(
        "zookeeper.ssl.client.enable", False, doc="Connect to ZooKeeper with TLS.")
    zookeeper_ssl_keystore_location: str | None = setting(
        "zookeeper.ssl.keystore.location", None, doc="PEM file with the broker's certificate for ZooKeeper and key.")
    zookeeper_ssl_keystore_password: str | None = setting(
        "zookeeper.ssl.keystore.password", None, type=PASSWORD, doc="Password of that key.")
    zookeeper_ssl_keystore_type: str | None = setting(
        "zookeeper.ssl.keystore.type", None, doc="Type of that file, `PEM`; from its file extension when not set.")
    zookeeper_ssl_truststore_location: str | None = setting(
        "zookeeper.ssl.truststore.location", None, doc="PEM file with the authorities of ZooKeeper's certificate.")
    zookeeper_ssl_truststore_password: str | None = setting(
        "zookeeper.ssl.truststore.password", None, type=PASSWORD,
        ignored="certificates of authorities are not encrypted", doc="Password of that file.")
    zookeeper_ssl_truststore_type: str | None = setting(
        "zookeeper.ssl.truststore.type", None, doc="Type of that file, `PEM`; from its file extension when not set.")
    zookeeper_ssl_protocol: str = setting(
        "zookeeper.ssl.protocol", "TLSv1.2", importance="low", doc="TLS version to negotiate with ZooKeeper.")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = setting(
        "zookeeper.ssl.enabled.protocols", None, type=LIST, importance="low",
        doc="TLS versions allowed; the one of `zookeeper.ssl.protocol` when not set. Others than TLSv1.2 and TLSv1.3 "
        "are left out with a warning.")
    zookeeper_ssl_cipher_suites: tuple[str, ...] | None = setting(
        "zookeeper.ssl.cipher.suites", None, type=LIST, importance="low", refused=_NOT_CHOSEN,
        doc="Cipher suites allowed.")
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm", "HTTPS", importance="low",
        doc="`https` checks ZooKeeper's host name against its certificate; empty disables the check.")
    zookeeper_ssl_crl_enable: bool = setting(
        "zookeeper.ssl.crl.enable", False, importance="low", refused=_NOT_REVOKED, doc="Check revocation lists.")
    zookeeper_ssl_ocsp_enable: bool = setting(
        "zookeeper.ssl.ocsp.enable", False, importance="low", refused=_NOT_REVOKED, doc="Check revocation with OCSP.")


class TopicSettings(Settings, area="Topics and requests"):
    """How topics come and go, and limits on what is read and written."""

    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", True, importance="high", doc="Create a topic when a client first asks for it.")
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True, importance="high", doc="Let clients delete topics.")
    num_partitions: int = setting(
        "num.partitions", 1, at_least=1, doc="Partitions of a topic that is created without a partition count.")
    default_replication_factor: int = setting(
        "default.replication.factor", 1, doc="Replicas of a topic that is created without a replication factor.")
    create_topic_policy_class_name: str | None = setting(
        "create.topic.policy.class.name", None, type=CLASS, importance="low",
        refused="policies are not supported, and requests would not be checked",
        doc="A class that may refuse the creation of a topic.")
    alter_config_policy_class_name: str | None = setting(
        "alter.config.policy.class.name", None, type=CLASS, importance="low",
        refused="policies are not supported, and requests would not be checked",
        doc="A class that may refuse a change of settings.")
    message_max_bytes: int = setting(
        "message.max.bytes", MIB + 12, importance="high", at_least=0, dynamic="cluster-wide",
        doc="Largest record batch that is accepted, after compression. Topics override it with `max.message.bytes`.")
    compression_type: str = setting(
        "compression.type", "producer", importance="high", one_of=checks.COMPRESSION_TYPES, dynamic="cluster-wide",
        doc="Codec that batches are stored with; `producer` keeps the codec each batch arrived with.")
    compression_gzip_level: int = setting(
        "compression.gzip.level", -1, validator=checks.GZIP_LEVEL, dynamic="cluster-wide",
        doc="gzip level when the broker compresses; -1 is the codec's own default.")
    compression_lz4_level: int = setting(
        "compression.lz4.level", 9, at_least=1, at_most=17, dynamic="cluster-wide",
        doc="lz4 level when the broker compresses.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, dynamic="cluster-wide",
        doc="zstd level when the broker compresses.")
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", 55 * MIB, at_least=1024,
        doc="Most bytes in one fetch response, whatever the client asks for.")
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", 1000, at_least=0,
        doc="Incremental fetch sessions kept; clients without one send full fetch requests.")
    fetch_purgatory_purge_interval_requests: int = setting(
        "fetch.purgatory.purge.interval.requests", 1000,
        doc="Completed fetches that may stay in purgatory's watch lists before these are swept.")
    producer_purgatory_purge_interval_requests: int = setting(
        "producer.purgatory.purge.interval.requests", 1000,
        doc="Completed produce requests that may stay in purgatory's watch lists before these are swept.")
    delete_records_purgatory_purge_interval_requests: int = setting(
        "delete.records.purgatory.purge.interval.requests", 1,
        doc="Completed DeleteRecords requests that may stay in purgatory's watch lists before these are swept.")
# fmt: on
