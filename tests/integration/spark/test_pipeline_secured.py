"""A pipeline on a broker with TLS, SCRAM and ACLs: run, replayed and backfilled, and its secrets are shown nowhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.certificates import Certificates, make_certificates
from tests.integration.cli_support import Ran, run, run_here
from tests.integration.lineage_server import lineage_server
from tidelog.client import Admin, NewTopic, Producer, TopicPartition
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.cluster import Cluster
from tidelog.config.properties import format_properties
from tidelog.spark.pipeline import Pipeline, pack_json, parse_json, topic
from tidelog.spark.pipeline.running.backfill import Backfill, state_of
from tidelog.spark.pipeline.running.backfill_plan import Bound
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "correct-horse-battery"
ADMIN_PASSWORD = "of-the-admin-alone"
RETRIED, DYING = 4, 7

DEFINITION = """
import json
from tidelog.spark.pipeline import RECORD, Pipeline, RetryLadder, RowFailed, pack_json, row_step, topic

@row_step("id long", columns=["value", RECORD])
def read(row):
    number = json.loads(row["value"])["id"]
    if number == {dying} or number == {retried} and row[RECORD]["attempts"] < 1:
        raise RowFailed(f"order {{number}} failed")
    return {{"id": number}}

pipeline = Pipeline(
    "secured", source=topic("orders"), steps=[read, pack_json("id", key="id")], sink=topic("orders.clean"),
    on_failure=RetryLadder(delays=["100ms"], keep_order_by_key={keeps_order}), checkpoint={checkpoint!r}, trigger="0s",
)
"""


@dataclass(frozen=True)
class Secured:
    broker: Broker
    certificates: Certificates
    home: Path

    def settings(self, module: str, mechanism: str, user: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": (self.certificates.home / "ca.pem").read_text(),
        }

    @property
    def admin(self) -> dict[str, str]:
        return self.settings(PLAIN, "PLAIN", "admin", ADMIN_PASSWORD)

    @property
    def client(self) -> dict[str, str]:
        """Of the pipeline: a password, and a certificate with its key in the settings themselves."""
        key, chain = (self.certificates.home / f"alice.{part}" for part in ("key", "crt"))
        return {
            **self.settings(SCRAM, "SCRAM-SHA-512", "orders", PASSWORD),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key.read_text(),
            "ssl.keystore.certificate.chain": chain.read_text(),
        }

    def file(self, name: str, settings: dict[str, str]) -> str:
        path = self.home / f"{name}.properties"
        path.touch(mode=0o600)
        path.write_text(format_properties(settings))
        return str(path)

    @property
    def secrets(self) -> list[bytes]:
        lines = (self.certificates.home / "alice.key").read_text().splitlines()
        return [PASSWORD.encode(), *(line.encode() for line in lines if "-----" not in line)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("secured")
    certificates = make_certificates(home)
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required username="admin" password="{ADMIN_PASSWORD}" user_admin="{ADMIN_PASSWORD}";'
        ),
        "ssl.client.auth": "requested",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        **certificates.broker(),
    }
    with Broker(config=settings, process=True) as broker:
        found = Secured(broker, certificates, home)
        as_admin = ["--command-config", found.file("admin", found.admin)]
        password = home / "password"
        password.write_text(PASSWORD)
        _done(run_here("user", "add", "orders", "--password-file", str(password), *as_admin))
        for words in ACCESS:
            _done(run_here("acl", "add", "--principal", "User:orders", *words.split(), *as_admin))
        yield found


ACCESS = [
    "--operation read --operation describe-configs --topic orders",
    "--operation write --topic orders.clean",
    "--operation create --operation read --operation write --operation delete --topic orders.retry --prefixed",
    "--operation create --operation read --operation write --topic orders.dlq",
    "--operation create --operation read --operation write --operation describe-configs --topic __tidelog_ --prefixed",
    "--operation describe-configs --cluster",
    "--operation write --operation describe --transactional-id tidelog-sink- --prefixed",
    # For replays.
    "--operation write --operation describe --transactional-id tidelog-replay- --prefixed",
    "--operation read --group tidelog-replay- --prefixed",
    "--operation write --topic orders",
]
"""What docs/pipelines.md says that a pipeline needs."""


def _done(ran: Ran) -> Ran:
    assert ran.code == 0, ran
    return ran


def _ids(secured: Secured, name: str) -> list[int]:
    with Cluster(secured.admin) as cluster:
        partitions = [TopicPartition(name, each) for each in range(cluster.partition_count(name))]
        ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
        until = {each: place.offset for each, place in ends.items()}
        records = cluster.read(dict.fromkeys(partitions, 0), until, read_committed=True)
        return sorted(json.loads(bytes(record.value or b""))["id"] for record in records)


@pytest.mark.long
def test_a_pipeline_runs_behind_tls_scram_and_acls_and_shows_no_secret(
    secured: Secured, spark: SparkSession, tmp_path: Path
) -> None:
    with Admin(secured.admin) as admin:
        admin.create_topics([NewTopic("orders", 2), NewTopic("orders.clean", 2)])
    with Producer(secured.admin) as producer:
        for number in range(10):
            producer.send("orders", json.dumps({"id": number}).encode(), f"k{number % 3}".encode())
    checkpoint, events = tmp_path / "checkpoint", tmp_path / "events"
    events.mkdir()
    given = {"dying": DYING, "retried": RETRIED, "keeps_order": True, "checkpoint": str(checkpoint)}
    file = tmp_path / "secured.py"
    file.write_text(DEFINITION.format(**given))
    config = ["--command-config", secured.file("client", secured.client)]
    logged = [f"spark.eventLog.{name}" for name in ("enabled=true", "compress=false", f"dir=file://{events}")]
    words = [word for each in [*logged, "spark.log.level=INFO"] for word in ("--conf", each)]
    with lineage_server() as lineage:
        words += ["--openlineage-url", lineage.url, "--verbose", "--format", "json", "--master", "local[2]"]
        ran = _done(run("pipeline", "run", str(file), "--drain", *words, *config, timeout_s=600))
        shown = [ran.out, ran.err, json.dumps(lineage.events)]
    assert lineage.events
    assert _ids(secured, "orders.clean") == [number for number in range(10) if number != DYING]
    assert _ids(secured, "orders.dlq") == [DYING]

    status = _done(run_here("pipeline", "status", "secured", "--format", "json", *config))
    assert status.document[0]["state"] == "done"
    replayed = _done(run_here("pipeline", "replay", str(file), "--format", "json", *config))
    assert replayed.document["sent"] == {"orders": 1}
    assert _ids(secured, "orders").count(DYING) == 2

    backfilled = Pipeline(
        "again",
        source=topic("orders"),
        steps=[parse_json("id long"), pack_json("id", key="id")],
        sink=topic("orders.clean"),
        checkpoint=tmp_path / "backfill",
        client_settings=secured.client,
    )
    filling = Backfill(backfilled, spark, None, state_of(backfilled, "first"))
    assert filling.run(filling.plan({}, Bound(), Bound(), 100), lambda _: None, lambda: False)
    assert len(_ids(secured, "orders.clean")) == 9 + 11
    records = filling._rows(filling.plan({}, Bound(), Bound(), 100).part(0))
    shown += [status.out, replayed.out, repr(backfilled), records._jdf.queryExecution().toString()]

    texts = [text.encode() for text in shown]
    texts += [path.read_bytes() for place in (tmp_path,) for path in place.rglob("*") if path.is_file()]
    assert any(b"physicalPlanDescription" in text for text in texts), "the event log, with its plans, was searched"
    assert not [secret for secret in secured.secrets if any(secret in text for text in texts)]


def test_a_wrong_password_is_named_as_such_and_not_shown(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "secured.py"
    given = {"dying": DYING, "retried": RETRIED, "keeps_order": False, "checkpoint": str(tmp_path / "checkpoint")}
    file.write_text(DEFINITION.format(**given))
    wrong = secured.settings(SCRAM, "SCRAM-SHA-512", "orders", "not-the-password")
    ran = run_here("pipeline", "plan", str(file), "--command-config", secured.file("wrong", wrong))
    assert ran.code == 1
    assert "uthentication" in ran.err
    assert "not-the-password" not in ran.err
    missing = os.fspath(tmp_path / "missing.properties")
    ran = run_here("pipeline", "plan", str(file), "--command-config", missing)
    assert (ran.code, missing in ran.err) == (1, True)
