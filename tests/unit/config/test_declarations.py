"""What is declared: Kafka's names and defaults, a sentence for each, and classes that cannot be changed."""

import pytest

from tidelog.config import BrokerConfig, LogConfig
from tidelog.config.declaration import Setting
from tidelog.config.dynamic_only import DynamicOnlySettings

ALL_SETTINGS = [
    *BrokerConfig.settings.values(),
    *LogConfig.settings.values(),
    *DynamicOnlySettings.settings.values(),
]

# As Apache Kafka 3.9.1 prints them in DescribeConfigs, with nothing in server.properties.
KAFKA_DEFAULTS = {
    "advertised.listeners": None,
    "allow.everyone.if.no.acl.found": "false",
    "auto.create.topics.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "background.threads": "10",
    "broker.id": "-1",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "connections.max.idle.ms": "600000",
    "controlled.shutdown.max.retries": "3",
    "default.replication.factor": "1",
    "delegation.token.max.lifetime.ms": "604800000",
    "delete.records.purgatory.purge.interval.requests": "1",
    "delete.topic.enable": "true",
    "fetch.max.bytes": "57671680",
    "fetch.purgatory.purge.interval.requests": "1000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "inter.broker.protocol.version": "3.9-IV0",
    "leader.imbalance.check.interval.seconds": "300",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.interval.ms": None,
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.hours": "168",
    "log.retention.minutes": None,
    "log.retention.ms": None,
    "log.roll.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "max.connections": "2147483647",
    "max.incremental.fetch.session.cache.slots": "1000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
    "offsets.commit.required.acks": "-1",
    "offsets.retention.minutes": "10080",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "104857600",
    "producer.id.expiration.ms": "86400000",
    "queued.max.request.bytes": "-1",
    "queued.max.requests": "500",
    "replica.fetch.max.bytes": "1048576",
    "replica.fetch.wait.max.ms": "500",
    "replica.lag.time.max.ms": "30000",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "socket.request.max.bytes": "104857600",
    "socket.send.buffer.bytes": "102400",
    "ssl.cipher.suites": "",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "50",
    "transactional.id.expiration.ms": "604800000",
    "unclean.leader.election.enable": "false",
    "zookeeper.connect": None,
    "zookeeper.session.timeout.ms": "18000",
}
KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.downconversion.enable": "true",
    "message.format.version": "3.0-IV1",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
}


@pytest.mark.parametrize(("name", "default"), KAFKA_DEFAULTS.items())
def test_a_broker_setting_has_kafkas_default(name: str, default: str | None) -> None:
    declared = BrokerConfig.settings[name]
    assert declared.format(declared.default) == default


@pytest.mark.parametrize(("name", "default"), KAFKA_TOPIC_DEFAULTS.items())
def test_a_topic_setting_has_kafkas_default(name: str, default: str) -> None:
    declared = LogConfig.settings[name]
    assert declared.format(declared.default) == default


def test_the_two_defaults_of_our_own() -> None:
    assert BrokerConfig().listeners == "PLAINTEXT://127.0.0.1:9092"
    assert BrokerConfig().log_dirs == ("./tidelog-data",)


@pytest.mark.parametrize("declared", ALL_SETTINGS, ids=lambda each: each.name)
def test_every_declaration_is_whole(declared: Setting) -> None:
    """Its default passes its own validator, it survives text and back, it has a sentence, its field is its name."""
    assert declared.doc.endswith((".", ")")), declared.doc
    assert declared.field == declared.name.replace(".", "_")
    if declared.default is not None:
        text = declared.format(declared.default)
        assert declared.parse(text) == declared.default


def test_every_synonym_of_a_topic_setting_is_a_broker_setting_of_the_same_type() -> None:
    for declared in LogConfig.settings.values():
        for synonym in declared.synonyms:
            other = BrokerConfig.settings[synonym.name]
            if synonym.factor == 1:
                assert other.kind.name == declared.kind.name, synonym.name


def test_a_config_cannot_be_changed() -> None:
    config = LogConfig()
    with pytest.raises(AttributeError, match="frozen"):
        config.segment_bytes = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del config.segment_bytes
    with pytest.raises(AttributeError):
        config.no_such_setting = 5  # type: ignore[attr-defined]


def test_a_copy_differs_in_what_was_changed_only() -> None:
    config = LogConfig(segment_bytes=1000)
    changed = config.replace(retention_ms=5)
    assert (changed.segment_bytes, changed.retention_ms) == (1000, 5)
    assert changed == LogConfig(segment_bytes=1000, retention_ms=5)
    assert hash(changed) == hash(LogConfig(segment_bytes=1000, retention_ms=5))
    assert changed != config
    assert changed != "LogConfig"


def test_a_field_that_does_not_exist_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="segment_byte"):
        LogConfig(segment_byte=5)  # type: ignore[call-arg]


def test_secrets_are_not_printed() -> None:
    config = BrokerConfig(ssl_keystore_password="hunter2", num_partitions=3)
    assert "hunter2" not in repr(config)
    assert repr(config) == "BrokerConfig(num_partitions=3, ssl_keystore_password=[hidden])"


def test_cleanup_policies_as_questions() -> None:
    assert LogConfig().is_deleted
    assert not LogConfig().is_compacted
    both = LogConfig(cleanup_policy=("compact", "delete"))
    assert both.is_compacted
    assert both.is_deleted
