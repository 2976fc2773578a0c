"""Apache Kafka 4.3.1 as one KRaft process: the reference for share groups, which it serves as they became final."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.maven import Jars
from benchmarks.processes import HOST, BrokerProcess, free_port

VERSION = "4.3.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HEAP = ("-Xmx512M", "-Xms256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JARS = Jars(
    f"kafka-{VERSION}",
    f"Kafka {VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ),
    with_dependencies=True,
)


class Kafka43(BrokerProcess):
    """Broker and controller in one."""

    name = f"Apache Kafka {VERSION}"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._controller_port = free_port()

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
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "3",
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.record.lock.duration.ms": "3000",
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        java = ["java", *HEAP, "-cp", str(JARS.libs / "*")]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)],
            check=True,
            capture_output=True,
            timeout=60,
        )
        return [*java, "kafka.Kafka", str(config)]
