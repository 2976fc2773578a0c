"""A reader as it is pickled into tasks on a secured cluster: with a delegation token, and without the password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import cloudpickle

from tests.integration.certificates import make_certificates
from tests.integration.inside import Inside
from tests.integration.spark.secured_support import ADMIN_PASSWORD, broker_settings, client_settings
from tidelog.client import Admin, NewTopic, Producer
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.source.batch_reader import BatchReader
from tidelog.spark.source.columns import full_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

RECORDS = 6


def test_readers_are_pickled_into_tasks_with_a_token_and_no_password(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with Inside(tmp_path / "broker", broker_settings(certificates)) as inside:
        client = client_settings(f"127.0.0.1:{inside.port}", certificates)
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
        assert ADMIN_PASSWORD.encode() not in task
        copy, wanted = cloudpickle.loads(task)
        assert sum(batch.num_rows for each in wanted for batch in copy.read(each)) == RECORDS
        connections = inside.node.socket_server.connections
        sessions = inside.on_loop(lambda: [each.session for each in connections.values()])
        assert {each.principal for each in sessions if each.has_token} == {"User:admin"}
        with Admin(client) as admin:
            assert len(admin.describe_delegation_tokens()) == 1
        CLUSTERS.close_all()
