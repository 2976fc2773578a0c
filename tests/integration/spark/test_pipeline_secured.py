"""A pipeline on a broker with TLS, SCRAM and ACLs: each part of it connects, and its secrets are shown nowhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.integration.certificates import Certificates, make_certificates
from tests.integration.cli_support import Ran, run, run_here
from tests.integration.inside import Inside
from tests.integration.spark.secured_support import broker_settings, client_settings
from tests.integration.spark.sink_world import Query, rows_of
from tidelog.client import Admin, NewTopic, Producer, TopicPartition
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.cluster import Cluster
from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.config.properties import format_properties
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.pipeline import delta
from tidelog.spark.pipeline.definition.loading import load_pipeline
from tidelog.spark.pipeline.failing.own_topics import make_missing, room_for_failed
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.lake.tables import open_table
from tidelog.spark.pipeline.running.status_topic import StatusWriter
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State
from tidelog.spark.sink import clients
from tidelog.spark.source.batch_reader import BatchReader
from tidelog.spark.source.columns import full_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PASSWORD = "correct-horse-battery"
RETRIED, DYING = 4, 7

DEFINITION = """
import json
from tidelog.spark.pipeline import RECORD, Pipeline, RetryLadder, RowFailed, delta, pack_json, row_step, topic

@row_step("id long", columns=["value", RECORD])
def read(row):
    number = json.loads(row["value"])["id"]
    if number == {dying} or number == {retried} and row[RECORD]["attempts"] < 1:
        raise RowFailed(f"order {{number}} failed")
    return {{"id": number}}

