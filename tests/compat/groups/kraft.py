"""Apache Kafka as one KRaft process: only there does it serve the newer group protocol and let groups migrate.

The release of the benchmarks runs so, or the newest one, `NEWEST`, which has no other way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks import apache_kafka
from benchmarks.maven import Jars
from benchmarks.processes import HOST, BrokerProcess, free_port

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HEAP = ("-Xmx512M", "-Xms256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
NEWEST_VERSION = "4.3.1"
NEWEST = Jars(
    f"kafka-{NEWEST_VERSION}",
    f"Kafka {NEWEST_VERSION}",
    (("org.apache.kafka", "kafka_2.13", NEWEST_VERSION), ("org.apache.kafka", "kafka-tools", NEWEST_VERSION)),
    with_dependencies=True,
)
FORMAT_SECONDS_MAX = 60


class KraftBroker(BrokerProcess):
    """Broker and controller in one, with both group protocols."""

    name = "Apache Kafka (KRaft)"

    def __init__(self, directory: Path, settings: Mapping[str, str], jars: Jars = apache_kafka.JARS) -> None:
        super().__init__(directory)
        self._class_path = str(jars.libs / "*")
        self._controller_port = free_port()
        self._settings = dict(settings)

    def command(self) -> list[str]:
        config = self.directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
            "group.coordinator.rebalance.protocols": "classic,consumer",
            "offsets.topic.replication.factor": "1",
            **self._settings,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        java = ["java", *HEAP, "-cp", self._class_path]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        subprocess.run(tool, check=True, capture_output=True, timeout=FORMAT_SECONDS_MAX)
        return [*java, "kafka.Kafka", str(config)]
