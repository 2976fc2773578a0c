"""The table that our versions are held to is Kafka's answer."""

from benchmarks.apache_kafka import KafkaBroker
from tests.compat.wire.api_versions import of_kafka
from tests.integration.raw_client import RawClient
from tidelog.wire.messages.api_versions import ApiVersionsRequest


def test_the_table_is_what_kafka_answers(kafka: KafkaBroker) -> None:
    with RawClient(kafka.port) as client:
        answer = client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    assert {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys} == of_kafka()