pipeline = Pipeline(
    "secured", source=topic("orders"), steps=[read, pack_json("id", key="id")], sink=[{sinks}],
    on_failure=RetryLadder(delays=["100ms"], keep_order_by_key={keeps_order}), checkpoint={checkpoint!r}, trigger="0s",
)
"""


def define(home: Path, *, keeps_order: bool = False, sinks: str = 'topic("orders.clean")') -> str:
    """Write a definition whose checkpoint is beside it; returns its path."""
    file = home / "secured.py"
    given = {"dying": DYING, "retried": RETRIED, "keeps_order": keeps_order, "sinks": sinks}
    file.write_text(DEFINITION.format(**given, checkpoint=str(home / "checkpoint")))
    return str(file)


@dataclass(frozen=True)
class Secured:
    broker: Inside
    certificates: Certificates
    home: Path

    def settings(self, *login: str) -> dict[str, str]:
        return client_settings(f"127.0.0.1:{self.broker.port}", self.certificates, *login)

    @property
    def admin(self) -> dict[str, str]:
        return self.settings()

    @property
    def client(self) -> dict[str, str]:
        """Of the pipeline: a password, and a certificate with its key in the settings themselves."""
        key, chain = (self.certificates.home / f"alice.{part}" for part in ("key", "crt"))
        return {
            **self.settings("SCRAM-SHA-512", "orders", PASSWORD),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key.read_text(),
            "ssl.keystore.certificate.chain": chain.read_text(),
        }

    @property
    def with_token(self) -> dict[str, str]:
        """The same; tasks log in with a delegation token."""
        return {**self.client, "auth.bootstrap.servers": self.client["bootstrap.servers"]}

    def sessions(self) -> set[tuple[str, str | None, bool]]:
        """Principal and client id of each connection, and whether it has a delegation token."""
        connections = self.broker.node.socket_server.connections
        found = self.broker.on_loop(lambda: [each.session for each in connections.values()])
        return {(each.principal, each.client_id, each.has_token) for each in found}

    def file(self, name: str, settings: dict[str, str]) -> str:
        path = self.home / f"{name}.properties"
        path.touch(mode=0o600)
        path.write_text(format_properties(settings))
        return str(path)

    @property
    def secrets(self) -> list[bytes]:
        lines = (self.certificates.home / "alice.key").read_text().splitlines()
        return [PASSWORD.encode(), *(line.encode() for line in lines if "-----" not in line)]


@contextmanager
def secured_broker(home: Path) -> Iterator[Secured]:
    """A broker on which the principal `orders` may do what docs/pipelines/operating.md says that a pipeline needs."""
    certificates = make_certificates(home)
    settings = {
        "ssl.client.auth": "requested",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with Inside(home / "data", broker_settings(certificates, **settings)) as broker:
        found = Secured(broker, certificates, home)
        as_admin = ["--command-config", found.file("admin", found.admin)]
        password = home / "password"
        password.write_text(PASSWORD)
        _done(run_here("user", "add", "orders", "--password-file", str(password), *as_admin))
        for words in ACCESS:
            _done(run_here("acl", "add", "--principal", "User:orders", *words.split(), *as_admin))
        yield found
        clients.PRODUCERS.close_all()
        CLUSTERS.close_all()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
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


def test_each_part_of_a_pipeline_connects_with_the_file(secured: Secured, tmp_path: Path) -> None:
    """Source, sink and state, retries and dead letters, status and replay, each as the principal of the pipeline."""
    file = define(tmp_path, keeps_order=True)
    path = secured.file("client", secured.client)
    with Admin(secured.admin) as admin:
        admin.create_topics([NewTopic("orders", 2), NewTopic("orders.clean", 2)])
    with Producer(secured.admin) as producer:
        for number in range(4):
            producer.send("orders", json.dumps({"id": number}).encode())
    pipeline = replace(load_pipeline(file), command_config=path)
    connection, ladder = pipeline.connection(), ladder_of(pipeline)
    assert ladder is not None

    with Cluster(connection.client()) as cluster:
        make_missing(cluster, ladder, 2, room_for_failed(cluster, ("orders",)))
    options = {**connection.options(), "subscribe": "orders", "includeHeaders": "true"}
    reader = BatchReader(full_schema(options), options)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert sorted(json.loads(value)["id"] for value in values) == list(range(4))

    for run_id in ("run-1", "run-2"):
        query = Query(connection.servers, "orders.clean", checkpoint="c", run_id=run_id, commandConfig=path)
        query.run(0, [rows_of(key=[None] * 4, value=values)])
    assert _ids(secured, "orders.clean") == list(range(4)), "the repeated batch was found in the state topic"

    trail = Trail("secured", 1, "ValueError", "no", 1, Origin("orders", 0, 0, 1))
    with Producer(connection.client()) as producer:
        producer.send("orders.dlq", values[0], headers=[*encode(trail)])
    words = ["--format", "json", "--command-config", path]
    assert _done(run_here("pipeline", "replay", file, *words)).document["sent"] == {"orders": 1}
    writer = StatusWriter({"secured": connection}, {})
    writer.write(PipelineStatus("secured", State.DONE, "run-1"))
    writer.close()
    assert _done(run_here("pipeline", "status", "secured", *words)).document[0]["state"] == "done"
    plan = _done(run_here("pipeline", "plan", file, *words))
    assert {read["topic"] for read in plan.document["reads"]} == {"orders", "orders.retry.1"}
    shown = f"{plan} {pipeline!r} {connection!r} {connection.options()} {reader._settings!r}"
    assert not [secret for secret in secured.secrets if secret.decode() in shown]


@pytest.mark.long
def test_a_whole_pipeline_runs_with_tokens_in_its_tasks_and_shows_no_secret(tmp_path: Path) -> None:
    """Retries, dead letters, a topic in transactions and a table; plans, progress, event log and checkpoint."""
    home, shown = tmp_path / "home", tmp_path / "shown"
    home.mkdir()
    (shown / "events").mkdir(parents=True)
    file = define(shown, sinks=f'topic("orders.clean"), delta({str(shown / "table")!r}, columns=["key"])')
    with secured_broker(home) as secured:
        with Admin(secured.admin) as admin:
            admin.create_topics([NewTopic("orders", 2), NewTopic("orders.clean", 2)])
        with Producer(secured.admin) as producer:
            for number in range(10):
                producer.send("orders", json.dumps({"id": number}).encode(), f"k{number % 3}".encode())
        config = ["--format", "json", "--command-config", secured.file("client", secured.with_token)]
        logged = [f"spark.eventLog.{name}" for name in ("enabled=true", "compress=false", f"dir={shown / 'events'}")]
        words = [word for each in [*logged, "spark.log.level=INFO"] for word in ("--conf", each)]
        with ThreadPoolExecutor(1) as pool:
            words += ["--restarts", "0", "--verbose", "--master", "local[2]"]
            running = pool.submit(run, "pipeline", "run", file, "--drain", *words, *config, timeout_s=600)
            sessions: set[tuple[str, str | None, bool]] = set()
            while not running.done():
                sessions |= secured.sessions()
                wait([running], 0.1)
        ran = _done(running.result())
        expected = [number for number in range(10) if number != DYING]
        assert _ids(secured, "orders.clean") == expected
        assert sorted(int(key) for key in open_table(delta(shown / "table")).read()["key"].to_pylist()) == expected
        assert _ids(secured, "orders.dlq") == [DYING]
        tasks = {client_id for principal, client_id, has_token in sessions if has_token and principal == "User:orders"}
        assert tasks >= {"spark-kafka-source", "tidelog"}, "tasks that read, and tasks that write"
        status = _done(run_here("pipeline", "status", "secured", *config))
        assert status.document[0]["state"] == "done"
        replayed = _done(run_here("pipeline", "replay", file, *config))
        assert replayed.document["sent"] == {"orders": 1}
        with Admin(secured.admin) as admin:
            [token] = admin.describe_delegation_tokens()

    texts = [str(ran).encode(), str(status).encode(), str(replayed).encode()]
    texts += [path.read_bytes() for path in shown.rglob("*") if path.is_file()]
    for searched in (b"physicalPlanDescription", b"QueryProgressEvent"):
        assert any(searched in text for text in texts), searched
    secrets = [*secured.secrets, token.hmac.encode()]
    assert not [secret for secret in secrets if any(secret in text for text in texts)]


def test_a_wrong_password_is_named_as_such_and_not_shown(secured: Secured, tmp_path: Path) -> None:
    file = define(tmp_path)
    wrong = secured.settings("SCRAM-SHA-512", "orders", "not-the-password")
    ran = run_here("pipeline", "plan", file, "--command-config", secured.file("wrong", wrong))
    assert ran.code == 1
    assert "uthentication" in ran.err
    assert "not-the-password" not in ran.err
    missing = os.fspath(tmp_path / "missing.properties")
    ran = run_here("pipeline", "plan", file, "--command-config", missing)
    assert (ran.code, missing in ran.err) == (1, True)
