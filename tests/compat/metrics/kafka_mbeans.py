"""The MBeans of a Kafka 3.9.1, by what the JMX exporter's rules can tell apart.

`mbeans-3.9.1.txt` has what a cluster of two brokers shows that was written to and read from, with a transaction and a
group. Names of topics, brokers and the like are `*` there, and one quantile stands for all.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.apache_kafka import KafkaBroker
from benchmarks.processes import free_port

HERE: Final = Path(__file__).parent
_READ_BY_RULES: Final = re.compile(r"><>(Count|Value|99thPercentile)$|Percent[^>]*><>MeanRate$")


def shipped() -> set[str]:
    return set((HERE / "mbeans-3.9.1.txt").read_text().split("\n")) - {""}


class KafkaWithJmx(KafkaBroker):
    """A broker whose MBeans can be read."""

    jmx_port = 0

    def command(self) -> list[str]:
        java, *words = super().command()
        self.jmx_port = free_port()
        prefix = "-Dcom.sun.management.jmxremote"
        return [
            java,
            *(prefix, f"{prefix}.port={self.jmx_port}", f"{prefix}.rmi.port={self.jmx_port}"),
            *(f"{prefix}.authenticate=false", f"{prefix}.ssl=false", "-Djava.rmi.server.hostname=127.0.0.1"),
            *words,
        ]

    def attributes(self) -> set[str]:
        """Its attributes, in the form of the shipped list."""
        printed = subprocess.run(
            ["java", str(HERE / "MBeanNames.java"), str(self.jmx_port)], capture_output=True, text=True, check=True
        )
        found = {normalized(line) for line in printed.stdout.splitlines()}
        return {line for line in found if _READ_BY_RULES.search(line)}


def normalized(line: str) -> str:
    """An attribute without the names of things that were made for the occasion."""
    line = re.sub(r", (?!name=|type=)([\w.-]+)=[^,>]*", r", \1=*", line.strip())
    return re.sub(r"\d+thPercentile", "99thPercentile", line)
