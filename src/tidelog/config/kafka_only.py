"""The settings of Kafka 3.9 that Tidelog does not declare, and what becomes of each: the one home for both rules.

They are ignored, because what they configure does not exist here and nothing relies on it. Those that form a KRaft
cluster stop the start of a broker that is no member of one: ignoring them would start a different kind of broker than
the file describes.
"""

from collections.abc import Mapping
from typing import Final

ONLY_IN_KRAFT: Final[Mapping[str, str]] = {
    "node.id": "use broker.id",
    "controller.quorum.voters": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.quorum.bootstrap.servers": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.listener.names": "leave it out; the controller is one of the brokers",
    "metadata.log.dir": "leave it out; embedded metadata is in the first of log.dirs",
}
"""Settings that stop the start of a broker without `process.roles=broker`, and what to do instead."""

# fmt: off
_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "a broker has no part in a KRaft quorum but to follow it": (
        "controller.quorum.append.linger.ms", "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms", "early.start.listeners", "eligible.leader.replicas.enable",
        "log.dir.failure.timeout.ms",
        "metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms",
        "metadata.log.segment.bytes", "metadata.log.segment.ms", "metadata.max.idle.interval.ms",
        "metadata.max.retention.ms", "sasl.mechanism.controller.protocol",
        "server.max.startup.time.ms", "unclean.leader.election.interval.ms", "zookeeper.metadata.migration.enable",
    ),
    "tiered storage is not supported": (
        "remote.fetch.max.wait.ms", "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.copy.quota.window.num", "remote.log.manager.copy.quota.window.size.seconds",
        "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.fetch.quota.window.num", "remote.log.manager.fetch.quota.window.size.seconds",
        "remote.log.manager.task.interval.ms", "remote.log.manager.thread.pool.size",
        "remote.log.metadata.custom.metadata.max.bytes", "remote.log.metadata.manager.class.name",
        "remote.log.metadata.manager.class.path", "remote.log.metadata.manager.impl.prefix",
        "remote.log.metadata.manager.listener.name", "remote.log.reader.max.pending.tasks",
        "remote.log.reader.threads", "remote.log.storage.manager.class.name", "remote.log.storage.manager.class.path",
        "remote.log.storage.manager.impl.prefix", "remote.log.storage.system.enable",
    ),
    "share groups are limited by their members and sessions": ("group.share.max.groups",),
    "the assignors `uniform` and `range` are built in": ("group.consumer.assignors",),
    "coordinators run on the event loop, which writes once in each turn": (
        "group.coordinator.append.linger.ms", "group.coordinator.threads",
    ),
    "metrics are served to Prometheus: set metrics.listeners": (
        "auto.include.jmx.reporter", "kafka.metrics.polling.interval.secs", "kafka.metrics.reporters",
    ),
    "there is no JVM: TLS is OpenSSL's, and the client of ZooKeeper is written in Python": (
        "security.providers", "zookeeper.clientCnxnSocket",
    ),
    "versions that Kafka has not finished are not served": (
        "unstable.api.versions.enable", "unstable.feature.versions.enable",
    ),
}
# fmt: on
IGNORED: Final[Mapping[str, str]] = {name: reason for reason, names in _REASONS.items() for name in names}
"""Why a setting has no effect."""

_IGNORED_PREFIXES: Final = (
    *("controller.quorum.", "group.consumer.", "group.coordinator.", "group.share.", "metadata.", "remote.fetch."),
    *("share.coordinator.", "share.fetch."),
    *("remote.log.", "rlmm.config.", "rsm.config.", "zookeeper.metadata.migration."),
)
"""Settings of plug-ins, and what other versions of Kafka have of the same features."""


def is_ignored(name: str) -> bool:
    """Whether Kafka has this setting and Tidelog ignores it."""
    return name in IGNORED or (name.startswith(_IGNORED_PREFIXES) and name not in ONLY_IN_KRAFT)
