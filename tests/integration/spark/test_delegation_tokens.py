"""A reader as it is pickled into tasks on a secured cluster: with a delegation token, and without the password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import cloudpickle

from tests.integration.certificates import make_certificates
from tests.integration.inside import Inside
from tidelog.client import Admin, NewTopic, Producer
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.source.batch_reader import BatchReader
from tidelog.spark.source.columns import full_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

PASSWORD = "correct-horse-battery-staple"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
RECORDS = 6


def test_readers_are_pickled_into_tasks_with_a_token_and_no_password(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required username="spark" password="{PASSWORD}" user_spark="{PASSWORD}";'
        ),
        "delegation.token.secret.key": "of all brokers",
        **certificates.broker(),
    }
    with Inside(tmp_path / "broker", settings) as inside:
        client = {
            "bootstrap.servers": f"127.0.0.1:{inside.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="spark" password="{PASSWORD}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.path("ca"),
        }
        with Admin(client) as admin:
            admin.create_topics([NewTopic("orders", 2)])
        with Producer(client) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number)
            producer.flush()
        options = {f"kafka.{name}": value for name, value in client.items()}
        options |= {"subscribe": "orders", "kafka.auth.bootstrap.servers": client["bootstrap.servers"]}
        reader = BatchReader(full_schema(options), options)
        task = cloudpickle.dumps((reader, reader.partitions()))  # type: ignore[no-untyped-call]
        assert PASSWORD.encode() not in task
        copy, wanted = cloudpickle.loads(task)
        assert sum(batch.num_rows for each in wanted for batch in copy.read(each)) == RECORDS
        connections = inside.node.socket_server.connections
        sessions = inside.on_loop(lambda: [each.session for each in connections.values()])
        assert {each.principal for each in sessions if each.has_token} == {"User:spark"}
        with Admin(client) as admin:
            assert len(admin.describe_delegation_tokens()) == 1
        CLUSTERS.close_all()
