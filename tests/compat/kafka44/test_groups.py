"""Kafka's Java client 4.4: topic ids in commits, settings of groups, patterns, and the metrics that it pushes."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.maven import Jars
from tidelog.testing import Broker

JARS = Jars("kafka-clients-4.4.0", "Kafka's clients 4.4.0", (("org.apache.kafka", "kafka-clients", "4.4.0"),), True)
EXPECTED = """\
group 6000 DYNAMIC_GROUP_CONFIG
listed [CLIENT_METRICS:java, GROUP:g]
bounds InvalidConfigurationException
none GroupIdNotFoundException
committed 100
described Stable Consumer 1
types [g:Consumer]
telemetry true
page true
offsets 100
made again {}
"""

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]


def test_a_client_of_kafka_4_4_has_all_that_groups_offer() -> None:
    reason = JARS.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    program = Path(__file__).with_name("Groups44.java")
    with Broker(config={"metrics.listeners": f"http://127.0.0.1:{port}"}) as broker:
        page = f"http://127.0.0.1:{port}/metrics"
        command = ["java", "-Xmx256M", "-cp", f"{JARS.libs}/*", str(program), broker.bootstrap_servers, page]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == EXPECTED, done.stderr[-4000:]
