"""Kafka's own tools on secured listeners."""

from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ProcessFailedError, run_tool
from tests.compat.security.conftest import Secured
from tests.compat.security.secured import MECHANISMS, jaas, java_settings, write_properties
from tests.effort import usually
from tidelog.client import Admin

pytestmark = [pytest.mark.java, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
WAYS = [
    "SSL",
    *(f"{protocol} {mechanism}" for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("way", usually(["SASL_SSL SCRAM-SHA-512"], WAYS))
def test_console_tools_write_and_read(secured: Secured, tmp_path: Path, way: str) -> None:
    protocol, _, mechanism = way.partition(" ")
    file = str(write_properties(tmp_path / "c", java_settings(secured.certificates, protocol, mechanism)))
    server = ("--bootstrap-server", secured.address(protocol))
    topic = f"java-{protocol}-{mechanism or 'none'}".lower()
    run_tool(CONSOLE_PRODUCER, *server, "--topic", topic, "--producer.config", file, input_text="one\ntwo\n")
    reading = ("--from-beginning", "--max-messages", "2", "--consumer.config", file)
    assert run_tool(CONSOLE_CONSUMER, *server, "--topic", topic, *reading).splitlines() == ["one", "two"]


def test_a_wrong_password_is_named_by_the_java_client(secured: Secured, tmp_path: Path) -> None:
    settings = java_settings(secured.certificates, "SASL_SSL", "SCRAM-SHA-256", "wrong")
    file = str(write_properties(tmp_path / "c", settings))
    with pytest.raises(ProcessFailedError, match="due to invalid credentials with SASL mechanism SCRAM-SHA-256"):
        run_tool(TOPICS, "--bootstrap-server", secured.address("SASL_SSL"), "--list", "--command-config", file)


@pytest.mark.long
def test_kafka_configs_adds_a_user_that_can_log_in(secured: Secured, tmp_path: Path) -> None:
    entity = ("--entity-type", "users", "--entity-name", "carol")
    added = "SCRAM-SHA-256=[iterations=4096,password=carols]"
    server = ("--bootstrap-server", secured.address("PLAINTEXT"))
    run_tool(CONFIGS, *server, "--alter", *entity, "--add-config", added)
    assert "SCRAM-SHA-256=iterations=4096" in run_tool(CONFIGS, *server, "--describe", *entity)
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas("SCRAM-SHA-256", "carol", "carols")}
    with Admin(
        {"bootstrap.servers": secured.address("SASL_PLAINTEXT"), "security.protocol": "SASL_PLAINTEXT", **login}
    ) as admin:
        admin.list_topics()
