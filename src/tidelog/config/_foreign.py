"""Settings of Kafka 3.9 that Tidelog does not declare: which are ignored and which are rejected.

Loading looks here before it rejects a name as unknown. So a server.properties written for Kafka loads unchanged, unless
it needs a feature that Tidelog does not have.
"""

from __future__ import annotations

from typing import Final

# Settings that form a KRaft cluster. Ignoring one would start a different kind of broker than the file describes.
_KRAFT_ADVICE: Final = {
    "process.roles": "leave it out; a broker has no roles",
    "node.id": "use broker.id",
    "controller.quorum.voters": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.quorum.bootstrap.servers": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.listener.names": "leave it out; the controller is one of the brokers",
    "metadata.log.dir": "leave it out; embedded metadata is in the first of log.dirs",
}

# Settings of features that Tidelog does not have: KRaft, tiered storage, the JVM, share groups, bounds of groups,
# telemetry.
# fmt: off
_WITHOUT_EFFECT: Final = frozenset((
    "auto.include.jmx.reporter", "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "early.start.listeners",
    "eligible.leader.replicas.enable", "initial.broker.registration.timeout.ms",
    "kafka.metrics.polling.interval.secs", "kafka.metrics.reporters", "log.dir.failure.timeout.ms",
    "sasl.mechanism.controller.protocol", "security.providers", "server.max.startup.time.ms", "telemetry.max.bytes",
    "unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    "zookeeper.clientCnxnSocket",
))
_PREFIXES_WITHOUT_EFFECT: Final = (
    "controller.quorum.", "group.consumer.", "group.coordinator.", "group.share.", "metadata.", "remote.fetch.",
    "remote.log.", "rlmm.config.", "rsm.config.", "zookeeper.metadata.migration.",
)
# fmt: on


def kraft_advice(name: str) -> str | None:
    """What to do instead of setting `name`, if it forms a KRaft cluster; None for any other name."""
    return _KRAFT_ADVICE.get(name)


def is_without_effect(name: str) -> bool:
    """Whether Kafka has this setting and Tidelog ignores it."""
    return name in _WITHOUT_EFFECT or (name.startswith(_PREFIXES_WITHOUT_EFFECT) and name not in _KRAFT_ADVICE)
