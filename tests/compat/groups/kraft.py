"""Apache Kafka as one KRaft process: only there does it serve the newer group protocol and let groups migrate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import apache_kafka
from benchmarks.processes import HOST, BrokerProcess, free_port

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HEAP = ("-Xmx512M", "-Xms256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KraftBroker(BrokerProcess):
    """Broker and controller in one, with both group protocols."""

    name = "Apache Kafka (KRaft)"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory)
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
        apache_kafka.run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config))
        return ["java", *HEAP, "-cp", apache_kafka.class_path(), "kafka.Kafka", str(config)]
