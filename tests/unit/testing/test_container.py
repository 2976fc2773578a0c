"""What an image would take from its environment is a setting, is not needed, or is refused."""

from __future__ import annotations

import pytest

from tidelog.testing.container import KafkaContainer, _setting_name, _settings_of


def test_names_are_those_of_the_images() -> None:
    assert _setting_name("AUTO_CREATE_TOPICS_ENABLE") == "auto.create.topics.enable"
    assert _setting_name("A__B___C") == "a_b-c"


def test_the_wiring_of_an_image_is_left_out() -> None:
    env = {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
        "KAFKA_LOG_RETENTION_MS": "1000",
        "CLUSTER_ID": "x",
        "TZ": "UTC",
    }
    assert _settings_of(env, 0) == {"log.retention.ms": "1000"}
    assert _settings_of({}, 19093) == {"listeners": "PLAINTEXT://127.0.0.1:19093"}


def test_what_only_docker_can_do_is_refused() -> None:
    with pytest.raises(TypeError, match="volumes"):
        KafkaContainer(volumes=[])
    with pytest.raises(RuntimeError, match="Docker network"):
        KafkaContainer().with_network("net")
    with pytest.raises(ValueError, match="port 2181"):
        KafkaContainer().with_exposed_ports(2181)


def test_before_the_start_there_is_no_address() -> None:
    container = KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft().with_name("kafka").with_exposed_ports(9093)
    with pytest.raises(RuntimeError, match="does not run"):
        container.get_bootstrap_server()
