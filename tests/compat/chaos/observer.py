"""Whether a cluster is healthy: what each broker says about it, and whether the files of all replicas are equal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, ClusterMetadata
from confluent_kafka.error import KafkaException

from tidelog.testing.zookeeper import HOST


class Observer:
    """Asks the brokers of a cluster, each by its own port. Every partition has a replica on each of them."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = ports
        self._admins: dict[int, AdminClient] = {}

    def metadata(self, broker: int, timeout_s: float = 1.0) -> ClusterMetadata | None:
        """The cluster as one broker sees it; None if it does not answer."""
        admin = self._admins.get(broker)
        if admin is None:
            settings: dict[str, str | int | float | bool] = {
                "bootstrap.servers": f"{HOST}:{self._ports[broker]}",
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
                "allow.auto.create.topics": False,
            }
            admin = self._admins[broker] = AdminClient(settings)
        try:
            return admin.list_topics(timeout=timeout_s)
        except KafkaException:
            return None

    def ailments(self) -> list[str]:
        """What keeps the cluster from being healthy, as each broker sees it."""
        return [each for broker in self._ports for each in self._ailments_by(broker)]

    def _ailments_by(self, broker: int) -> list[str]:
        seen = self.metadata(broker)
        if seen is None:
            return [f"broker {broker} does not answer"]
        everyone = sorted(self._ports)
        found = []
        if sorted(seen.brokers) != everyone:
            found.append(f"broker {broker} knows the brokers {sorted(seen.brokers)}")
        if seen.controller_id not in everyone:
            found.append(f"broker {broker} knows no controller")
        found += [
            f"{topic.topic}-{number} is led by {partition.leader} with {partition.isrs} in sync, says broker {broker}"
            for topic in seen.topics.values()
            for number, partition in topic.partitions.items()
            if partition.leader not in everyone or sorted(partition.isrs) != everyone
        ]
        return found


def differing_logs(directories: Mapping[int, Path]) -> list[str]:
    """Partitions whose replicas, in the log directories of brokers, do not hold the same bytes."""
    logs: dict[str, dict[int, bytes]] = {}
    for broker, directory in directories.items():
        for path in sorted(directory.glob("*-[0-9]*")):
            if path.is_dir() and not path.name.endswith("-delete"):
                parts = [segment.read_bytes() for segment in sorted(path.glob("*.log"))]
                logs.setdefault(path.name, {})[broker] = b"".join(parts)
    return [
        f"logs differ: {name} has {', '.join(f'{len(data)} bytes on {each}' for each, data in found.items())}"
        for name, found in sorted(logs.items())
        if len(set(found.values())) > 1 or len(found) < len(directories)
    ]
